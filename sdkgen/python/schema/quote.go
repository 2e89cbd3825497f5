package schema

import (
	"fmt"
	"strings"
	"unicode"
)

// Quote renders text as a Python string literal. Everything that is not
// printable is escaped, so that no invisible or bidirectional character can
// make the source read differently from what it is.
func Quote(s string) string {
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
			WriteRune(&b, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// WriteRune writes a printable character as it is and any other escaped.
func WriteRune(b *strings.Builder, r rune) {
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
