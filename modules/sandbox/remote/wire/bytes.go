package wire

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// ReadBytes reads as many bytes. Memory is taken as they arrive: a length costs whoever
// sends it nothing, the bytes do.
func ReadBytes(r io.Reader, n int64) ([]byte, error) {
	if n == 0 {
		return []byte{}, nil
	}
	var b bytes.Buffer
	if _, err := io.CopyN(&b, r, n); err != nil {
		if err == io.EOF { //nolint:errorlint // the reader's own
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return b.Bytes(), nil
}

// Conn is a connection over the two halves of a stream. It knows no deadlines: whoever
// made it ends it.
type Conn struct {
	Reader io.Reader
	Writer io.Writer
	End    func() // ends both halves

	once sync.Once
}

// Read implements net.Conn. That its stream was reset is told in other words than its
// own: HTTP/2 would take these for a stream within, and read on for ever.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // the reader's own
		err = fmt.Errorf("the stream of the job ended: %w", err)
	}
	return n, err
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) { return c.Writer.Write(p) }

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.once.Do(c.End)
	return nil
}

// LocalAddr implements net.Conn.
func (*Conn) LocalAddr() net.Addr { return address{} }

// RemoteAddr implements net.Conn.
func (*Conn) RemoteAddr() net.Addr { return address{} }

// SetDeadline implements net.Conn.
func (*Conn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (*Conn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (*Conn) SetWriteDeadline(time.Time) error { return nil }

type address struct{}

func (address) Network() string { return "sandbox" }
func (address) String() string  { return "sandbox-node" }
