package execution

import (
	"context"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/lifecycle"
)

// paused holds the programs of this process that may be continued.
type paused struct {
	mu       sync.Mutex
	programs map[string]*execution      // by id
	requests map[string]string          // the ids, by user and request
	ended    map[*execution]*time.Timer // programs whose reply nobody has yet
	stopped  bool
	running  sync.WaitGroup
}

func newPaused() *paused {
	return &paused{programs: map[string]*execution{}, requests: map[string]string{}, ended: map[*execution]*time.Timer{}}
}

// add takes a program in, unless the server is stopping.
func (p *paused) add(e *execution) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return false
	}
	p.programs[e.id] = e
	p.running.Add(1)
	return true
}

// left says that a program that was added does not run any more.
func (p *paused) left() { p.running.Done() }

// remove forgets a program and the requests it came with.
func (p *paused) remove(e *execution) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.programs, e.id)
	if timer := p.ended[e]; timer != nil {
		timer.Stop()
		delete(p.ended, e)
	}
	for request, id := range p.requests {
		if id == e.id {
			delete(p.requests, request)
		}
	}
}

// removeAfter keeps a program for a while, for whoever comes for its reply.
func (p *paused) removeAfter(e *execution, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopped {
		p.ended[e] = time.AfterFunc(d, func() { p.remove(e) })
	}
}

func (p *paused) get(id string) *execution {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.programs[id]
}

// name notes under which id a client may cancel the program. Requests of
// different users never meet.
func (p *paused) name(uid, request string, e *execution) {
	if request == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests[uid+"\x00"+request] = e.id
}

func (p *paused) byRequest(uid, request string) *execution {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.programs[p.requests[uid+"\x00"+request]]
}

// stop ends every program and returns when they are gone, or ctx ends.
func (p *paused) stop(ctx context.Context) error {
	p.mu.Lock()
	p.stopped = true
	for e, timer := range p.ended {
		timer.Stop()
		delete(p.ended, e)
	}
	for _, e := range p.programs {
		e.cancel(errStopped)
	}
	p.mu.Unlock()
	return lifecycle.Wait(ctx, &p.running)
}
