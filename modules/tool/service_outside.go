package tool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/run"
)

// RegisterOutside records a run, and a program in it, that a service beside this
// server executes: calls that name the program are its children, as those of the
// server's own programs are. No process keeps them alive; what nobody finishes
// fails at the end of its time, which calls do not prolong. The run lives as long
// as its longest program.
//
// The same request again returns what is there. A nil call means that none was
// asked for.
func (s *Service) RegisterOutside(ctx context.Context, a actor.Actor, p Registration) (r run.Run, c *Call, err error) {
	if err := p.validate(); err != nil {
		return run.Run{}, nil, err
	}
	p.Run.Until = s.Now().Add(p.Time)
	err = s.Stores.DB.InTx(ctx, func(tx database.Tx) error {
		if err := s.rememberRun(tx, a, &p); err != nil {
			return err
		}
		if r, err = s.Stores.Runs.Register(ctx, tx, a, p.Run); err != nil || p.Program == nil {
			return err
		}
		c, err = s.registerProgram(ctx, tx, r, p)
		return err
	})
	return r, c, err
}

// rememberRun gives a repeated request that leaves the run to the server the run
// that the first was given.
func (s *Service) rememberRun(tx database.Tx, a actor.Actor, p *Registration) error {
	if p.Run.ResultID != "" || p.CallID == "" {
		return nil
	}
	c, err := s.rows.byID(tx.Handle, a.UID, p.CallID)
	if errors.Is(err, ErrMissing) {
		return nil
	}
	p.Run.ResultID, p.Run.Version = c.ResultID, c.Version
	return err
}

func (s *Service) registerProgram(ctx context.Context, tx database.Tx, r run.Run, p Registration) (*Call, error) {
	in := *p.Program
	in.Outside, in.Language = true, cmp.Or(in.Language, "python")
	if len(in.Toolsets) == 0 {
		in.Toolsets = r.Toolsets
	}
	input, err := json.Marshal(map[string]ProgramInput{"input": in})
	if err != nil {
		return nil, fmt.Errorf("encode the program: %w", err)
	}
	if p.CallID == "" {
		p.CallID = s.Settings.Calls.New(ids.Agent)
	}
	known, err := s.rows.byID(tx.Handle, r.UID, p.CallID)
	if err == nil {
		return &known, s.sameProgram(known, r, input)
	}
	if !errors.Is(err, ErrMissing) {
		return nil, err
	}
	open, err := s.rows.outside(tx.Handle, r.UID)
	if err != nil {
		return nil, err
	}
	if open >= maxOutsideCalls {
		return nil, errManyPrograms
	}
	c := Call{
		CallID: p.CallID, Origin: ids.Agent, UID: r.UID, ResultID: r.ResultID, Version: r.Version, CanvasID: r.CanvasID,
		Toolset: Program, Tool: Program, StepName: Program, Input: input, Status: Executing, CreatedAt: s.Now(), ExpiresAt: p.Run.Until,
	}
	if err := s.rows.insert(tx, c, claim{owner: run.Outside, until: p.Run.Until}); err != nil {
		if database.IsDuplicate(err) { // another user's
			return nil, ErrCallTaken.With(err)
		}
		return nil, err
	}
	if err := s.Stores.Runs.Prolong(ctx, tx, r.UID, r.ResultID, r.Version, p.Run.Until); err != nil {
		return nil, err
	}
	return &c, s.tell(ctx, tx, c, run.ToolCallStart)
}

// sameProgram reports whether a program that is registered again is the one that
// was.
func (s *Service) sameProgram(c Call, r run.Run, input json.RawMessage) error {
	switch {
	case c.ResultID != r.ResultID || c.Version != r.Version || !bytes.Equal(c.Input, input):
		return errOtherProgram
	case !c.live(s.Now()):
		return ErrCallEnded
	}
	return nil
}

