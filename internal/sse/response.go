package sse

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// response is the client's side as the library sees it. It gives every frame
// a deadline, says when a frame has left, and ends the stream at the first
// failed write, which the library would ignore.
type response struct {
	http.ResponseWriter
	control *http.ResponseController
	request *http.Request
	end     context.CancelFunc
	timeout time.Duration
	retry   time.Duration // what the stream begins with; zero for nothing
	// sent gets a value for every frame; the feeder waits for it before the
	// next, so the one place is enough.
	sent    chan struct{}
	headers bool // are out
	inFrame bool // its deadline stands
	failed  bool
}

// Write sends a part of a frame. It reports success after a failure as well:
// the stream is already ending and nobody looks.
func (r *response) Write(b []byte) (int, error) {
	r.begin()
	if r.failed {
		return len(b), nil
	}
	if _, err := r.ResponseWriter.Write(b); err != nil {
		r.fail()
	}
	return len(b), nil
}

// Flush ends a frame; the first call sends the headers.
func (r *response) Flush() {
	r.begin()
	r.inFrame = false
	if r.failed {
		return
	}
	if !r.headers && r.retry > 0 {
		if _, err := fmt.Fprintf(r.ResponseWriter, "retry: %d\n\n", r.retry.Milliseconds()); err != nil {
			r.fail()
			return
		}
	}
	// A writer in between may swallow the error of a flush; the server ends
	// the request's context with it.
	if r.control.Flush() != nil || r.request.Context().Err() != nil {
		r.fail()
		return
	}
	if !r.headers {
		r.headers = true
		return
	}
	r.sent <- struct{}{}
}

// begin gives a new frame its deadline.
func (r *response) begin() {
	if r.inFrame || r.failed {
		return
	}
	r.inFrame = true
	if r.extend() != nil {
		r.fail()
	}
}

// extend sets the deadline of the next writes, in place of the one that the
// server may have set for the whole answer. Without deadlines a client that
// stopped reading could stay forever.
func (r *response) extend() error {
	if err := r.control.SetWriteDeadline(time.Now().Add(r.timeout)); err != nil {
		return fmt.Errorf("the connection takes no write deadline: %w", err)
	}
	return nil
}

func (r *response) fail() {
	r.failed = true
	r.end()
}
