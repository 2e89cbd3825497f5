package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
)

// Lines reads the messages of a process, one on each line. A line that is no
// message, as careless servers print them, goes to note. One over the limit is
// not kept: an error takes its place, so that its call ends and the others go on.
type Lines struct {
	source io.ReadCloser
	reader *bufio.Reader
	limit  int
	note   func(line []byte)
	rest   []byte
	within bool // a line over the limit, whose answer was given
}

const lineBuffer = 64 << 10

// NewLines reads from a source, until that ends.
func NewLines(source io.ReadCloser, limit int, note func(line []byte)) *Lines {
	return &Lines{source: source, reader: bufio.NewReaderSize(source, lineBuffer), limit: limit, note: note}
}

// Read implements io.Reader.
func (l *Lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		line, err := l.line()
		if err != nil {
			return 0, err
		}
		switch {
		case len(line) == 0:
		case line[0] != '{' && line[0] != '[', !json.Valid(line):
			l.note(line)
		default:
			l.rest = append(literal(line), '\n')
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (l *Lines) Close() error { return l.source.Close() }

var errNoID = errors.New("a message over the limit has no id")

func (l *Lines) line() ([]byte, error) {
	for l.within {
		_, err := l.reader.ReadSlice('\n')
		if l.within = errors.Is(err, bufio.ErrBufferFull); !l.within && err != nil {
			return nil, err
		}
	}
	var line []byte
	for {
		part, err := l.reader.ReadSlice('\n')
		if len(line)+len(part) > l.limit {
			return l.skip(line, part, err)
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && len(bytes.TrimSpace(line)) == 0 {
			return nil, err
		}
		return bytes.TrimSpace(line), nil // an error comes back with the next
	}
}

// idAtEnd finds the id of a message that has it last.
var idAtEnd = regexp.MustCompile(`"id"\s*:\s*(-?\d+|"[^"\\]*")\s*}\s*$`)

// skip answers in the place of a line that is too long: at once where its id comes
// first, else when it was read to its end. What is no answer itself has an id of the
// server's counting, and is left out.
func (l *Lines) skip(head, part []byte, err error) ([]byte, error) {
	const enough = 1024
	begin := append(slices.Clip(head), part...)
	begin = begin[:min(len(begin), enough)]
	id, asks := idAtBeginning(begin)
	if id != nil && !asks && errors.Is(err, bufio.ErrBufferFull) {
		l.within = true
		return tooLarge(id, int64(l.limit)), nil
	}
	tail := bytes.Clone(part)
	for errors.Is(err, bufio.ErrBufferFull) {
		part, err = l.reader.ReadSlice('\n')
		tail = append(tail, part...)
		if len(tail) > enough {
			tail = append(tail[:0], tail[len(tail)-enough:]...)
		}
	}
	if err != nil {
		return nil, err
	}
	if asks {
		l.note([]byte("a request or a notification over the limit"))
		return nil, nil
	}
	if id == nil {
		if found := idAtEnd.FindSubmatch(tail); found != nil {
			id = found[1]
		}
	}
	if id == nil {
		return nil, errNoID
	}
	return tooLarge(id, int64(l.limit)), nil
}

// idAtBeginning reads the members of an object as far as they are small, and
// returns the value of id; nil if that is not among them. asks says that the message
// is no answer: it has members that answers do not have.
func idAtBeginning(begin []byte) (id json.RawMessage, asks bool) {
	d := json.NewDecoder(bytes.NewReader(begin))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, false
	}
	for {
		name, err := d.Token()
		if err != nil {
			return id, asks
		}
		asks = asks || name == "method" || name == "params"
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return id, asks
		}
		if name == "id" {
			id = value
		}
	}
}
