package upstream

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
)

// MaxEvent is the most bytes that one event of a stream may have, and one line.
const MaxEvent = 32 << 20

// errEventTooLarge ends a stream: what follows cannot be told apart from the
// rest of the event.
var errEventTooLarge = fmt.Errorf("an event has more than %d bytes", MaxEvent)

// Event is one server-sent event.
type Event struct {
	Type string // empty where the sender names none
	Data []byte
}

// Events reads server-sent events. Comments, and the fields by which a browser
// would reconnect, are passed over.
type Events struct {
	from    *bufio.Reader
	line    []byte // the one that is read, reused
	begun   bool   // the first line was read
	afterCR bool   // a line feed that comes now belongs to the line before
}

// NewEvents reads from r.
func NewEvents(r io.Reader) *Events { return &Events{from: bufio.NewReader(r)} }

// Next waits for the next event. At the end of the stream it returns io.EOF; an
// event that is not complete by then does not count.
func (e *Events) Next() (Event, error) {
	var (
		got   Event
		any   bool
		value []byte
	)
	for {
		if err := e.readLine(); err != nil {
			return Event{}, err
		}
		if len(e.line) == 0 {
			if any {
				return got, nil
			}
			got.Type = ""
			continue
		}
		name, rest, _ := bytes.Cut(e.line, []byte(":"))
		value = bytes.TrimPrefix(rest, []byte(" "))
		switch string(name) {
		case "event":
			got.Type = string(value)
		case "data":
			if len(got.Data)+len(value) >= MaxEvent {
				return Event{}, errEventTooLarge
			}
			if any {
				got.Data = append(got.Data, '\n')
			}
			got.Data, any = append(got.Data, value...), true
		}
	}
}

// readLine reads a line, which ends with CR, LF or both, and never waits for
// what comes after its end.
func (e *Events) readLine() error {
	e.line = e.line[:0]
	for {
		if _, err := e.from.Peek(1); err != nil {
			return err
		}
		part, _ := e.from.Peek(e.from.Buffered()) // what is there already
		if e.afterCR && part[0] == '\n' {
			part = part[1:]
			_, _ = e.from.Discard(1)
		}
		e.afterCR = false
		end := bytes.IndexAny(part, "\r\n")
		length := end
		if end < 0 {
			length = len(part)
		}
		if len(e.line)+length > MaxEvent {
			return errEventTooLarge
		}
		e.line = append(e.line, part[:length]...)
		if end < 0 {
			_, _ = e.from.Discard(length)
			continue
		}
		e.afterCR = part[end] == '\r'
		_, _ = e.from.Discard(end + 1)
		if !e.begun {
			e.line, e.begun = bytes.TrimPrefix(e.line, []byte("\uFEFF")), true
		}
		return nil
	}
}
