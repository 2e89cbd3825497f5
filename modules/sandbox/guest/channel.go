package guest

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
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

// channel speaks with one program over the descriptor it inherited. Who the
// program is, is who the descriptor belongs to.
type channel struct {
	ctx     context.Context //nolint:containedctx // that of the job
	conn    net.Conn
	handler http.Handler
	turns   chan struct{}
	mu      sync.Mutex // held while an answer is written
}

// read answers requests until the program closes the descriptor, or sends what
// is no frame.
func (c *channel) read() {
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

func (c *channel) answer(head requestHeader, body []byte) {
	w := &recorder{header: http.Header{}, status: http.StatusOK}
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
		if !serves(c.handler, w, r) {
			return
		}
	}
	answer := answerHeader{ID: head.ID, Status: w.status, Headers: map[string]string{}}
	for name := range w.header {
		answer.Headers[name] = w.header.Get(name)
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return // a header is no text: nothing of ours writes one
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(raw)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(w.body.Len()))
	frame = append(frame, raw...)
	c.mu.Lock()
	defer c.mu.Unlock()
	// An error is a program that is gone.
	buffers := net.Buffers{frame, w.body.Bytes()}
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

// recorder keeps an answer in memory; the gateway bounds its size.
type recorder struct {
	header http.Header
	status int
	wrote  bool
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	if !w.wrote {
		w.wrote, w.status = true, status
	}
}

func (w *recorder) Write(p []byte) (int, error) {
	w.wrote = true
	return w.body.Write(p)
}
