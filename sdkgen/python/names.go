package python

import (
	"sort"
	"strconv"
	"strings"
)

// Name maps any text to a Python identifier. The rule is fixed, because code
// written against one bundle must keep working with the next:
//
//  1. Every run of characters other than ASCII letters, digits and "_" becomes
//     one "_". Letters beyond ASCII are replaced as well: Python normalises
//     them (NFKC), so two different names could silently become one.
//  2. Leading and trailing "_" are dropped, unless the text is already an
//     identifier that only ends in "_". A leading "_" would mean private, and
//     a double one is rewritten by Python inside a class.
//  3. A name that starts with a digit gets "_" in front.
//  4. A Python keyword gets "_" behind: from becomes from_.
//  5. Nothing left gives fallback.
//
// Upper and lower case are kept. Name itself does not keep two texts apart;
// nameSet does.
func Name(text, fallback string) string {
	var b strings.Builder
	replaced := false
	for _, r := range text {
		if r == '_' || isAlnum(r) {
			if replaced && b.Len() > 0 {
				b.WriteByte('_')
			}
			replaced = false
			b.WriteRune(r)
			continue
		}
		replaced = true
	}
	name := strings.TrimLeft(b.String(), "_")
	if replaced || name != text {
		name = strings.TrimRight(name, "_")
	}
	switch {
	case strings.Trim(name, "_") == "":
		return fallback
	case name[0] >= '0' && name[0] <= '9':
		name = "_" + name
	}
	if isKeyword(name) {
		name += "_"
	}
	return name
}

// ClassName maps a toolset key to a class name: the parts between characters
// that are not letters or digits, each with a capital first letter. fal_image
// becomes FalImage; a key that starts with a digit gets "Toolset" in front.
func ClassName(key string) string {
	var b strings.Builder
	start := true
	for _, r := range key {
		if !isAlnum(r) {
			start = true
			continue
		}
		if start && r >= 'a' && r <= 'z' {
			r -= 'a' - 'A'
		}
		start = false
		b.WriteRune(r)
	}
	name := b.String()
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "Toolset" + name
	}
	if isKeyword(name) {
		name += "_"
	}
	return name
}

func isAlnum(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// isKeyword reports the words that cannot be a name in any Python 3 version
// the SDK supports. The soft keywords (match, case, type, _) can.
func isKeyword(s string) bool {
	switch s {
	case "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
		"def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in",
		"is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield":
		return true
	}
	return false
}

// nameSet gives every text of one scope its own name, and never a reserved one.
//
// A text that already is its own name keeps it. The others follow, sorted; one
// that finds its name taken gets the first free of name_2, name_3, … So the
// result depends on the set alone, not on its order. A reserved name counts as
// a keyword: it gets "_" behind.
func nameSet(texts []string, mapping func(string) string, reserved ...string) map[string]string {
	return moreNames(nil, texts, mapping, reserved...)
}

// moreNames is nameSet for texts that join others, whose names are known: these
// keep them, and nobody else gets one of them.
func moreNames(known map[string]string, texts []string, mapping func(string) string, reserved ...string) map[string]string {
	taken := make(map[string]bool, len(texts))
	forbidden := make(map[string]bool, len(reserved))
	for _, r := range reserved {
		forbidden[r] = true
	}
	sorted := append([]string(nil), texts...)
	sort.Strings(sorted)
	names := make(map[string]string, len(texts))
	assign := func(text, name string) {
		names[text], taken[name] = name, true
	}
	for text, name := range known {
		assign(text, name)
	}
	for _, text := range sorted {
		if names[text] == "" && mapping(text) == text && !forbidden[text] && !taken[text] {
			assign(text, text)
		}
	}
	for _, text := range sorted {
		if names[text] != "" {
			continue
		}
		base := mapping(text)
		if forbidden[base] {
			base += "_"
		}
		name := base
		for n := 2; taken[name] || forbidden[name]; n++ {
			name = strings.TrimRight(base, "_") + "_" + strconv.Itoa(n)
		}
		assign(text, name)
	}
	return names
}
