// Package retention deletes what has ended and is kept no longer, and says of every
// table how long its rows are kept.
package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/discard"
	"github.com/portico-run/portico/internal/lifecycle"
	"github.com/portico-run/portico/internal/objectstore"
)

// Deps is what the keeper needs.
type Deps struct {
	DB      *database.DB
	Objects objectstore.Store
	// Output is the key of the object that a call's whole result may be.
	Output func(uid, callID string) string
	// Deleted tells of a run that is gone, in its transaction.
	Deleted  func(tx database.Tx, resultID string) error
	Observer Observer
	Settings Settings
	Logger   *slog.Logger
}

// Observer is told what the keeper does.
type Observer interface {
	// Gone are rows that were deleted from a table.
	Gone(table string, rows int)
	// Oldest is the age of the oldest row that has ended, and for how long it has
	// been due.
	Oldest(table string, age, due time.Duration)
}

// Keeper deletes what is kept no longer.
type Keeper struct {
	deps Deps
	gone *discard.Service
	rows repository
}

// New returns a keeper and starts nothing.
func New(d Deps) *Keeper { return &Keeper{deps: d, gone: discard.New(d.DB, d.Objects)} }

const (
	// every is how long the keeper rests.
	every = 10 * time.Minute
	// batch is how many rows one transaction deletes, about.
	batch = 500
	// runs is how many runs are looked at for one transaction.
	runs = 50
)

// job is a table with a setting.
type job struct {
	table, setting string
	keep           time.Duration
	// next deletes some of what ended before a moment, says how much of which table, and
	// whether there may be more.
	next func(tx database.Tx, before time.Time) (deleted tally, more bool, err error)
}

// tally is how many rows went, by table.
type tally map[string]int

func (t tally) sum() (n int) {
	for _, rows := range t {
		n += rows
	}
	return n
}

func (k *Keeper) jobs() []job {
	s := k.deps.Settings
	return []job{
		{"action_results", ofRuns, s.Runs, k.someRuns},
		{"run_events", ofRunEvents, s.RunEvents, k.someEvents},
		{"tool_call_results", ofCalls, s.Calls, k.someCalls},
		{"audit_events", ofAudit, s.Audit, k.someAudit},
	}
}

// Run works until the context ends.
func (k *Keeper) Run(ctx context.Context) {
	for {
		if err := k.Round(ctx); err != nil && ctx.Err() == nil {
			k.deps.Logger.ErrorContext(ctx, "what is kept no longer was not deleted", "error", err)
		}
		if lifecycle.Pause(ctx, every) != nil {
			return
		}
	}
}

// Round deletes all that is due. Where another process does, it leaves the work to that
// one. A table that cannot be cleared does not keep the others.
func (k *Keeper) Round(ctx context.Context) error {
	var problems []error
	for _, j := range k.jobs() {
		if j.keep == 0 {
			continue
		}
		if err := k.clear(ctx, j); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", j.table, err))
		}
		if err := k.look(ctx, j); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", j.table, err))
		}
	}
	if _, err := k.gone.Run(ctx, k.deps.DB.Now()); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// clear deletes batch by batch, and rests after each as long as it took.
func (k *Keeper) clear(ctx context.Context, j job) error {
	before := k.deps.DB.Now().Add(-j.keep)
	for {
		begun := time.Now()
		var deleted tally
		var more bool
		err := k.deps.DB.InTx(ctx, func(tx database.Tx) error {
			alone, err := tx.Alone("retention")
			if err != nil || !alone {
				return err
			}
			deleted, more, err = j.next(tx, before)
			return err
		})
		if err != nil {
			return err
		}
		for table, rows := range deleted {
			k.deps.Observer.Gone(table, rows)
		}
		if !more {
			return nil
		}
		if err := lifecycle.Pause(ctx, time.Since(begun)); err != nil {
			return err
		}
	}
}

