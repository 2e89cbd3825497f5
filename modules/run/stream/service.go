package stream

import (
	"context"
	"net/http"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/sse"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
)

// Service writes live streams.
type Service struct {
	runs   Runs
	sums   Sums
	calls  Calls
	hub    *wake.Hub
	poller *poller
	serve  sse.Server
	open   *open
}

// batch is how many events are read at once; they are in memory until the
// client has taken them.
const batch = 16

// summaries is how many are read at once of a stream of summaries, which are
// small.
const summaries = 128

// comeBack is how soon a browser connects again that lost a stream of summaries.
const comeBack = 500 * time.Millisecond

// From says which run to watch, and from where.
type From struct {
	ResultID string
	Version  *int  // nil for the newest
	After    int64 // the number of an event; 0 for all
	Summary  bool  // events about calls without what was asked and answered in full
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
	c := &cursor{service: s, actor: a, run: watched, after: min(from.After, watched.Seq), summary: from.Summary, woken: woken}
	serve := s.serve
	if from.Summary {
		serve.Retry = comeBack
	}
	return serve.Serve(w, r.WithContext(ctx), c)
}

// cursor is one client's place in a run.
type cursor struct {
	service *Service
	actor   actor.Actor
	run     run.Run
	after   int64
	summary bool
	more    bool // the last read was cut at the size of a batch
	woken   <-chan struct{}
}

// Read returns the next events, rendered.
func (c *cursor) Read(ctx context.Context) (frames []sse.Event, done bool, err error) {
	next, most := c.service.next, batch
	if c.summary {
		next, most = c.service.nextSummaries, summaries
	}
	frames, done, err = next(ctx, c.actor, c.run, c.after)
	if err != nil {
		return nil, false, err
	}
	c.more = len(frames) == most
	if len(frames) > 0 {
		c.after = frames[len(frames)-1].ID
	}
	return frames, done, nil
}

// Rendered returns the events of a run after a number as its user's streams show
// them, at most a batch of them.
func (s *Service) Rendered(ctx context.Context, r run.Run, after int64) ([]sse.Event, error) {
	frames, _, err := s.next(ctx, actor.Actor{UID: r.UID}, r, after)
	return frames, err
}

// next renders a batch of events; done is that the last one is the run's end.
func (s *Service) next(ctx context.Context, a actor.Actor, r run.Run, after int64) (frames []sse.Event, done bool, err error) {
	events, err := s.runs.Events(ctx, a, run.EventFilter{ResultID: r.ResultID, Version: r.Version, After: after, Limit: batch})
	if err != nil {
		return nil, false, err
	}
	calls, err := s.records(ctx, a, events)
	if err != nil {
		return nil, false, err
	}
	for _, e := range events {
		data, err := render(r, e, calls)
		if err != nil {
			return nil, false, err
		}
		frames = append(frames, sse.Event{ID: e.Seq, Data: data})
		if e.Type == run.End {
			return frames, true, nil
		}
	}
	return frames, false, nil
}

// records reads the calls that the events are about.
func (s *Service) records(ctx context.Context, a actor.Actor, events []run.Event) (map[string]record.Call, error) {
	ids := callsOf(events)
	if len(ids) == 0 {
		return nil, nil //nolint:nilnil // no events about calls, no calls
	}
	return s.calls.Calls(ctx, a, ids)
}

func callsOf(events []run.Event) (ids []string) {
	for _, e := range events {
		if isCall(e.Type) && e.CallID != "" {
			ids = append(ids, e.CallID)
		}
	}
	return ids
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
