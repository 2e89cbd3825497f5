package guest

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"sync"
)

// A frame is two lengths of four bytes, big endian, of a header and a body,
// and then both. The program's frames are requests, the host's are answers;
// the id joins them. Answers come in any order.
const (
	maxHeader = 64 << 10
	// maxFrameBody is the largest body of a request. The gateway has limits of
	// its own, lower than this; this one bounds what is read at all.
	maxFrameBody = 64 << 20
)

type requestHeader struct {
	ID      uint64            `json:"id"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
}

type answerHeader struct {
	ID      uint64            `json:"id"`
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
}

// frameConn speaks with one program over the descriptor it inherited. Who the
// program is, is who the descriptor belongs to.
type frameConn struct {
	ctx     context.Context //nolint:containedctx // that of the job
	conn    net.Conn
	handler http.Handler
	turns   chan struct{}
	mu      sync.Mutex // held while an answer is written
}

// read answers requests until the program closes the descriptor, or sends what
// is no frame.
func (c *frameConn) read() {
	var answers sync.WaitGroup
	defer answers.Wait()
	for {
		c.turns <- struct{}{}
		head, body, err := readFrame(c.conn)
		if err != nil {
			return
		}
		answers.Go(func() {
			defer func() { <-c.turns }()
			c.answer(head, body)
		})
	}
}

func readFrame(r io.Reader) (head requestHeader, body []byte, err error) {
	var lengths [8]byte
	if _, err := io.ReadFull(r, lengths[:]); err != nil {
		return head, nil, err
	}
	headLength, bodyLength := binary.BigEndian.Uint32(lengths[:4]), binary.BigEndian.Uint32(lengths[4:])
	if headLength > maxHeader || bodyLength > maxFrameBody {
		return head, nil, fmt.Errorf("a frame of %d and %d bytes", headLength, bodyLength)
	}
	raw := make([]byte, headLength)
	if _, err := io.ReadFull(r, raw); err != nil {
		return head, nil, err
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return head, nil, err
	}
	// Grown as it arrives: a length costs a program nothing, the bytes do.
	var buffer bytes.Buffer
	if _, err := io.CopyN(&buffer, r, int64(bodyLength)); err != nil {
		return head, nil, err
	}
	return head, buffer.Bytes(), nil
}

func (c *frameConn) answer(head requestHeader, body []byte) {
	w := &recorder{header: http.Header{}, status: http.StatusOK, id: head.ID, channel: c}
	defer w.close()
	r, err := http.NewRequestWithContext(c.ctx, http.MethodPost, "http://localhost", bytes.NewReader(body))
	if err == nil {
		r.URL, err = r.URL.Parse(head.Path)
	}
	if err != nil {
		w.status = http.StatusBadRequest
	} else {
		for name, value := range head.Headers {
			r.Header.Set(name, value)
		}
		answered := serves(c.handler, w, r)
		if w.streams {
			return
		}
		if !answered { // the program must not wait for ever
			w.status = http.StatusBadGateway
			w.body.Reset()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// An error is a program that is gone.
	buffers := net.Buffers{w.frame(w.body.Len()), w.body.Bytes()}
	_, _ = buffers.WriteTo(c.conn)
}

// serves runs a handler and reports whether it answered.
func serves(h http.Handler, w http.ResponseWriter, r *http.Request) (answered bool) {
	defer func() {
		if v := recover(); v != nil && v != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
			panic(v)
		}
	}()
	h.ServeHTTP(w, r)
	return true
}

// largeAnswer is the size from which an answer is not kept in memory.
const largeAnswer = 1 << 20

// recorder keeps an answer in memory until it is whole, since a frame begins
// with its length. A large one whose length is known goes out as it comes.
type recorder struct {
	header http.Header
	status int
	wrote  bool // the status is decided
	begun  bool // the body has begun
	body   bytes.Buffer

	id      uint64
	channel *frameConn
	streams bool  // the channel is locked until close
	left    int64 // bytes of a stream that are to come
}

// frame is what goes before a body.
func (w *recorder) frame(length int) []byte {
	answer := answerHeader{ID: w.id, Status: w.status, Headers: map[string]string{}}
	for name := range w.header {
		answer.Headers[name] = w.header.Get(name)
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		raw = nil // texts and numbers always have a JSON form
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(raw)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(length))
	return append(frame, raw...)
}

// begin decides at the first byte whether the answer is a stream.
func (w *recorder) begin() {
	w.WriteHeader(w.status)
	length, err := strconv.ParseInt(w.header.Get("Content-Length"), 10, 64)
	if err != nil || length < largeAnswer || length > math.MaxUint32 {
		return
	}
	w.channel.mu.Lock()
	w.streams, w.left = true, length
	_, _ = w.channel.conn.Write(w.frame(int(length))) // an error comes again at the body
}

// close ends a stream. One that broke off ends the channel, since what follows
// would be taken for its rest.
func (w *recorder) close() {
	if !w.streams {
		return
	}
	if w.left != 0 {
		_ = w.channel.conn.Close()
	}
	w.channel.mu.Unlock()
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	if !w.wrote {
		w.wrote, w.status = true, status
	}
}

func (w *recorder) Write(p []byte) (int, error) {
	if !w.begun {
		w.begun = true
		w.begin()
	}
	if !w.streams {
		return w.body.Write(p)
	}
	if int64(len(p)) > w.left {
		return 0, http.ErrContentLength
	}
	n, err := w.channel.conn.Write(p)
	w.left -= int64(n)
	return n, err
}
