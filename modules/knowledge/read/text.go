package read

import (
	"bytes"
	"context"
	"path"
	"strings"

	"golang.org/x/net/html/charset"
)

// maxText is the longest text, Markdown or HTML that is read, in bytes.
const maxText = 16 << 20

// Text reads plain text.
type Text struct{}

// Read implements Reader.
func (Text) Read(_ context.Context, s Source) (Document, error) {
	b, err := content(s, maxText)
	if err != nil {
		return Document{}, err
	}
	text, err := Decode(b, s.MIME)
	if err != nil {
		return Document{}, err
	}
	if text = strings.TrimSpace(text); text == "" {
		return Document{}, ErrEmpty.Do("The file is empty.")
	}
	return Document{Source: s.Name, Title: path.Base(s.Name), Sections: []Section{{Text: text}}}, nil
}

// Decode is text as UTF-8 with plain line ends: by its byte order mark, by the
// charset of its declared media type, by what a page says of itself, or else by
// what its bytes can be. Bytes that are no text are ErrType.
func Decode(b []byte, declared string) (string, error) {
	enc, name, _ := charset.DetermineEncoding(b, declared)
	if name != "utf-8" || bytes.HasPrefix(b, []byte("\xef\xbb\xbf")) {
		decoded, err := enc.NewDecoder().Bytes(b)
		if err != nil {
			return "", ErrDamaged.Do("It is not valid " + name + ".").With(err)
		}
		b = decoded
	}
	if binary(b) {
		return "", ErrType.Do("It is a binary file, and not text.")
	}
	text := strings.ToValidUTF8(string(b), "\uFFFD")
	text = strings.TrimPrefix(text, "\uFEFF")
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n"), nil
}

// binary reports whether bytes hold what no text has.
func binary(b []byte) bool {
	head := b[:min(len(b), 64<<10)]
	control := 0
	for _, c := range head {
		if c == 0 {
			return true
		}
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != 0x1b {
			control++
		}
	}
	return control*20 > len(head)
}
