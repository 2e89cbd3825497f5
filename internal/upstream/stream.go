package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// StreamRequest is a call whose answer comes in pieces.
type StreamRequest struct {
	Request
	// Timeout bounds one attempt, from its beginning to the last piece of its
	// answer; Idle the silence before each piece. 0 is no bound.
	Timeout, Idle time.Duration
	// Attempted, if set, is told of every attempt when its answer begins, or
	// when there is none.
	Attempted func(Attempt)
}

// Attempt is one of several that were made for a call.
type Attempt struct {
	Number int // from 0
	Status int // 0 where no answer came
	Took   time.Duration
	Err    error // for a log: it may name addresses
}

// Stream is an answer that comes in pieces. It belongs to one goroutine.
type Stream struct {
	// Response has a body only where it is not a success.
	Response
	// Attempts is how many were made.
	Attempts int

	events *Events
	body   io.Closer
}

// Stream makes a call and returns when its answer begins. The caller closes the
// stream. A call without an answer is a *Failure.
func (c *Caller) Stream(ctx context.Context, r StreamRequest) (*Stream, error) {
	breaker := c.breakers.of(r.URL)
	if left, open := breaker.open(); open {
		c.observe(Skipped, 0)
		return nil, unavailable(left)
	}
	s, attempts := &Stream{}, 0
	got, err := c.repeat(ctx, r.Request, func() (Response, error) {
		begin := c.deps.Now()
		var err error
		s, err = c.begin(ctx, r)
		if r.Attempted != nil {
			r.Attempted(Attempt{Number: attempts, Status: s.Status, Took: c.deps.Now().Sub(begin), Err: err})
		}
		attempts++
		return s.Response, err
	})
	c.record(breaker, got, err)
	if s.Attempts = attempts; err != nil {
		return s, unreachable(err, r.Limit)
	}
	return s, nil
}

// begin makes one attempt. The answer of one that is a success is left open.
func (c *Caller) begin(ctx context.Context, r StreamRequest) (*Stream, error) {
	ctx, silent := context.WithCancelCause(ctx)
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(r.Timeout, forever), slow{"the answer was not whole", r.Timeout})
	idle := cmp.Or(r.Idle, forever)
	timer := time.AfterFunc(idle, func() { silent(slow{"nothing came", r.Idle}) })
	end := func() {
		timer.Stop()
		cancel()
		silent(nil)
	}
	s := &Stream{body: closer(end)}
	resp, err := c.open(ctx, r.Request) //nolint:bodyclose // closed with the stream
	if err != nil {
		end()
		return s, tooSlow(ctx, err)
	}
	resp.Body = paced{ReadCloser: resp.Body, progress: func() { timer.Reset(idle) }, explain: func(err error) error { return tooSlow(ctx, err) }}
	s.Response = Response{Status: resp.StatusCode, Header: resp.Header}
	s.body = closer(func() {
		end()
		_ = resp.Body.Close()
	})
	if s.OK() {
		s.events = NewEvents(resp.Body)
		return s, nil
	}
	defer s.Close()
	s.Body, err = read(ctx, resp, c.deps.ResponseCap)
	return s, err
}

// Next waits for the next event. At the end of the stream it returns io.EOF; a
// stream that breaks off, falls silent or holds what is no event is a *Failure.
func (s *Stream) Next() (Event, error) {
	event, err := s.events.Next()
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return event, err
	case errors.Is(err, errEventTooLarge):
		return event, &Failure{Code: CodeInvalid, Message: "The upstream's stream cannot be read: " + err.Error() + "."}
	}
	return event, unreachable(err, 0)
}

// Close ends the call, also in the middle of its answer.
func (s *Stream) Close() { _ = s.body.Close() }

// forever is longer than any process lives.
const forever = 100 * 365 * 24 * time.Hour

// slow is an attempt that was ended because of the time that it took.
type slow struct {
	what  string
	after time.Duration
}

// Error implements error.
func (s slow) Error() string { return fmt.Sprintf("%s within %s", s.what, s.after) }

// Is says that it is a deadline like others.
func (slow) Is(target error) bool { return target == context.DeadlineExceeded }

// tooSlow names the bound that ended an attempt, if one did.
func tooSlow(ctx context.Context, err error) error {
	if cause, ok := errors.AsType[slow](context.Cause(ctx)); ok {
		return cause
	}
	return err
}

// paced is a body that tells of its progress.
type paced struct {
	io.ReadCloser
	progress func()
	explain  func(error) error
}

// Read implements io.Reader.
func (p paced) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	if n > 0 {
		p.progress()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = p.explain(err)
	}
	return n, err
}

// closer is a function that ends something.
type closer func()

// Close implements io.Closer.
func (c closer) Close() error {
	c()
	return nil
}
