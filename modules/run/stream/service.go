package stream

import (
	"context"
	"net/http"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/sse"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
)

// Service writes live streams.
type Service struct {
	runs   Runs
	calls  Calls
	hub    *wake.Hub
	poller *poller
	serve  sse.Server
	open   *open
}

// batch is how many events are read at once; they are in memory until the
// client has taken them.
const batch = 16

// From says which run to watch, and from where.
type From struct {
	ResultID string
	Version  *int  // nil for the newest
	After    int64 // the number of an event; 0 for all
}

// Watch writes the events of a run after the given one, until the run's end has
// been written or the client leaves. A number beyond the newest event begins with
// what comes next. It returns run.ErrMissing, with nothing written, when the run
// is not the caller's. A client that has the end already is answered 204, which
// tells a browser to stop reconnecting.
func (s *Service) Watch(w http.ResponseWriter, r *http.Request, a actor.Actor, from From) error {
	ctx, leave, err := s.open.enter(r.Context())
	if err != nil {
		return err
	}
	defer leave()
	// First listen, then look: what happens in between wakes.
	woken, cancel := s.hub.Subscribe(run.Topic(from.ResultID))
	defer cancel()
	watched, err := s.runs.Get(ctx, a, from.ResultID, from.Version)
	if err != nil {
		return err
	}
	if watched.Status.Final() && from.After >= watched.Seq {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	defer s.poller.follow(ctx, watched)()
	c := &cursor{service: s, actor: a, run: watched, after: min(from.After, watched.Seq), woken: woken}
	return s.serve.Serve(w, r.WithContext(ctx), c)
}

// cursor is one client's place in a run.
type cursor struct {
	service *Service
	actor   actor.Actor
	run     run.Run
	after   int64
	more    bool // the last read was cut at the size of a batch
	woken   <-chan struct{}
}

// Read returns the next events, rendered.
func (c *cursor) Read(ctx context.Context) (frames []sse.Event, done bool, err error) {
	events, err := c.service.runs.Events(ctx, c.actor, run.EventFilter{ResultID: c.run.ResultID, Version: c.run.Version, After: c.after, Limit: batch})
	if err != nil {
		return nil, false, err
	}
	c.more = len(events) == batch
	calls, err := c.records(ctx, events)
	if err != nil {
		return nil, false, err
	}
	for _, e := range events {
		data, err := render(c.run, e, calls)
		if err != nil {
			return nil, false, err
		}
		frames = append(frames, sse.Event{ID: e.Seq, Data: data})
		c.after = e.Seq
		if e.Type == run.End {
			return frames, true, nil
		}
	}
	return frames, false, nil
}

// records reads the calls that the events are about.
func (c *cursor) records(ctx context.Context, events []run.Event) (map[string]record.Call, error) {
	var ids []string
	for _, e := range events {
		if isCall(e.Type) && e.CallID != "" {
			ids = append(ids, e.CallID)
		}
	}
	if len(ids) == 0 {
		return nil, nil //nolint:nilnil // no events about calls, no calls
	}
	return c.service.calls.Calls(ctx, c.actor, ids)
}

// Wait returns when Read may have more: at a wake-up, which the poller sends too,
// since one may be lost.
func (c *cursor) Wait(ctx context.Context) {
	if c.more {
		return
	}
	select {
	case <-c.woken:
	case <-ctx.Done():
	}
}
