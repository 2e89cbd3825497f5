package record

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/modules/run"
)

// Work says that this process works on a call until done.
func (s *Service) Work(callID string) (done func()) {
	s.alive.add(callID)
	return func() { s.alive.drop(callID) }
}

// Working is how many calls this process works on, programs not among them.
func (s *Service) Working() int {
	s.alive.mu.Lock()
	defer s.alive.mu.Unlock()
	return len(s.alive.calls)
}

// Lost is how many calls ended elsewhere while this process worked on them: their
// leases had run out.
func (s *Service) Lost() int64 { return s.lost.Load() }

// Abandon has every call of this process looked at as if it were gone.
func (s *Service) Abandon(ctx context.Context) error {
	const atOnce = 500
	for more := true; more; {
		err := s.db.InTx(ctx, func(tx database.Tx) (err error) {
			more, err = s.rows.abandon(tx, s.settings.Owner, s.now(), atOnce)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Expired returns at most limit calls, of all users, whose lease is over at a moment:
// the process that worked on them is gone; or it is this one, which has not worked on
// them for a lease. Calls come before the programs that made them. What this process
// works on is not among them, whatever its lease is.
func (s *Service) Expired(ctx context.Context, now time.Time, limit int) ([]Call, error) {
	calls, err := s.rows.expired(s.db.Read(ctx), s.over(now), limit)
	return slices.DeleteFunc(calls, func(c Call) bool { return s.alive.has(c.CallID) }), err
}

func (s *Service) over(now time.Time) over {
	return over{now: now, owner: s.settings.Owner, idle: now.Add(-s.settings.Lease)}
}

// GiveUp ends a call whose lease is over at a moment as failed, unbilled, with its
// event; then runs in the same transaction. It does nothing when the call's
// process came back, when it has ended, or while calls that it made execute.
func (s *Service) GiveUp(ctx context.Context, c Call, now time.Time, then func(tx database.Tx) error) error {
	err := s.db.InTx(ctx, func(tx database.Tx) error {
		c, err := s.rows.stillExpired(tx, c.UID, c.CallID, s.over(now))
		if err != nil {
			return err
		}
		// Each lease ends at its own moment: a program is over after its calls.
		if n, err := s.rows.children(tx.Handle, c.UID, c.CallID); err != nil || n > 0 {
			return err
		}
		asked, err := s.rows.asked(tx.Handle, c)
		if err != nil {
			return err
		}
		if c, err = c.ended(lost(c, asked)); err != nil {
			return err
		}
		c.UpdatedAt = now
		if err := s.rows.finish(tx, c, now); err != nil {
			return err
		}
		if err := s.tellEnd(ctx, tx, c); err != nil {
			return err
		}
		return then(tx)
	})
	if errors.Is(err, ErrMissing) {
		return nil
	}
	return err
}

// Executing counts the calls of a run that are executing.
func (s *Service) Executing(tx database.Tx, r run.Ref) (int64, error) {
	return s.rows.inRun(tx.Handle, r)
}

// Postpone has a call that waits looked at again at another moment whose lease is over
// now.
func (s *Service) Postpone(ctx context.Context, c Call, now, until time.Time) error {
	return s.db.InTx(ctx, func(tx database.Tx) error { return s.rows.postpone(tx, c, s.over(now), until) })
}

// Adopt makes calls of models that wait in a run those of this process. It returns ErrUnsettled while calls of the run execute.
func (s *Service) Adopt(tx database.Tx, r run.Ref) error {
	return s.rows.adopt(tx, r, s.settings.Owner)
}

// register holds the calls this process works on.
type register struct {
	mu    sync.Mutex
	calls map[string]struct{}
}

func newRegister() *register { return &register{calls: map[string]struct{}{}} }

func (r *register) add(callID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[callID] = struct{}{}
}

func (r *register) drop(callID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.calls, callID)
}

func (r *register) has(callID string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.calls[callID]
	return ok
}
