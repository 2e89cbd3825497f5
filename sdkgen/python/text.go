package python

import (
	"strings"
	"unicode"

	"github.com/portico-run/portico/sdkgen/python/schema"
)

// docstring renders lines as a docstring at an indentation. No text can end it:
// backslashes are escaped, and so are quotation marks that touch another one
// or an end.
func docstring(lines []string, indent string) string {
	body := []rune(strings.Join(lines, "\n"))
	var b strings.Builder
	b.WriteString(indent + `"""`)
	for i, r := range body {
		switch {
		case r == '\n' && i+1 < len(body) && body[i+1] != '\n':
			b.WriteString("\n" + indent)
		case r == '\n':
			b.WriteByte('\n')
		case r == '\\':
			b.WriteString(`\\`)
		case r == '"' && (i == 0 || i == len(body)-1 || body[i-1] == '"' || body[i+1] == '"'):
			b.WriteString(`\"`)
		default:
			schema.WriteRune(&b, r)
		}
	}
	if len(lines) > 1 {
		b.WriteString("\n" + indent)
	}
	b.WriteString(`"""` + "\n")
	return b.String()
}

// textLines splits a description into lines: any line ending counts, tabs
// become spaces, ends are trimmed, at most one empty line stays empty in a
// row, none at either end.
func textLines(text string) []string {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\t", "    ").Replace(strings.ToValidUTF8(text, "\uFFFD"))
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimRightFunc(line, unicode.IsSpace)
		if line == "" && (len(lines) == 0 || lines[len(lines)-1] == "") {
			continue
		}
		lines = append(lines, line)
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// oneLine folds a description into a single line.
func oneLine(text string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
}
