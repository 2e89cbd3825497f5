package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// events is a stream of server-sent events with bounds. Of the answer to one
// request all events together are bounded; of a stream that has no end, each one.
type events struct {
	source  io.ReadCloser
	reader  *bufio.Reader
	limit   int64
	id      json.RawMessage // of the request
	endless bool

	cr    bool // the last line ended with CR; an LF that follows is no line
	read  int64
	ready []byte
	ended bool
}

// Read implements io.Reader.
func (e *events) Read(p []byte) (int, error) {
	if e.reader == nil {
		e.reader = bufio.NewReaderSize(e.source, lineBuffer)
	}
	for len(e.ready) == 0 {
		if e.ended {
			return 0, io.EOF
		}
		if err := e.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, e.ready)
	e.ready = e.ready[n:]
	return n, nil
}

// Close implements io.Closer.
func (e *events) Close() error { return e.source.Close() }

// next reads one event.
func (e *events) next() error {
	if e.endless {
		e.read = 0
	}
	var fields, data []byte
	found := false
	for {
		line, err := e.line()
		if errors.Is(err, ErrTooLarge) {
			return e.over()
		}
		if err != nil { // what is begun is no event
			return err
		}
		value, isData := bytes.CutPrefix(line, []byte("data:"))
		switch {
		case len(line) == 0:
			if found {
				fields = appendData(fields, data)
			}
			e.ready = append(fields, '\n')
			return nil
		case line[0] == ':': // it keeps the connection alive, and says nothing
			if e.endless && !found {
				e.read = 0
			}
		case isData:
			if found {
				data = append(data, '\n')
			}
			data, found = append(data, bytes.TrimPrefix(value, []byte(" "))...), true
		default:
			fields = append(append(fields, line...), '\n')
		}
	}
}

// appendData writes a message on one line.
func appendData(fields, data []byte) []byte {
	if bytes.IndexByte(data, '\n') >= 0 {
		var line bytes.Buffer
		if json.Compact(&line, data) != nil {
			line.Reset()
			line.Write(bytes.ReplaceAll(data, []byte("\n"), []byte("\ndata: ")))
		}
		data = line.Bytes()
	}
	return append(append(append(fields, "data: "...), literal(data)...), '\n')
}

// over ends the stream; the request gets an error for its answer.
func (e *events) over() error {
	e.ended = true
	if len(e.id) == 0 {
		return ErrTooLarge
	}
	e.ready = append(append([]byte("data: "), tooLarge(e.id, e.limit)...), "\n\n"...)
	return nil
}

// line reads up to the end of a line: CR LF, LF, or CR, as the standard has it.
func (e *events) line() ([]byte, error) {
	var line []byte
	for {
		if _, err := e.reader.Peek(1); err != nil {
			return nil, err
		}
		part, _ := e.reader.Peek(e.reader.Buffered()) // it is there
		rest := e.cr && part[0] == '\n'
		e.cr = false
		if rest {
			_, _ = e.reader.Discard(1)
			continue
		}
		size, ended := len(part), false
		if end := bytes.IndexByte(part, '\n'); end >= 0 {
			part, size, ended = part[:end], end+1, true
		}
		if end := bytes.IndexByte(part, '\r'); end >= 0 {
			part, size, ended, e.cr = part[:end], end+1, true, true
		}
		if e.read += int64(size); e.read > e.limit {
			return nil, ErrTooLarge
		}
		line = append(line, part...)
		_, _ = e.reader.Discard(size)
		if ended {
			return line, nil
		}
	}
}
