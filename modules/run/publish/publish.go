// Package publish tells Redis of the events of runs, for dashboards: a stream
// and a channel for each run and for each user.
//
// The database is the truth. A process publishes the runs that it has written
// to, each from where Redis has it, so that whoever writes next also publishes
// what a process that died has left. Redis takes every event once and in order,
// by its number, so that no process needs to be the one that publishes. Nothing
// waits for Redis: what is kept in memory are the names of runs.
package publish

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/sse"
	"github.com/portico-run/portico/modules/run"
)

// Runs is where runs are found.
type Runs interface {
	// Versions returns all versions of runs, of whatever user.
	Versions(ctx context.Context, resultIDs []string) ([]run.Run, error)
	// Changed names the runs that have not ended since a moment, the newest first.
	Changed(ctx context.Context, since time.Time, limit int) ([]string, error)
}

// Events renders the events of a run as its user's stream shows them, at most
// some of those after a number.
type Events interface {
	Rendered(ctx context.Context, r run.Run, after int64) ([]sse.Event, error)
}

// Settings are how the package works.
type Settings struct {
	// URL is the address of Redis. It may hold a password, and is never logged.
	URL string
	// Length is about how many events a stream keeps, Life how long it stays after
	// its newest one.
	Length int
	Life   time.Duration
	// CatchUp is how old the newest event of a run may be that is published after
	// a process died, or after more runs had changed than are kept in mind.
	CatchUp time.Duration
	// MaxWaiting is how many runs are kept in mind; zero means defaultWaiting.
	MaxWaiting int
}

const (
	defaultWaiting = 10_000
	// atOnce is how many runs are looked at together.
	atOnce = 100
	// maxTries is how often the events of one run are tried that cannot be read.
	maxTries = 5
)

// Pauses after Redis, or the database, did not answer.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// Deps is what the package needs.
type Deps struct {
	Runs     Runs
	Events   Events
	Settings Settings
	Logger   *slog.Logger
	// Now tells the time; nil is the wall clock.
	Now func() time.Time
}

// Publisher publishes the runs that it is told of.
type Publisher struct {
	deps  Deps
	store *store

	mu      sync.Mutex
	waiting map[string]waiting
	taken   map[string]waiting // those that are being published
	// missed is since when runs changed that are not in waiting; zero for never.
	missed    time.Time
	lost      int64 // of these runs, how often they changed
	stats     Stats
	woken     chan struct{}
	published map[run.Ref]int64 // what Redis has, as far as this process knows

	stop context.CancelFunc
	done chan struct{}
}

// waiting is a run with events to publish.
type waiting struct {
	since time.Time
	tries int
}

// Stats are numbers of this process.
type Stats struct {
	Published int64 // events that Redis took from this process
	// Dropped counts changes of runs that are never published by this process.
	Dropped int64
	Waiting int           // runs
	Lag     time.Duration // for how long the oldest of them waits
	Away    bool          // Redis did not answer when it was asked last
}

// New makes a publisher that does nothing until Start.
func New(d Deps) (*Publisher, error) {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Settings.MaxWaiting == 0 {
		d.Settings.MaxWaiting = defaultWaiting
	}
	s, err := open(d.Settings)
	if err != nil {
		return nil, err
	}
	return &Publisher{
		deps: d, store: s, waiting: map[string]waiting{}, woken: make(chan struct{}, 1), published: map[run.Ref]int64{}, missed: d.Now().Add(-d.Settings.CatchUp),
	}, nil
}

// Start publishes in the background until Stop. It does not wait for Redis.
func (p *Publisher) Start(ctx context.Context) error {
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	p.done = make(chan struct{})
	p.wake()
	go func() {
		defer close(p.done)
		p.work(ctx)
	}()
	return nil
}

// finish is how long Stop goes on publishing what waits.
const finish = 2 * time.Second

// Stop publishes what waits, for some seconds at most, and ends.
func (p *Publisher) Stop(ctx context.Context) error {
	if p.stop == nil {
		return p.store.close()
	}
	p.stop()
	<-p.done
	ctx, cancel := context.WithTimeout(ctx, finish)
	defer cancel()
	for p.Stats().Waiting > 0 && p.round(ctx) == nil && ctx.Err() == nil {
		continue
	}
	return p.store.close()
}

// Wrote is told of a commit of this process that added an event to a run. It
// returns at once.
func (p *Publisher) Wrote(resultID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.waiting[resultID]; !ok {
		if len(p.waiting) >= p.deps.Settings.MaxWaiting {
			if p.missed.IsZero() {
				p.missed = p.deps.Now()
			}
			p.lost++
			return
		}
		p.waiting[resultID] = waiting{since: p.deps.Now()}
	}
	p.wake()
}

func (p *Publisher) wake() {
	select {
	case p.woken <- struct{}{}:
	default:
	}
}

// Stats are the numbers of now.
func (p *Publisher) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Waiting = len(p.waiting)
	for _, w := range p.waiting {
		s.Lag = max(s.Lag, p.deps.Now().Sub(w.since))
	}
	return s
}

func (p *Publisher) work(ctx context.Context) {
	pause := firstPause
	for {
		err := p.round(ctx)
		again := time.Duration(0)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			again, pause = pause, min(2*pause, longestPause)
		default:
			pause = firstPause
		}
		p.told(ctx, err)
		if err == nil && p.Stats().Waiting > 0 {
			continue
		}
		if !p.wait(ctx, again) {
			return
		}
	}
}

// wait returns when there may be work, or after a pause if there is one; false
// at the end.
func (p *Publisher) wait(ctx context.Context, pause time.Duration) bool {
	if pause == 0 {
		select {
		case <-p.woken:
			return true
		case <-ctx.Done():
			return false
		}
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// told keeps whether Redis answers, and logs when that changes.
func (p *Publisher) told(ctx context.Context, err error) {
	p.mu.Lock()
	changed := p.stats.Away != (err != nil)
	p.stats.Away = err != nil
	p.mu.Unlock()
	switch {
	case changed && err != nil:
		p.deps.Logger.WarnContext(ctx, "events are published late: they are in the database meanwhile", "error", err)
	case changed:
		p.deps.Logger.InfoContext(ctx, "events are published again")
	}
}