// FinishOutside ends what a service beside this server executed: a program, or
// the run with the programs that are left in it. The end waits for the calls
// that execute and refuses new ones; it returns ErrUnsettled where they take
// long. Only an aborted run ends at once: calls of it are recorded, and billed
// if they complete.
//
// What ended the same way before is no error. It returns ErrMissing or
// run.ErrMissing for what is absent or another user's.
func (s *Service) FinishOutside(ctx context.Context, a actor.Actor, e Ending) (r run.Run, ended []string, err error) {
	if err := e.validate(); err != nil {
		return r, nil, err
	}
	r, err = s.Stores.Runs.Get(ctx, a, e.ResultID, &e.Version)
	if err != nil {
		return r, nil, err
	}
	if over, err := s.over(ctx, a, r, e); over || err != nil {
		return r, nil, err
	}
	if e.CallID != "" || e.Status != run.Aborted {
		err = s.Stores.DB.InTx(ctx, func(tx database.Tx) error { return s.rows.seal(tx, r, e.CallID) })
		if err != nil {
			return r, nil, err
		}
	}
	answer := e.answer()
	if e.CallID != "" {
		if answer, err = s.fit(ctx, Call{UID: a.UID, CallID: e.CallID}, answer); err != nil {
			return r, nil, fmt.Errorf("store the outcome of %s: %w", e.CallID, err)
		}
	}
	err = s.whenSettled(ctx, r.ResultID, func(tx database.Tx, _ bool) error {
		ended, err = s.endOutside(ctx, tx, r, e, answer)
		return err
	})
	if errors.Is(err, errChildren) {
		return r, nil, ErrUnsettled
	}
	if err != nil {
		return r, nil, err
	}
	r, err = s.Stores.Runs.Get(ctx, a, r.ResultID, &r.Version)
	return r, ended, err
}

// over reports whether it has ended as it is to end. It returns an error where
// it ended otherwise, or is not the service's to end.
func (s *Service) over(ctx context.Context, a actor.Actor, r run.Run, e Ending) (bool, error) {
	if e.CallID == "" {
		switch {
		case r.Status == e.Status:
			return true, nil
		case r.Status.Final():
			return false, run.ErrEnded
		case r.ExpiresAt.IsZero():
			return false, run.ErrOurs
		}
		return false, nil
	}
	c, err := s.Call(ctx, a, e.CallID)
	switch {
	case err != nil:
		return false, err
	case c.ResultID != r.ResultID || c.Version != r.Version:
		return false, ErrMissing
	case c.Status == Executing && c.ExpiresAt.IsZero():
		return false, errOurProgram
	case c.Status == Executing:
		return false, nil
	case c.Error == e.reason():
		return true, nil
	}
	return false, ErrCallEnded
}

// endOutside records the end of a program, or of all that are left in the run
// and of the run, in one transaction. It returns the programs that ended.
func (s *Service) endOutside(ctx context.Context, tx database.Tx, r run.Run, e Ending, answer Answer) (ended []string, err error) {
	programs, err := s.rows.lockOutside(tx, r, e.CallID)
	if err != nil {
		return nil, err
	}
	whole := e.CallID == ""
	atOnce := whole && e.Status == run.Aborted
	for _, c := range programs {
		n, err := s.rows.children(tx.Handle, c.UID, c.CallID)
		if err != nil {
			return nil, err
		}
		if n > 0 && !atOnce {
			return nil, errChildren
		}
		if err := s.endProgram(ctx, tx, c, answer); err != nil {
			return nil, err
		}
		ended = append(ended, c.CallID)
	}
	switch {
	case whole:
		err = s.endOutsideRun(ctx, tx, r, e, atOnce)
	case len(programs) == 0: // it was given up meanwhile
		err = ErrCallEnded
	}
	return ended, err
}

// endOutsideRun ends the run after its programs. From then on its row is locked
// and nothing is added to it, so what was added before is seen now.
func (s *Service) endOutsideRun(ctx context.Context, tx database.Tx, r run.Run, e Ending, atOnce bool) error {
	finish := run.Finish{Status: e.Status, PTCEnabled: true}
	if reason := e.reason(); reason != "" {
		finish.Errors = []string{reason}
	}
	if err := s.Stores.Runs.Finish(ctx, tx, r.UID, r.ResultID, r.Version, finish); err != nil {
		return err
	}
	left, err := s.rows.inRun(tx.Handle, r.UID, r.ResultID, r.Version)
	if err != nil || left == 0 {
		return err
	}
	if atOnce {
		added, err := s.rows.lockOutside(tx, r, "")
		if err != nil || len(added) == 0 {
			return err
		}
	}
	return errChildren
}
