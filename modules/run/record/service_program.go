package record

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/run"
)

// ProgramInput is what a program is made of, as its record keeps it.
type ProgramInput struct {
	Code     string   `json:"code"`
	Language string   `json:"language"`
	Toolsets []string `json:"toolsets,omitempty"` // the only ones it may call; empty for all
	Plain    bool     `json:"plain,omitempty"`    // it may call none
	Outside  bool     `json:"outside,omitempty"`  // a service beside this server executes it, and may keep its code
	// TimeoutMS is its wall-clock limit in milliseconds; 0 where it is not known.
	TimeoutMS int64  `json:"timeoutMs,omitempty"`
	Tool      string `json:"-"` // its name; empty for Program
	// Selected are the only tools of a toolset that it may call, by the
	// toolset's key; all of a toolset that is not in it.
	Selected map[string][]string `json:"selected,omitempty"`
	// KeyID and Approval are those of Grant.
	KeyID    string `json:"keyId,omitempty"`
	Approval string `json:"approval,omitempty"`
	// ReadOnly refuses its calls of tools that may change something.
	ReadOnly bool `json:"readOnly,omitempty"`
	// Shown is set for a program that a model wrote.
	Shown Shown `json:"-"`
}

// OpenProgram records a program that is about to run in a run of the actor's.
// Calls that name its id are its children until CloseProgram.
func (s *Service) OpenProgram(ctx context.Context, a actor.Actor, r run.Run, in ProgramInput) (Call, error) {
	input, err := WrapInput(in)
	if err != nil {
		return Call{}, fmt.Errorf("encode the program: %w", err)
	}
	name := in.Tool
	if name == "" {
		name = Program
	}
	c := s.FromModel(a, r, in.Shown)
	c.Toolset, c.Tool, c.StepName, c.Input = name, name, name, input
	if err := ctx.Err(); err != nil {
		return Call{}, err
	}
	// As in Begin: whether it was committed has to be known.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	err = s.db.InTx(ctx, func(tx database.Tx) error {
		if err := s.rows.insert(tx, c, s.claim(Once{})); err != nil {
			return err
		}
		return s.tell(ctx, tx, c, run.ToolCallStart)
	})
	if err != nil {
		return Call{}, err
	}
	s.alive.add(c.CallID)
	return c, nil
}

// FromModel is the record of a call that a model makes in a run, without what it
// calls.
func (s *Service) FromModel(a actor.Actor, r run.Run, shown Shown) Call {
	c := Call{
		CallID: shown.CallID, Origin: ids.Agent, UID: a.UID, ResultID: r.ResultID, Version: r.Version, CanvasID: r.CanvasID,
		Status: Executing, CreatedAt: s.now(), ShownBy: shown.Event,
	}
	if c.CallID == "" {
		c.CallID = s.NewID(ids.Agent)
	}
	return c
}

// CloseProgram records the end of a program once none of its calls is
// executing, so that its end event follows theirs; after that its calls are
// refused. then runs in the same transaction, after the program's own event.
// CloseProgram returns ErrMissing when the program was given up as dead.
func (s *Service) CloseProgram(ctx context.Context, c Call, answer Answer, then func(tx database.Tx) error) error {
	defer s.alive.drop(c.CallID)
	answer, err := s.Fit(ctx, c, answer)
	if err != nil {
		return fmt.Errorf("store the outcome of %s: %w", c.CallID, err)
	}
	return s.WhenSettled(ctx, c.ResultID, func(tx database.Tx, late bool) error {
		if _, err := s.rows.lock(tx, c.UID, c.CallID); err != nil {
			return err
		}
		if err := s.EndProgram(ctx, tx, c, answer, late); err != nil {
			return err
		}
		return then(tx)
	})
}

// EndProgram writes the end of a program, with its event, in a transaction that
// holds its row. It returns ErrUnsettled while calls that it made execute, unless
// it is to end atOnce.
func (s *Service) EndProgram(ctx context.Context, tx database.Tx, c Call, a Answer, atOnce bool) error {
	n, err := s.rows.children(tx.Handle, c.UID, c.CallID)
	if err != nil {
		return err
	}
	if n > 0 && !atOnce {
		return ErrUnsettled
	}
	if c, err = c.ended(a); err != nil {
		return err
	}
	c.UpdatedAt = s.now()
	if err := s.rows.finish(tx, c, c.UpdatedAt); err != nil {
		return err
	}
	if err := tx.Notify(wake.Topic(endedProgram, c.CallID)); err != nil {
		return err
	}
	return s.tellEnd(ctx, tx, c)
}

// WhenSettled tries to end something of a run, in a transaction, until it has no
// calls that are executing, which attempt reports by ErrUnsettled. The last attempt
// is told that it is late.
func (s *Service) WhenSettled(ctx context.Context, resultID string, attempt func(tx database.Tx, late bool) error) error {
	woken, cancel := s.wake.Subscribe(run.Topic(resultID))
	defer cancel()
	deadline := time.Now().Add(s.settings.Patience)
	for {
		late := !time.Now().Before(deadline)
		err := s.db.InTx(ctx, func(tx database.Tx) error { return attempt(tx, late) })
		if late || !errors.Is(err, ErrUnsettled) {
			return err
		}
		select {
		case <-woken:
		case <-time.After(time.Second): // the wake-up may be another process's, and late
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
