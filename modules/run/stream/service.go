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
	woken  func(written time.Time, found bool) // may be nil
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
	waited  bool // for what is read next
	woken   <-chan struct{}
}

// Read returns the next events, rendered.
func (c *cursor) Read(ctx context.Context) (frames []sse.Event, done bool, err error) {
	next, most := c.service.next, batch
	if c.summary {
		next, most = c.service.nextSummaries, summaries
	}
	p, err := next(ctx, c.actor, c.run, c.after)
	if err != nil {
		return nil, false, err
	}
	c.more = len(p.frames) == most
	if len(p.frames) > 0 {
		c.after = p.frames[len(p.frames)-1].ID
		c.observe(p)
	}
	return p.frames, p.done, nil
}

// page is a batch of events, as a stream shows them.
type page struct {
	frames []sse.Event
	done   bool      // the last one is the run's end
	oldest time.Time // when the first one was written
}

// observe tells of events that a stream waited for. Those that it
// begins with, and those of a batch that follows another one, say nothing of wake-ups.
func (c *cursor) observe(p page) {
	found := c.service.poller.took(c.run.Ref(), c.after)
	if c.waited && c.service.woken != nil {
		c.service.woken(p.oldest, found)
	}
	c.waited = false
}

// Rendered returns the events of a run after a number as its user's streams show
// them, at most a batch of them.
func (s *Service) Rendered(ctx context.Context, r run.Run, after int64) ([]sse.Event, error) {
	p, err := s.next(ctx, actor.Actor{UID: r.UID}, r, after)
	return p.frames, err
}

// next renders a batch of events.
func (s *Service) next(ctx context.Context, a actor.Actor, r run.Run, after int64) (p page, err error) {
	events, err := s.runs.Events(ctx, a, run.EventFilter{ResultID: r.ResultID, Version: r.Version, After: after, Limit: batch})
	if err != nil {
		return p, err
	}
	calls, err := s.records(ctx, a, events)
	if err != nil {
		return p, err
	}
	return pageOf(events, func(e run.Event) ([]byte, error) { return render(r, e, calls) })
}

// pageOf renders events up to the run's end.
func pageOf(events []run.Event, render func(e run.Event) ([]byte, error)) (p page, err error) {
	for _, e := range events {
		data, err := render(e)
		if err != nil {
			return page{}, err
		}
		if len(p.frames) == 0 {
			p.oldest = e.CreatedAt
		}
		p.frames = append(p.frames, sse.Event{ID: e.Seq, Data: data})
		if e.Type == run.End {
			p.done = true
			break
		}
	}
	return p, nil
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
		c.waited = true
	case <-ctx.Done():
	}
}
