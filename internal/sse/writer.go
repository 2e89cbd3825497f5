package sse

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// Writer writes events in the form of another protocol than Server's: they have names
// and no numbers. Only one goroutine at a time may call Event.
type Writer struct {
	out     http.ResponseWriter
	control *http.ResponseController
	server  Server
	ping    []byte
	end     context.CancelFunc
	pinging sync.WaitGroup

	mu     sync.Mutex
	last   time.Time // of the newest write
	failed error
}

// errGone is a client that does not take what is written to it.
var errGone = errors.New("the client of the stream is gone")

// Open sends the headers of a stream. ping is what is written after a silence of
// Heartbeat, whole lines with an empty one at their end; empty is a comment. The
// returned context ends with r's, when the client is gone, and with Close, which has to
// be called and waits for all that Open began. Where Open fails nothing was written.
func (s Server) Open(w http.ResponseWriter, r *http.Request, ping []byte) (*Writer, context.Context, error) {
	if len(ping) == 0 {
		ping = []byte(": heartbeat\n\n")
	}
	out := &Writer{out: w, control: http.NewResponseController(w), server: s, ping: ping, last: time.Now()}
	if err := out.extend(); err != nil {
		return nil, nil, err
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("Connection", "keep-alive")
	h.Set(noBuffering, "no")
	w.WriteHeader(http.StatusOK)
	ctx, end := context.WithCancel(r.Context())
	out.end = end
	out.pinging.Go(func() { out.beat(ctx) })
	return out, ctx, out.write(nil)
}

// Close ends the stream's context.
func (w *Writer) Close() {
	w.end()
	w.pinging.Wait()
}

// Event writes one event; an empty name leaves that out. data is split at its line
// breaks. A failure is final: it ends the stream's context.
func (w *Writer) Event(name string, data []byte) error {
	var frame bytes.Buffer
	if name != "" {
		frame.WriteString("event: " + name + "\n")
	}
	for line := range bytes.Lines(bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))) {
		frame.WriteString("data: ")
		frame.Write(bytes.TrimSuffix(line, []byte("\n")))
		frame.WriteByte('\n')
	}
	frame.WriteByte('\n')
	return w.write(frame.Bytes())
}

func (w *Writer) write(frame []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != nil {
		return w.failed
	}
	err := w.extend()
	if err == nil {
		_, err = w.out.Write(frame)
	}
	if err == nil {
		err = w.control.Flush()
	}
	if err != nil {
		w.failed = errors.Join(errGone, err)
		w.end()
		return w.failed
	}
	w.last = time.Now()
	return nil
}

// extend gives the next write its deadline, in place of the one that the server may
// have set for the whole answer.
func (w *Writer) extend() error {
	return w.control.SetWriteDeadline(time.Now().Add(orDefault(w.server.WriteTimeout, DefaultWriteTimeout)))
}

// beat breaks silences, which also finds out that a client is gone.
func (w *Writer) beat(ctx context.Context) {
	silence := orDefault(w.server.Heartbeat, DefaultHeartbeat)
	timer := time.NewTimer(silence)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		w.mu.Lock()
		quiet := time.Since(w.last)
		w.mu.Unlock()
		if quiet >= silence {
			if w.write(w.ping) != nil {
				return
			}
			quiet = 0
		}
		timer.Reset(silence - quiet)
	}
}
