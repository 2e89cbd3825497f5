package python

import (
	"fmt"
	"strings"
	"unicode"
)

// quote renders text as a Python string literal. Everything that is not
// printable is escaped, so that no invisible or bidirectional character can
// make the source read differently from what it is.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		default:
			writeRune(&b, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// writeRune writes a printable character as it is and any other escaped.
func writeRune(b *strings.Builder, r rune) {
	switch {
	case unicode.IsPrint(r):
		b.WriteRune(r)
	case r <= 0xff:
		fmt.Fprintf(b, `\x%02x`, r)
	case r <= 0xffff:
		fmt.Fprintf(b, `\u%04x`, r)
	default:
		fmt.Fprintf(b, `\U%08x`, r)
	}
}

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
			writeRune(&b, r)
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
