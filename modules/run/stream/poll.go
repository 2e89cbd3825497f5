package stream

import (
	"context"
	"sync"
	"time"

	"github.com/portico-run/portico/modules/run"
)

// poller finds the events whose wake-up was lost: for all streams of the process
// together, it asks how far their runs are, and wakes those of the ones that
// went on. It works while there are streams.
type poller struct {
	runs  Runs
	wake  func(topic string)
	every time.Duration

	mu       sync.Mutex
	followed map[run.Ref]*followed
	end      func() // nil while nothing is followed; waits until the work has ended
}

// followed is a run with streams.
type followed struct {
	streams int
	seq     int64 // of the newest event that streams have been woken for
	read    int64 // of the newest one that a stream has read
	found   bool  // polling woke streams for events that none had read
}

func newPoller(d Deps) *poller {
	return &poller{runs: d.Runs, wake: d.Hub.Publish, every: d.Poll, followed: map[run.Ref]*followed{}}
}

// follow begins with the events after those that the run has. Leave must be
// called when the stream is over.
func (p *poller) follow(ctx context.Context, r run.Run) (leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := r.Ref()
	if p.followed[of] == nil {
		p.followed[of] = &followed{seq: r.Seq, read: r.Seq}
	}
	p.followed[of].streams++
	if p.end == nil {
		p.start(context.WithoutCancel(ctx))
	}
	return func() { p.leave(of) }
}

func (p *poller) leave(of run.Ref) {
	p.mu.Lock()
	if p.followed[of].streams--; p.followed[of].streams == 0 {
		delete(p.followed, of)
	}
	end := func() {}
	if len(p.followed) == 0 {
		end, p.end = p.end, nil
	}
	p.mu.Unlock()
	end()
}

func (p *poller) start(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	p.end = func() {
		cancel()
		<-ended
	}
	go func() {
		defer close(ended)
		tick := time.NewTicker(p.every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.look(ctx)
			case <-ctx.Done():
				return
			}
		}
	}()
}

// took says that a stream has read the events of a run up to one, and reports
// whether polling had found them.
func (p *poller) took(of run.Ref, seq int64) (found bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.followed[of]
	if f == nil || seq <= f.read {
		return false
	}
	found, f.read, f.found = f.found, seq, false
	return found
}

// look wakes the streams of runs that have new events. When it cannot know, it
// wakes all: each then meets the failure itself.
func (p *poller) look(ctx context.Context) {
	p.mu.Lock()
	refs := make([]run.Ref, 0, len(p.followed))
	for of := range p.followed {
		refs = append(refs, of)
	}
	p.mu.Unlock()
	now, err := p.runs.Progress(ctx, refs)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, of := range refs {
		f := p.followed[of]
		if f == nil || err == nil && now[of] <= f.seq {
			continue
		}
		f.seq, f.found = max(f.seq, now[of]), now[of] > f.read
		p.wake(run.Topic(of.ResultID))
	}
}
