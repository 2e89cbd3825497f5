package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/modules/run"
)

// ProgramInput is what a program is made of, as its record keeps it.
type ProgramInput struct {
	Code     string   `json:"code"`
	Language string   `json:"language"`
	Toolsets []string `json:"toolsets,omitempty"` // the only ones it may call; empty for all
	Plain    bool     `json:"plain,omitempty"`    // it may call none
	Outside  bool     `json:"outside,omitempty"`  // a service beside this server executes it, and may keep its code
	Tool     string   `json:"-"`                  // its name; empty for Program
	// Selected are the only tools of a toolset that it may call, by the
	// toolset's key; all of a toolset that is not in it.
	Selected map[string][]string `json:"selected,omitempty"`
	// Shown is set for a program that a model wrote.
	Shown Shown `json:"-"`
	// Functions are what it may call besides, until CloseProgram.
	Functions []Function `json:"-"`
}

// OpenProgram records a program that is about to run in a run of the actor's.
// Calls that name its id are its children until CloseProgram.
func (s *Service) OpenProgram(ctx context.Context, a actor.Actor, r run.Run, in ProgramInput) (Call, error) {
	input, err := json.Marshal(map[string]ProgramInput{"input": in})
	if err != nil {
		return Call{}, fmt.Errorf("encode the program: %w", err)
	}
	name := in.Tool
	if name == "" {
		name = Program
	}
	c := s.modelCall(a, r, in.Shown)
	c.Toolset, c.Tool, c.StepName, c.Input = name, name, name, input
	err = s.Stores.DB.InTx(ctx, func(tx database.Tx) error {
		if err := s.rows.insert(tx, c, s.claim("", "")); err != nil {
			return err
		}
		return s.tell(ctx, tx, c, run.ToolCallStart)
	})
	if err != nil {
		return Call{}, err
	}
	s.alive.add(c.CallID)
	s.lent.lend(c.CallID, in.Functions)
	return c, nil
}

// childPatience is how long the end of a program waits for calls it made that
// other processes still execute; their leases end them at the latest.
const childPatience = 30 * time.Second

// CloseProgram records the end of a program once none of its calls is
// executing, so that its end event follows theirs; after that its calls are
// refused. then runs in the same transaction, after the program's own event.
// CloseProgram returns ErrMissing when the program was given up as dead.
func (s *Service) CloseProgram(ctx context.Context, c Call, answer Answer, then func(tx database.Tx) error) error {
	defer s.alive.drop(c.CallID)
	defer s.lent.drop(c.CallID)
	answer, err := s.fit(ctx, c, answer)
	if err != nil {
		return fmt.Errorf("store the outcome of %s: %w", c.CallID, err)
	}
	return s.whenSettled(ctx, c.ResultID, func(tx database.Tx, late bool) error {
		if _, err := s.rows.lock(tx, c.UID, c.CallID); err != nil {
			return err
		}
		n, err := s.rows.children(tx.Handle, c.UID, c.CallID)
		if err != nil {
			return err
		}
		if n > 0 && !late {
			return errChildren
		}
		if err := s.endProgram(ctx, tx, c, answer); err != nil {
			return err
		}
		return then(tx)
	})
}

// endProgram writes the end of a program, with its event.
func (s *Service) endProgram(ctx context.Context, tx database.Tx, c Call, answer Answer) (err error) {
	event := run.ToolCallEnd
	c.Status = Completed
	if answer.Status != Success {
		c.Status, c.Error, event = Failed, answer.Error, run.ToolCallError
	}
	if c.Output, err = json.Marshal(answer); err != nil {
		return fmt.Errorf("encode the outcome of %s: %w", c.CallID, err)
	}
	c.UpdatedAt = s.Now()
	if err := s.rows.finish(tx, c, c.UpdatedAt); err != nil {
		return err
	}
	return s.tell(ctx, tx, c, event)
}

// whenSettled tries to end something of a run until it has no calls that are
// executing, which attempt reports by errChildren. The last attempt is told that
// it is late.
func (s *Service) whenSettled(ctx context.Context, resultID string, attempt func(tx database.Tx, late bool) error) error {
	woken, cancel := s.Stores.Wake.Subscribe(run.Topic(resultID))
	defer cancel()
	deadline := time.Now().Add(s.patience)
	for {
		late := !time.Now().Before(deadline)
		err := s.Stores.DB.InTx(ctx, func(tx database.Tx) error { return attempt(tx, late) })
		if late || !errors.Is(err, errChildren) {
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

var errChildren = errors.New("calls of the program are still executing")
