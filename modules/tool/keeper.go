package tool

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/run"
)

// Keeper says for this process "these calls are still worked on", and ends
// the calls and runs of processes that have stopped saying so.
type Keeper struct {
	s    *Service
	once sync.Once
	stop chan struct{}
	done chan struct{} // nil until Start
}

// reapBatch bounds one round; the next one follows at the next beat.
const reapBatch = 500

func newKeeper(s *Service) *Keeper {
	return &Keeper{s: s, stop: make(chan struct{})}
}

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
		ticker := time.NewTicker(k.s.Settings.Lease / 3)
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
// given up by other processes when their leases end.
func (k *Keeper) Stop(context.Context) error {
	if k.done == nil {
		return nil
	}
	k.once.Do(func() { close(k.stop) })
	<-k.done
	return nil
}

func (k *Keeper) beat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, k.s.Settings.Lease)
	defer cancel()
	if err := errors.Join(k.renew(ctx), k.Reap(ctx)); err != nil {
		k.s.Logger.ErrorContext(ctx, "leases could not be kept", "error", err)
	}
}

func (k *Keeper) renew(ctx context.Context) error {
	until := k.s.Now().Add(k.s.Settings.Lease)
	if err := k.s.Stores.Runs.Renew(ctx, k.s.Settings.Owner, until); err != nil {
		return err
	}
	calls := k.s.alive.list()
	if len(calls) == 0 {
		return nil
	}
	return k.s.Stores.DB.InTx(ctx, func(tx database.Tx) error {
		return k.s.rows.renew(ctx, tx, k.s.Settings.Owner, calls, until)
	})
}

// Reap marks calls whose lease has run out as failed, unbilled, with their
// event, and then ends runs whose lease has run out.
func (k *Keeper) Reap(ctx context.Context) error {
	now := k.s.Now()
	calls, err := k.s.rows.expired(k.s.Stores.DB.Read(ctx), now, reapBatch)
	if err != nil {
		return err
	}
	var failures []error
	for _, c := range calls {
		failures = append(failures, k.giveUp(ctx, c, now))
	}
	runs, err := k.s.Stores.Runs.Expired(ctx, now, reapBatch)
	failures = append(failures, err)
	for _, r := range runs {
		failures = append(failures, k.endRun(ctx, r))
	}
	return errors.Join(failures...)
}

func (k *Keeper) giveUp(ctx context.Context, c Call, now time.Time) error {
	answer := interrupted()
	if !c.ExpiresAt.IsZero() {
		answer = Answer{Status: errorStatus, Error: notFinished, ErrorCode: CodeNotFinished}
	}
	output, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	own, err := k.ownRun(ctx, c)
	if err != nil {
		return err
	}
	err = k.s.Stores.DB.InTx(ctx, func(tx database.Tx) error {
		c, err := k.s.rows.stillExpired(tx, c.UID, c.CallID, now)
		if err != nil {
			return err
		}
		// Each lease ends at its own moment: a program is over after its calls.
		if n, err := k.s.rows.children(tx.Handle, c.UID, c.CallID); err != nil || n > 0 {
			return err
		}
		c.Status, c.Error, c.Output, c.UpdatedAt = Failed, answer.Error, output, now
		if err := k.s.rows.finish(tx, c, now); err != nil {
			return err
		}
		if err := k.s.tell(ctx, tx, c, run.ToolCallError); err != nil {
			return err
		}
		if !own {
			return nil
		}
		err = k.s.Stores.Runs.Finish(ctx, tx, c.UID, c.ResultID, c.Version, run.Finish{Status: run.Failed, Errors: []string{runInterrupted}})
		if errors.Is(err, run.ErrEnded) {
			return nil
		}
		return err
	})
	if errors.Is(err, ErrMissing) {
		return nil // its process came back, or another keeper was faster
	}
	return err
}

// ownRun reports whether a call is the program that its run was made for: when
// the one is given up, the other has ended. Its process may live and keep the
// run's lease.
func (k *Keeper) ownRun(ctx context.Context, c Call) (bool, error) {
	if c.Origin != ids.Agent || !c.InRun() {
		return false, nil
	}
	r, err := k.s.Stores.Runs.Get(ctx, actor.Actor{UID: c.UID}, c.ResultID, &c.Version)
	return err == nil && r.Type == Program, err
}

const runInterrupted = "The run was interrupted: the process that ran it died. Run it again."

func (k *Keeper) endRun(ctx context.Context, r run.Run) error {
	cause := runInterrupted
	if !r.ExpiresAt.IsZero() {
		cause = notFinished
	}
	err := k.s.Stores.DB.InTx(ctx, func(tx database.Tx) error {
		if n, err := k.s.rows.inRun(tx.Handle, r.UID, r.ResultID, r.Version); err != nil || n > 0 {
			return err // after its calls
		}
		return k.s.Stores.Runs.Finish(ctx, tx, r.UID, r.ResultID, r.Version, run.Finish{
			Status: run.Failed, Errors: []string{cause},
		})
	})
	if errors.Is(err, run.ErrEnded) {
		return nil // another keeper was faster
	}
	return err
}
