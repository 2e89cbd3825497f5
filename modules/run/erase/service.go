// Package erase deletes runs that have ended, with what was said in them.
package erase

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/discard"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
)

// ErrRunning is the refusal to delete a run in which something happens.
var ErrRunning = errs.New(errs.Conflict, "The run has not ended.").
	Do("Abort it with POST /v1/action/abort, or wait for its end.")

// Deps is what the service needs.
type Deps struct {
	DB      *database.DB
	Objects objectstore.Store
	Now     func() time.Time
}

// Service deletes runs.
type Service struct {
	db   *database.DB
	gone *discard.Service
	now  func() time.Time
	rows repository
}

// New returns a service and starts nothing.
func New(d Deps) *Service {
	if d.Now == nil {
		d.Now = d.DB.Now
	}
	return &Service{db: d.DB, gone: discard.New(d.DB, d.Objects), now: d.Now}
}

// Holdings are what is kept of a run, over all of its versions.
type Holdings struct {
	Versions, Events, Messages int64
	// Calls are the ids of the calls that were made in it.
	Calls []string
	// Open is set while something happens in the run.
	Open bool
}

// Owner is the user of a run. It returns run.ErrMissing where there is no such run,
// and is for operators.
func (s *Service) Owner(ctx context.Context, resultID string) (string, error) {
	return s.rows.owner(s.db.Read(ctx), resultID)
}

// Holdings counts what is kept of a run of the actor's. It returns run.ErrMissing
// where there is none.
func (s *Service) Holdings(ctx context.Context, a actor.Actor, resultID string) (Holdings, error) {
	var held Holdings
	err := s.db.InTx(ctx, func(tx database.Tx) (err error) {
		held, err = s.holdings(tx.Handle, a.UID, resultID)
		return err
	})
	return held, err
}

func (s *Service) holdings(h database.Handle, uid, resultID string) (Holdings, error) {
	versions, err := s.rows.versions(h, uid, resultID)
	if err != nil {
		return Holdings{}, fmt.Errorf("read run: %w", err)
	}
	if len(versions) == 0 {
		return Holdings{}, run.ErrMissing
	}
	held := Holdings{Versions: int64(len(versions))}
	held.Open = slices.ContainsFunc(versions, func(r runRow) bool { return !run.Status(r.Status).Final() })
	executing, err := s.rows.executing(h, uid, resultID)
	if err != nil {
		return Holdings{}, fmt.Errorf("count calls: %w", err)
	}
	held.Open = held.Open || executing > 0
	for model, n := range map[any]*int64{&eventRow{}: &held.Events, &messageRow{}: &held.Messages} {
		if *n, err = s.rows.count(h, model, resultID); err != nil {
			return Holdings{}, fmt.Errorf("count what is kept of a run: %w", err)
		}
	}
	told, err := s.rows.told(h, uid, resultID)
	if err != nil {
		return Holdings{}, fmt.Errorf("count what is kept of a run: %w", err)
	}
	held.Messages += told
	if held.Calls, err = s.rows.callsOf(h, uid, resultID); err != nil {
		return Holdings{}, fmt.Errorf("read calls: %w", err)
	}
	return held, nil
}

// Delete deletes a run of the actor's with its events, messages and approvals. The records
// of its calls lose their arguments and results and are shown to nobody any
// more; that they were made stays, because charges name them. Results that are
// stored as objects go, too, and files of the canvas stay. It returns ErrRunning
// while something happens in the run.
func (s *Service) Delete(ctx context.Context, a actor.Actor, resultID string) error {
	var outputs []string
	err := s.db.InTx(ctx, func(tx database.Tx) (err error) {
		outputs, err = s.delete(tx, a.UID, resultID)
		return err
	})
	if err == nil {
		s.gone.Try(ctx, a.UID, outputs...)
	}
	return err
}

// delete returns the keys of the objects that are to go.
func (s *Service) delete(tx database.Tx, uid, resultID string) (outputs []string, err error) {
	held, err := s.holdings(tx.Handle, uid, resultID)
	if err != nil {
		return nil, err
	}
	if held.Open {
		return nil, ErrRunning
	}
	now := s.now()
	stored, err := s.rows.stored(tx.Handle, uid, resultID)
	if err != nil {
		return nil, fmt.Errorf("read calls: %w", err)
	}
	for _, callID := range stored {
		outputs = append(outputs, record.OutputKey(uid, callID))
	}
	if err := discard.Later(tx, uid, now, outputs...); err != nil {
		return nil, fmt.Errorf("write down outputs: %w", err)
	}
	err = s.rows.changeCalls(tx, uid, resultID, map[string]any{
		"input": "{}", "output": "{}", "error": nil, "step_name": nil, "idempotency_key": nil, "request_hash": nil, "updated_at": now, "deleted_at": now,
	})
	if err != nil {
		return nil, fmt.Errorf("clear calls: %w", err)
	}
	for _, model := range []any{&eventRow{}, &messageRow{}} {
		if err := s.rows.clear(tx, model, resultID); err != nil {
			return nil, fmt.Errorf("delete what is kept of a run: %w", err)
		}
	}
	if err := s.rows.delete(tx, uid, resultID); err != nil {
		return nil, fmt.Errorf("delete run: %w", err)
	}
	return outputs, nil
}
