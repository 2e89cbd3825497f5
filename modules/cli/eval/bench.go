package eval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/portico-run/portico/dev/scripted"
	"github.com/portico-run/portico/dev/services"
	"github.com/portico-run/portico/dev/services/tasks"
	"github.com/portico-run/portico/modules/cli/shell"
)

// bench does a plan.
type bench struct {
	shell    *shell.Shell
	plan     plan
	services *services.Services
	url      string // of the services
	ledger   *ledger

	mu       sync.Mutex
	model    string // the name of the one that is tried
	outcomes []outcome
	stopped  string // why not everything was done
}

func newBench(c *shell.Shell, p plan) *bench {
	own := *c
	own.Stderr = &lines{to: c.Stderr} // the servers log there, too
	return &bench{shell: &own, plan: p, services: services.New(), ledger: newLedger(p.budget, p.parallel), model: p.model}
}

// lines lets several write to one place.
type lines struct {
	mu sync.Mutex
	to io.Writer
}

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(b)
}

// all does the plan, one form after the other. What was done before an error is
// kept.
func (b *bench) all(ctx context.Context) (err error) {
	folder, err := os.MkdirTemp("", "portico-eval-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	address, end, err := scripted.Serve(ctx, "127.0.0.1:0", b.services)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	b.url = "http://" + address
	for _, f := range b.plan.forms {
		err := b.form(ctx, f, filepath.Join(folder, f.name))
		switch {
		case ctx.Err() != nil: // whatever that broke
			b.stop("It was interrupted.")
			return nil
		case errors.Is(err, errBudget):
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// form does all tasks in one form, on a server of its own.
func (b *bench) form(ctx context.Context, f form, folder string) (err error) {
	model := ""
	if b.plan.scripted {
		address, end, err := scripted.Serve(ctx, "127.0.0.1:0", scripted.New(tasks.Script(f.script, b.plan.tasks)))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, end()) }()
		model = "http://" + address
	}
	s, err := b.open(ctx, f, folder, model)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	return b.runs(ctx, s, f)
}

// job is one run that is to be made.
type job struct {
	task    tasks.Task
	attempt int
}

// runs makes the runs of one form. Each worker is a user with a world of its own at
// the services. An error ends all; the end of the budget lets those end that are
// under way.
func (b *bench) runs(ctx context.Context, s *site, f form) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	handing, enough := context.WithCancelCause(ctx)
	defer enough(nil)
	jobs := make(chan job)
	var workers sync.WaitGroup
	for _, u := range s.users {
		workers.Go(func() {
			for j := range jobs {
				err := b.one(ctx, s, u, work{j, f})
				if errors.Is(err, errBudget) {
					enough(err)
				} else if err != nil {
					cancel(err)
				}
				if err != nil {
					return
				}
			}
		})
	}
	b.hand(handing, jobs)
	workers.Wait()
	return context.Cause(handing)
}

// hand hands the runs out, until they are all or the context ends.
func (b *bench) hand(ctx context.Context, jobs chan<- job) {
	defer close(jobs)
	for attempt := range b.plan.repeat {
		for _, t := range b.plan.tasks {
			select {
			case jobs <- job{t, attempt + 1}:
			case <-ctx.Done():
				return
			}
		}
	}
}

// work is a run that is to be made in a form.
type work struct {
	job
	form form
}

// errBudget ends the runs of a form when the budget does not hold another one.
var errBudget = errors.New("the budget does not hold another run")

// one makes one run, if the budget holds it, and keeps what came of it.
func (b *bench) one(ctx context.Context, s *site, u user, w work) error {
	allowed, ok := b.ledger.take()
	if !ok {
		b.stop(b.ledger.why())
		return errBudget
	}
	o, err := s.attempt(ctx, u, w, allowed)
	cut := b.ledger.settle(allowed, o.Credits) && !o.Success
	if err != nil {
		return err
	}
	if cut { // the budget ended it, and not the model
		b.stop(b.ledger.why())
		return errBudget
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.outcomes = append(b.outcomes, o)
	if !b.shell.Quiet {
		fmt.Fprintf(b.shell.Stderr, "%d of %d  %s  %s  %s\n", len(b.outcomes), b.plan.runs(), o.Form, o.Task, cmp.Or(o.Reason, "done"))
	}
	return nil
}

// stop keeps the first reason why not everything is done.
func (b *bench) stop(why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = cmp.Or(b.stopped, why)
}

// inOrder sorts what was done by form, task and attempt, as the plan has them.
func (b *bench) inOrder() []outcome {
	places := func(o outcome) [3]int {
		return [3]int{
			slices.IndexFunc(b.plan.forms, func(f form) bool { return f.name == o.Form }),
			slices.IndexFunc(b.plan.tasks, func(t tasks.Task) bool { return t.Name == o.Task }),
			o.Attempt,
		}
	}
	return slices.SortedFunc(slices.Values(b.outcomes), func(x, y outcome) int {
		p, q := places(x), places(y)
		return slices.Compare(p[:], q[:])
	})
}