// look tells how old the oldest is, and for how long something has been due.
func (k *Keeper) look(ctx context.Context, j job) error {
	now, h := k.deps.DB.Now(), k.deps.DB.Read(ctx)
	since := func(before time.Time) (time.Duration, error) {
		oldest, err := k.rows.oldest(h, j.table, before)
		if err != nil || oldest.IsZero() {
			return 0, err
		}
		return before.Sub(oldest), nil
	}
	age, err := since(now)
	if err != nil {
		return err
	}
	due, err := since(now.Add(-j.keep))
	if err != nil {
		return err
	}
	k.deps.Observer.Oldest(j.table, age, due)
	return nil
}

func (k *Keeper) someAudit(tx database.Tx, before time.Time) (tally, bool, error) {
	n, err := k.rows.deleteAudit(tx, before, batch)
	return tally{"audit_events": n}, n > 0, err
}

func (k *Keeper) someCalls(tx database.Tx, before time.Time) (tally, bool, error) {
	found, err := k.rows.oldCalls(tx.Handle, before, batch)
	if err != nil {
		return nil, false, err
	}
	n, err := k.delete(tx, found)
	return tally{"tool_call_results": n}, n > 0, err
}

// delete deletes records of calls, and writes down the objects that they name.
func (k *Keeper) delete(tx database.Tx, found []callRow) (int, error) {
	if len(found) == 0 {
		return 0, nil
	}
	callIDs := make([]string, len(found))
	for i, c := range found {
		callIDs[i] = c.CallID
		if !c.Stored {
			continue
		}
		if err := discard.Later(tx, c.UID, k.deps.DB.Now(), k.deps.Output(c.UID, c.CallID)); err != nil {
			return 0, err
		}
	}
	return k.rows.deleteCalls(tx, callIDs)
}

// someEvents deletes events of runs but for the last, which says how the run ended.
func (k *Keeper) someEvents(tx database.Tx, before time.Time) (tally, bool, error) {
	found, err := k.rows.eventful(tx.Handle, before, runs)
	deleted := 0
	for _, r := range found {
		room := batch - deleted
		if room <= 0 || err != nil {
			break
		}
		var n int
		n, err = k.rows.deleteEvents(tx, r, r.EventSeq, room)
		deleted += n
		if err == nil && n < room {
			err = k.rows.eventsGone(tx, r)
		}
	}
	return tally{"run_events": deleted}, len(found) > 0, err
}

// someRuns deletes runs with all that belongs to them. One that is larger than a
// transaction goes in several: the run itself with the last.
func (k *Keeper) someRuns(tx database.Tx, before time.Time) (tally, bool, error) {
	deleted, seen := tally{}, map[string]bool{}
	for _, status := range final() {
		found, err := k.rows.oldRuns(tx.Handle, status, before, runs)
		if err != nil {
			return nil, false, err
		}
		for _, r := range found {
			if deleted.sum() >= batch {
				return deleted, true, nil
			}
			if seen[r.ResultID] {
				continue // with another version of it
			}
			seen[r.ResultID] = true
			if err := k.run(tx, r, before, deleted); err != nil {
				return nil, false, fmt.Errorf("run %s: %w", r.ResultID, err)
			}
		}
	}
	return deleted, len(seen) > 0, nil
}

func (k *Keeper) run(tx database.Tx, r runKey, before time.Time, deleted tally) error {
	versions, others, err := k.rows.versions(tx.Handle, r.UID, r.ResultID, before)
	if err != nil {
		return err
	}
	if others > 0 {
		return errChanged
	}
	for _, v := range versions {
		n, err := k.rows.deleteEvents(tx, v, v.EventSeq+1, batch)
		deleted["run_events"] += n
		if err != nil || n == batch {
			return err
		}
		n, err = k.rows.deleteMessages(tx, v, batch)
		deleted["action_messages"] += n
		if err != nil || n == batch {
			return err
		}
	}
	for {
		found, err := k.rows.ofRun(tx.Handle, r.UID, r.ResultID, batch)
		if err != nil {
			return err
		}
		n, err := k.delete(tx, found)
		deleted["tool_call_results"] += n
		if err != nil || n == batch {
			return err
		}
		if n == 0 {
			break
		}
	}
	deleted["action_results"] += len(versions)
	if err := k.rows.deleteRun(tx, r.UID, r.ResultID, len(versions), before); err != nil {
		return err
	}
	return k.deps.Deleted(tx, r.ResultID)
}
