package guest

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/portico-run/portico/modules/sandbox"
)

// collector keeps the head of one stream and passes its lines on.
type collector struct {
	limit   int64
	emit    func(line string)
	kept    []byte
	dropped int64
	line    []byte // what came after the last line end
}

// drain reads r to its end, also beyond the limit, so that the program does
// not block on a full pipe.
func (c *collector) drain(r io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		c.add(buf[:n])
		if err != nil {
			c.finish()
			return
		}
	}
}

func (c *collector) add(p []byte) {
	if room := c.limit - int64(len(c.kept)); int64(len(p)) > room {
		c.dropped += int64(len(p)) - room
		p = p[:room]
	}
	c.kept = append(c.kept, p...)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			c.line = append(c.line, p...)
			break
		}
		c.line = append(c.line, p[:end]...)
		c.chop(sandbox.MaxLine)
		c.emit(clean(c.line))
		c.line = c.line[:0]
		p = p[end+1:]
	}
	c.chop(sandbox.MaxLine)
}

// chop emits pieces until at most limit bytes of the line are left.
func (c *collector) chop(limit int) {
	for len(c.line) > limit {
		cut := limit - incomplete(c.line[:limit])
		c.emit(clean(c.line[:cut]))
		c.line = append(c.line[:0], c.line[cut:]...)
	}
}

func (c *collector) finish() {
	if c.dropped > 0 {
		for _, b := range []*[]byte{&c.kept, &c.line} {
			*b = (*b)[:len(*b)-incomplete(*b)]
		}
	}
	if len(c.line) > 0 {
		c.emit(clean(c.line))
	}
	if c.dropped > 0 {
		c.emit(c.notice())
	}
}

func (c *collector) notice() string {
	return fmt.Sprintf("[output limit reached: %d more bytes were dropped]", c.dropped)
}

// text is everything that was kept, with the notice if something was not.
func (c *collector) text() string {
	text := clean(c.kept)
	if c.dropped == 0 {
		return text
	}
	return withLine(text, c.notice())
}

// withLine appends a line of its own.
func withLine(text, line string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + line + "\n"
}

// incomplete is the number of bytes at the end of b that begin a character
// whose rest is missing.
func incomplete(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if last := b[len(b)-n]; utf8.RuneStart(last) {
			if last >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// clean makes text that every JSON reader and database takes.
func clean(b []byte) string {
	b = bytes.ToValidUTF8(b, []byte("\uFFFD"))
	return string(bytes.ReplaceAll(b, []byte{0}, []byte("\uFFFD")))
}
