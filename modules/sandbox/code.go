package sandbox

import (
	"strings"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/errs"
)

// PrepareCode makes a program of what a caller, or a model, sends as one: a
// Markdown fence around it is taken off, so that line 1 is the first line of
// the code. It refuses what no program can be.
func PrepareCode(code string) (string, error) {
	code = withoutFence(code)
	if strings.TrimSpace(code) == "" {
		return "", errs.New(errs.Invalid, "code is required").Do("Send the program as code.")
	}
	if err := checkCode(code); err != nil {
		return "", err
	}
	return code, nil
}

// checkCode refuses code that no interpreter takes. It returns nil, not a nil
// *errs.Error, for code that may run.
func checkCode(code string) error {
	switch {
	case len(code) > MaxCode:
		return errs.Newf(errs.TooLarge, "code must not be larger than %d bytes.", MaxCode)
	case !utf8.ValidString(code):
		return errs.New(errs.Invalid, "code must be UTF-8.")
	case strings.ContainsRune(code, 0):
		return errs.New(errs.Invalid, "code must not hold NUL.")
	}
	return nil
}

// fence begins and ends a block of code in Markdown. It begins no program in
// any of the languages.
const fence = "```"

// withoutFence takes a fence off that is around all of the code. One that is
// not closed was cut off, or forgotten.
func withoutFence(code string) string {
	trimmed := strings.TrimSpace(code)
	first, rest, found := strings.Cut(trimmed, "\n")
	language, fenced := strings.CutPrefix(strings.TrimSpace(first), fence)
	if !found || !fenced || strings.Contains(language, "`") {
		return code
	}
	if last := strings.LastIndexByte(rest, '\n'); strings.TrimSpace(rest[last+1:]) == fence {
		rest = rest[:last+1]
	}
	return rest
}
