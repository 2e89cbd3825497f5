package app

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portico-run/portico/internal/drain"
)

// ending is the end of a process that loses nothing.
type ending struct {
	door  drain.Door
	began atomic.Bool

	once  sync.Once
	asked chan struct{}
}

// begun reports whether the process ends.
func (e *ending) begun() bool { return e.began.Load() }

// ask says that somebody wants the process to end.
func (e *ending) ask() { e.once.Do(func() { close(e.asked) }) }

// Asked is closed when somebody wants this process to end, as portico node drain does.
func (s *Serving) Asked() <-chan struct{} { return s.app.ending.asked }

// lookAtWork is how often it is looked whether a process that ends still has work.
const lookAtWork = 100 * time.Millisecond

// Drain lets what this process works on come to its end. It is ready no more; then
// nothing new begins, and runs of agents are left to other processes; it returns when
// nothing is left, at the latest after the time of the configuration, or when ctx ends.
func (s *Serving) Drain(ctx context.Context) {
	a, c := s.app, s.app.Config.Server
	a.ending.began.Store(true)
	a.Logger.InfoContext(ctx, "this process is about to end; it finishes its work first", "limit", c.DrainDelay+c.DrainTimeout)
	if a.Nodes.Count() > 1 && !wait(ctx, c.DrainDelay) {
		return
	}
	a.ending.door.Close()
	a.Agents.Service.Quit()
	a.Approvals.Service.Quit()
	ctx, cancel := context.WithTimeout(ctx, c.DrainTimeout)
	defer cancel()
	look := time.NewTicker(lookAtWork)
	defer look.Stop()
	for a.working() > 0 {
		select {
		case <-ctx.Done():
			a.Logger.WarnContext(ctx, "this process ends with work that did not finish")
			return
		case <-look.C:
		}
	}
}

// working is how much this process works on: programs, calls, runs of agents, and
// conversations; some of it counts twice. Interpreters that wait for code do not count.
func (a *App) working() int {
	programs := a.Engine.Stats().Counts
	jobs := max(0, programs.Running+programs.Queued+programs.Paused-a.Interpreters.Service.Resting())
	return jobs + a.Records.Service.Working() + a.Agents.Service.Running() + a.Dialogues.Working()
}

// wait reports false when ctx ended before the time was over.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
