package publish

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/portico-run/portico/modules/run"
)

const (
	// maxKnown is how many runs this process remembers the place of.
	maxKnown = 10_000
	// maxSwept is how many runs are looked for in the database at once.
	maxSwept = 10_000
)

// round publishes what some of the waiting runs have. It ends with the first
// failure; what is not published stays waiting.
func (p *Publisher) round(ctx context.Context) error {
	if err := p.sweep(ctx); err != nil {
		return err
	}
	ids := p.take()
	if len(ids) == 0 {
		return nil
	}
	versions, err := p.deps.Runs.Versions(ctx, ids)
	if err != nil {
		p.putBack(ids)
		return err
	}
	failed := map[string]error{}
	for _, r := range versions {
		if failed[r.ResultID] != nil {
			continue
		}
		if err := p.publish(ctx, r); err != nil {
			failed[r.ResultID] = err
			if _, away := errors.AsType[unanswered](err); away {
				p.putBack(ids)
				return err
			}
		}
	}
	return p.settle(ids, failed)
}

// unanswered is a failure of Redis, not of a run.
type unanswered struct{ error }

// Unwrap returns what Redis, or the way to it, said.
func (u unanswered) Unwrap() error { return u.error }

// publish sends the events of a run that Redis does not have.
func (p *Publisher) publish(ctx context.Context, r run.Run) error {
	seen, known := p.published[r.Ref()]
	if !known {
		var err error
		if seen, err = p.store.seen(ctx, r); err != nil {
			return unanswered{err}
		}
	}
	for seen < r.Seq {
		events, err := p.deps.Events.Rendered(ctx, r, seen)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			break // the run was deleted
		}
		now, err := p.store.append(ctx, r, events)
		if err != nil {
			delete(p.published, r.Ref())
			return unanswered{err}
		}
		if now > seen {
			p.count(now - seen)
		}
		if now == seen {
			return fmt.Errorf("run %s: Redis stays at event %d", r.ResultID, seen)
		}
		seen = now // less than before, where Redis has lost what it had
	}
	if len(p.published) >= maxKnown {
		clear(p.published)
	}
	p.published[r.Ref()] = seen
	if r.Status.Final() && seen >= r.Seq {
		delete(p.published, r.Ref())
	}
	return nil
}

func (p *Publisher) count(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Published += n
}

// take names some of the runs that wait, and forgets that they do: what is
// written from now on makes them wait again.
func (p *Publisher) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken = map[string]waiting{}
	var ids []string
	for id, w := range p.waiting {
		if len(ids) == atOnce {
			break
		}
		ids = append(ids, id)
		p.taken[id] = w
		delete(p.waiting, id)
	}
	return ids
}

// putBack makes runs wait that could not be published.
func (p *Publisher) putBack(ids []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		p.waiting[id] = p.taken[id]
	}
}

// settle makes those runs wait that failed, and gives up those that fail always.
func (p *Publisher) settle(ids []string, failed map[string]error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []error
	for _, id := range ids {
		err := failed[id]
		if err == nil {
			continue
		}
		all = append(all, err)
		w := p.taken[id]
		if w.tries++; w.tries == maxTries {
			p.stats.Dropped++
			continue
		}
		p.waiting[id] = w
	}
	return errors.Join(all...)
}

// sweep finds the runs that changed while too many others waited, or before this
// process began, as long as their newest event is no older than CatchUp.
func (p *Publisher) sweep(ctx context.Context) error {
	p.mu.Lock()
	since, full, lost := p.missed, len(p.waiting) >= p.deps.Settings.MaxWaiting, p.lost
	p.mu.Unlock()
	if since.IsZero() || full {
		return nil
	}
	now := p.deps.Now()
	oldest := now.Add(-p.deps.Settings.CatchUp)
	late := since.Before(oldest)
	if late {
		since = oldest
	}
	ids, err := p.deps.Runs.Changed(ctx, since, maxSwept+1)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	whole := len(ids) <= maxSwept
	for _, id := range ids[:min(len(ids), maxSwept)] {
		if _, ok := p.waiting[id]; !ok {
			p.waiting[id] = waiting{since: now}
		}
	}
	if (!whole || late) && lost > 0 {
		p.stats.Dropped += lost
		p.deps.Logger.WarnContext(ctx, "changes of runs are not published: there were too many, or they are too old", "changes", lost)
	}
	p.lost -= lost
	if p.lost == 0 {
		p.missed = time.Time{}
	} else {
		p.missed = now
	}
	return nil
}
