// Package lease ends what processes have left behind: calls, then the programs that
// made them, then runs.
//
// Calls and runs live with the process that works on them, and modules/run/node knows
// which live; once one is gone, any other may end what it worked on as failed. Runs and
// programs that a service beside this server executes have a moment instead, which
// nobody moves on.
package lease

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
)

// Calls are the records of tool calls.
type Calls interface {
	Expired(ctx context.Context, now time.Time, limit int) ([]record.Call, error)
	GiveUp(ctx context.Context, c record.Call, now time.Time, then func(tx database.Tx) error) error
	Executing(tx database.Tx, r run.Ref) (int64, error)
}

// Runs are the runs.
type Runs interface {
	Get(ctx context.Context, a actor.Actor, resultID string, version *int) (run.Run, error)
	Expired(ctx context.Context, now time.Time, limit int) ([]run.Run, error)
	Finish(ctx context.Context, tx database.Tx, r run.Ref, f run.Finish) error
}

// Agents go on with runs whose process is gone.
type Agents interface {
	// Spare says that a process will go on with a call that waits for a person, and
	// has it looked at again at another moment.
	Spare(ctx context.Context, c record.Call, now, until time.Time) (bool, error)
	// GoesOn says that a process will go on with a run.
	GoesOn(ctx context.Context, r run.Run) (bool, error)
	// Forget says that a run has ended that no process will go on with.
	Forget(tx database.Tx, r run.Ref) error
}

// Deps is what the package needs.
type Deps struct {
	DB    *database.DB
	Runs  Runs
	Calls Calls
	// Agents are asked before something is ended; nil ends everything.
	Agents Agents
	// Lease is how long a process is believed alive; a third of it is the time between
	// two rounds.
	Lease  time.Duration
	Logger *slog.Logger
	// Now tells the time; nil is the wall clock.
	Now func() time.Time
}

// Keeper ends the calls and runs whose lease is over. It runs in every process.
type Keeper struct {
	db     *database.DB
	runs   Runs
	calls  Calls
	agents Agents
	lease  time.Duration
	logger *slog.Logger
	now    func() time.Time

	reaped atomic.Int64
	once   sync.Once
	stop   chan struct{}
	done   chan struct{} // nil until Start
}

// Reaped is how many calls and runs this keeper ended because their leases had run
// out.
func (k *Keeper) Reaped() int64 { return k.reaped.Load() }

// New makes a keeper that does nothing until Start.
func New(d Deps) *Keeper {
	if d.Now == nil {
		d.Now = d.DB.Now
	}
	return &Keeper{db: d.DB, runs: d.Runs, calls: d.Calls, agents: d.Agents, lease: d.Lease, logger: d.Logger, now: d.Now, stop: make(chan struct{})}
}

// batch bounds one round; the next one follows at the next beat.
const batch = 500

// Start ends what a dead process left behind, then keeps watch in the
// background until Stop.
func (k *Keeper) Start(ctx context.Context) error {
	if err := k.Reap(ctx); err != nil {
		return err
	}
	k.done = make(chan struct{})
	beat, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(k.done)
		defer cancel()
		ticker := time.NewTicker(k.lease / 3)
		defer ticker.Stop()
		for {
			select {
			case <-k.stop:
				return
			case <-ticker.C:
				k.beat(beat)
			}
		}
	}()
	return nil
}

// Stop ends the watch. Calls of this process that are still executing are
// given up by other processes when it is gone.
func (k *Keeper) Stop(context.Context) error {
	if k.done == nil {
		return nil
	}
	k.once.Do(func() { close(k.stop) })
	<-k.done
	return nil
}

func (k *Keeper) beat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, k.lease)
	defer cancel()
	if err := k.Reap(ctx); err != nil {
		k.logger.ErrorContext(ctx, "what other processes left behind could not be ended", "error", err)
	}
}

// Reap marks calls whose lease is over as failed, unbilled, with their event, and then
// ends runs whose lease is over.
func (k *Keeper) Reap(ctx context.Context) error {
	now := k.now()
	calls, err := k.calls.Expired(ctx, now, batch)
	if err != nil {
		return err
	}
	var failures []error
	for _, c := range calls {
		failures = append(failures, k.giveUp(ctx, c, now))
	}
	runs, err := k.runs.Expired(ctx, now, batch)
	failures = append(failures, err)
	for _, r := range runs {
		failures = append(failures, k.endRun(ctx, r))
	}
	return errors.Join(failures...)
}

func (k *Keeper) giveUp(ctx context.Context, c record.Call, now time.Time) error {
	if k.agents != nil {
		if spared, err := k.agents.Spare(ctx, c, now, now.Add(k.lease)); err != nil || spared {
			return err
		}
	}
	own, err := k.ownRun(ctx, c)
	if err != nil {
		return err
	}
	ended := false
	err = k.calls.GiveUp(ctx, c, now, func(tx database.Tx) error {
		ended = true
		if !own {
			return nil
		}
		err := k.runs.Finish(ctx, tx, c.Run(), run.Finish{Status: run.Failed, Errors: []string{runInterrupted}})
		if errors.Is(err, run.ErrEnded) {
			return nil
		}
		return err
	})
	k.count(ended, err)
	return err
}

// count counts what was ended, once that is committed.
func (k *Keeper) count(ended bool, err error) {
	if ended && err == nil {
		k.reaped.Add(1)
	}
}

// ownRun reports whether a call is the program that its run was made for: when
// the one is given up, the other has ended. Its process may live and keep the
// run's lease.
func (k *Keeper) ownRun(ctx context.Context, c record.Call) (bool, error) {
	if c.Origin != ids.Agent || !c.InRun() {
		return false, nil
	}
	r, err := k.runs.Get(ctx, actor.Actor{UID: c.UID}, c.ResultID, &c.Version)
	return err == nil && r.Type == record.Program, err
}

const runInterrupted = "The run was interrupted: the process that ran it died. Run it again."

func (k *Keeper) endRun(ctx context.Context, r run.Run) error {
	if k.agents != nil {
		if goesOn, err := k.agents.GoesOn(ctx, r); err != nil || goesOn {
			return err
		}
	}
	cause := runInterrupted
	if !r.ExpiresAt.IsZero() {
		cause = record.NotFinished
	}
	ended := false
	err := k.db.InTx(ctx, func(tx database.Tx) error {
		ended = false
		if n, err := k.calls.Executing(tx, r.Ref()); err != nil || n > 0 {
			return err // after its calls, also those that wait
		}
		if k.agents != nil {
			if err := k.agents.Forget(tx, r.Ref()); err != nil {
				return err
			}
		}
		ended = true
		return k.runs.Finish(ctx, tx, r.Ref(), run.Finish{Status: run.Failed, Errors: []string{cause}})
	})
	k.count(ended, err)
	if errors.Is(err, run.ErrEnded) {
		return nil // another keeper was faster
	}
	return err
}
