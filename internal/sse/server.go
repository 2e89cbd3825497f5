// Package sse writes server-sent events to one client at a time.
//
// The library behind it broadcasts to all readers of a stream and lets one
// slow reader hold up the others, so every connection gets a stream of its
// own with one event in flight: what a slow client has not read yet stays
// where the events come from.
package sse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	r3 "github.com/r3labs/sse/v2"
)

// Event is one frame: a number the client resumes after, and one line of
// JSON.
type Event struct {
	ID   int64
	Data []byte
}

// Source is where the events of one connection come from. Its methods are
// called one at a time.
type Source interface {
	// Read returns the events after those it returned before, possibly none,
	// without waiting for new ones. Done says that these are the last.
	Read(ctx context.Context) (events []Event, done bool, err error)
	// Wait returns when Read may have more, and in any case when ctx ends.
	Wait(ctx context.Context)
}

// Defaults of a Server.
const (
	DefaultHeartbeat    = 15 * time.Second
	DefaultWriteTimeout = 30 * time.Second
)

// Server says how streams are written.
type Server struct {
	// Heartbeat is the longest silence on a stream; zero means the default.
	Heartbeat time.Duration
	// WriteTimeout is how long the client may take to accept one event; zero
	// means the default.
	WriteTimeout time.Duration
	// Retry is how soon the client is told to connect again when it lost the
	// stream; zero tells it nothing.
	Retry time.Duration
}

// noBuffering tells proxies to pass every event on at once.
const noBuffering = "X-Accel-Buffering"

// streamID names the only stream of a connection's broker.
const streamID = "connection"

// Serve writes the source to the client until the source is done, the client
// is gone or the request's context ends; none of these is an error. The first
// Read comes before the headers, so when it fails nothing has been written
// and the caller may still answer with the error. HEAD is answered with the
// headers of the stream. Serve returns when nothing of it runs any more.
func (s Server) Serve(w http.ResponseWriter, r *http.Request, src Source) error {
	ctx, end := context.WithCancel(r.Context())
	defer end()
	events, done, err := src.Read(ctx)
	if err != nil {
		return err
	}
	if r.Method == http.MethodHead {
		h := w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache")
		h.Set("Connection", "keep-alive")
		h.Set(noBuffering, "no")
		w.WriteHeader(http.StatusOK)
		return nil
	}
	out := &response{
		ResponseWriter: w, control: http.NewResponseController(w), request: r, end: end,
		timeout: orDefault(s.WriteTimeout, DefaultWriteTimeout), retry: s.Retry, sent: make(chan struct{}, 1),
	}
	if err := out.extend(); err != nil {
		return err
	}
	broker := r3.New()
	broker.AutoReplay = false // its log is unbounded and renumbers the events
	broker.SplitData = true   // else a line break in data would begin a new field
	broker.BufferSize = 1
	broker.Headers[noBuffering] = "no"
	f := feeder{broker: broker, out: out, src: src, heartbeat: orDefault(s.Heartbeat, DefaultHeartbeat)}
	var fed error
	ended, gone := make(chan struct{}), make(chan struct{})
	// Events published before the library knows the subscriber are lost, so
	// feeding begins in its call.
	broker.OnSubscribe = func(string, *r3.Subscriber) {
		defer close(ended)
		fed = f.feed(ctx, events, done)
		end()
	}
	// A stream that is removed while it has a subscriber leaks a goroutine.
	broker.OnUnsubscribe = func(string, *r3.Subscriber) {
		broker.RemoveStream(streamID)
		close(gone)
	}
	broker.CreateStream(streamID)
	broker.ServeHTTP(out, subscription(ctx, r))
	end()
	<-ended
	<-gone
	return fed
}

func orDefault(d, fallback time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return fallback
}

// subscription is the request as the library wants it: it finds the stream in
// the query, and it must not see the resume header, which it would answer
// from the log it does not keep.
func subscription(ctx context.Context, r *http.Request) *http.Request {
	sub := r.Clone(ctx)
	sub.URL = &url.URL{Path: r.URL.Path, RawQuery: url.Values{"stream": {streamID}}.Encode()}
	sub.Header.Del("Last-Event-ID")
	return sub
}

// feeder moves events from the source to the client.
type feeder struct {
	broker    *r3.Server
	out       *response
	src       Source
	heartbeat time.Duration
	last      time.Time // of the newest write
}

func (f *feeder) feed(ctx context.Context, events []Event, done bool) (err error) {
	f.last = time.Now()
	for {
		for _, e := range events {
			if err := f.event(ctx, e); err != nil {
				return ignoreEnd(ctx, err)
			}
		}
		if done {
			return nil
		}
		if err := f.wait(ctx); err != nil {
			return ignoreEnd(ctx, err)
		}
		if events, done, err = f.src.Read(ctx); err != nil {
			return ignoreEnd(ctx, err)
		}
	}
}

// ignoreEnd drops the error of a stream that was to end.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// wait returns when the source may have more. Silence that grows too long is
// broken with a comment, which also finds out that a client is gone.
func (f *feeder) wait(ctx context.Context) error {
	due := f.last.Add(f.heartbeat)
	until, cancel := context.WithDeadline(ctx, due)
	defer cancel()
	f.src.Wait(until)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if time.Now().Before(due) {
		return nil
	}
	return f.publish(ctx, &r3.Event{Comment: []byte("heartbeat")})
}

func (f *feeder) event(ctx context.Context, e Event) error {
	// Empty data would end the connection, and a carriage return is a line
	// break that the library does not split at.
	if len(e.Data) == 0 || bytes.ContainsAny(e.Data, "\r\n") {
		return fmt.Errorf("event %d is not one line of text", e.ID)
	}
	return f.publish(ctx, &r3.Event{ID: strconv.AppendInt(nil, e.ID, 10), Data: e.Data})
}

// publish hands one event over and returns when it has left for the client.
func (f *feeder) publish(ctx context.Context, e *r3.Event) error {
	if !f.broker.TryPublish(streamID, e) {
		return errors.New("the event stream takes no event") // it holds one, and one is sent at a time
	}
	select {
	case <-f.out.sent:
		f.last = time.Now()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
