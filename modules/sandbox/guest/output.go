package guest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/portico-run/portico/modules/sandbox"
)

// collector keeps the head and the tail of one stream and passes its lines on:
// those of the head at once, those of the tail when the stream has ended.
type collector struct {
	limit      int64
	emit       func(line string)
	head, tail []byte
	dropped    int64  // between the two
	line       []byte // what came after the last line end
}

// tailLimit is how much of the limit is kept for the end, where a traceback is.
func (c *collector) tailLimit() int { return int(c.limit / 4) }

func (c *collector) add(p []byte) {
	n := min(int(c.limit)-c.tailLimit()-len(c.head), len(p))
	c.head = append(c.head, p[:n]...)
	c.lines(p[:n])
	c.tail = append(c.tail, p[n:]...)
	if len(c.tail) > 2*c.tailLimit() { // not with each piece: what stays is moved
		c.shorten()
	}
}

// shorten drops what does not fit from the beginning of the tail.
func (c *collector) shorten() {
	over := max(len(c.tail)-c.tailLimit(), 0)
	c.dropped += int64(over)
	c.tail = append(c.tail[:0], c.tail[over:]...)
}

// lines passes on the lines that p completes.
func (c *collector) lines(p []byte) {
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
	c.shorten()
	if c.dropped > 0 {
		c.cut()
		c.rest()
		c.emit(c.notice())
	}
	c.lines(c.tail)
	c.rest()
}

// cut drops besides what the limit made incomplete: the last character of the
// head, and the first line of the tail or at least its first character.
func (c *collector) cut() {
	half := incomplete(c.head)
	c.head, c.line = c.head[:len(c.head)-half], c.line[:len(c.line)-min(half, len(c.line))]
	begin := bytes.IndexByte(c.tail, '\n') + 1
	if begin == 0 || begin == len(c.tail) {
		for begin = 0; begin < min(len(c.tail), utf8.UTFMax-1) && !utf8.RuneStart(c.tail[begin]); begin++ {
		}
	}
	c.tail = c.tail[begin:]
	c.dropped += int64(half + begin)
}

// rest passes on a line that has no end.
func (c *collector) rest() {
	if len(c.line) > 0 {
		c.emit(clean(c.line))
		c.line = c.line[:0]
	}
}

func (c *collector) notice() string {
	return fmt.Sprintf("[output limit reached: %d more bytes were dropped here]", c.dropped)
}

// text is everything that was kept, with the notice where something was not.
func (c *collector) text() string {
	if c.dropped == 0 {
		return clean(append(c.head, c.tail...))
	}
	return withLine(clean(c.head), c.notice()) + clean(c.tail)
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

// outputs are the two collectors of one job.
type outputs struct {
	stdout, stderr collector
	done           sync.WaitGroup
}

func (o *outputs) wait() { o.done.Wait() }

// collect reads both streams until nobody has them open any more, also beyond
// the limit, so that the program does not block on a full pipe.
func (s *Session) collect(emit func(sandbox.Stream, string)) (*outputs, error) {
	var mu sync.Mutex
	o := &outputs{}
	read := func(into *collector, from *os.File, stream sandbox.Stream) error {
		into.limit = s.Limits.Output
		into.emit = func(line string) {
			if emit == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			emit(stream, line)
		}
		o.done.Add(1)
		_, err := s.Poller.Watch(from, func() (again bool) {
			if again = s.Poller.read(from, into.add); !again {
				into.finish()
				o.done.Done()
			}
			return again
		})
		if err != nil {
			o.done.Done()
		}
		return err
	}
	return o, errors.Join(read(&o.stdout, s.Stdout, sandbox.Stdout), read(&o.stderr, s.Stderr, sandbox.Stderr))
}
