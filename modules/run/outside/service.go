package outside

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
	"github.com/portico-run/portico/modules/run/record"
)

// Register records a run, and a program in it, that a service beside this
// server executes: calls that name the program are its children, as those of the
// server's own programs are. No process keeps them alive; what nobody finishes
// fails at the end of its time, which calls do not prolong. The run lives as long
// as its longest program.
//
// The same request again returns what is there. A nil call means that none was
// asked for.
func (s *Service) Register(ctx context.Context, a actor.Actor, p Registration) (r run.Run, c *record.Call, err error) {
	if err := p.validate(); err != nil {
		return run.Run{}, nil, err
	}
	p.Run.Until = s.now().Add(p.Time)
	err = s.db.InTx(ctx, func(tx database.Tx) error {
		if err := s.rememberRun(tx, a, &p); err != nil {
			return err
		}
		if r, err = s.runs.Register(ctx, tx, a, p.Run); err != nil || p.Program == nil {
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
	c, err := s.records.Find(tx, a.UID, p.CallID)
	if errors.Is(err, record.ErrMissing) {
		return nil
	}
	p.Run.ResultID, p.Run.Version = c.ResultID, c.Version
	return err
}

func (s *Service) registerProgram(ctx context.Context, tx database.Tx, r run.Run, p Registration) (*record.Call, error) {
	in := *p.Program
	in.Outside, in.Language = true, cmp.Or(in.Language, "python")
	if len(in.Toolsets) == 0 {
		in.Toolsets = r.Toolsets
	}
	input, err := record.WrapInput(in)
	if err != nil {
		return nil, fmt.Errorf("encode the program: %w", err)
	}
	if p.CallID == "" {
		p.CallID = s.records.NewID(ids.Agent)
	}
	known, err := s.records.Find(tx, r.UID, p.CallID)
	if err == nil {
		return &known, s.sameProgram(known, r, input)
	}
	if !errors.Is(err, record.ErrMissing) {
		return nil, err
	}
	open, err := s.records.CountOutside(tx, r.UID)
	if err != nil {
		return nil, err
	}
	if open >= maxPrograms {
		return nil, errManyPrograms
	}
	c := record.Call{
		CallID: p.CallID, Origin: ids.Agent, UID: r.UID, ResultID: r.ResultID, Version: r.Version, CanvasID: r.CanvasID,
		Toolset: record.Program, Tool: record.Program, StepName: record.Program, Input: input, Status: record.Executing, CreatedAt: s.now(), ExpiresAt: p.Run.Until,
	}
	if err := s.records.Register(ctx, tx, c); err != nil {
		if database.IsDuplicate(err) { // another user's
			return nil, ErrCallTaken.With(err)
		}
		return nil, err
	}
	return &c, s.runs.Prolong(ctx, tx, r.Ref(), p.Run.Until)
}

// sameProgram reports whether a program that is registered again is the one that
// was.
func (s *Service) sameProgram(c record.Call, r run.Run, input json.RawMessage) error {
	switch {
	case c.ResultID != r.ResultID || c.Version != r.Version || !bytes.Equal(c.Input, input):
		return errOtherProgram
	case !c.Live(s.now()):
		return ErrCallEnded
	}
	return nil
}

// Finish ends what a service beside this server executed: a program, or
// the run with the programs that are left in it. The end waits for the calls
// that execute and refuses new ones; it returns record.ErrUnsettled where
// they take long. Only an aborted run ends at once: calls of it are recorded, and billed
// if they complete.
//
// What ended the same way before is no error. It returns record.ErrMissing or
// run.ErrMissing for what is absent or another user's.
func (s *Service) Finish(ctx context.Context, a actor.Actor, e Ending) (r run.Run, ended []string, err error) {
	if err := e.validate(); err != nil {
		return r, nil, err
	}
	r, err = s.runs.Get(ctx, a, e.ResultID, &e.Version)
	if err != nil {
		return r, nil, err
	}
	if over, err := s.over(ctx, a, r, e); over || err != nil {
		return r, nil, err
	}
	if e.CallID != "" || e.Status != run.Aborted {
		if err := s.records.Seal(ctx, r.Ref(), e.CallID); err != nil {
			return r, nil, err
		}
	}
	answer := e.answer()
	if e.CallID != "" {
		if answer, err = s.records.Fit(ctx, record.Call{UID: a.UID, CallID: e.CallID}, answer); err != nil {
			return r, nil, fmt.Errorf("store the outcome of %s: %w", e.CallID, err)
		}
	}
	err = s.records.WhenSettled(ctx, r.ResultID, func(tx database.Tx, _ bool) error {
		ended, err = s.end(ctx, tx, r.Ref(), e, answer)
		return err
	})
	if err != nil {
		return r, nil, err
	}
	r, err = s.runs.Get(ctx, a, r.ResultID, &r.Version)
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
	c, err := s.records.Call(ctx, a, e.CallID)
	switch {
	case err != nil:
		return false, err
	case c.ResultID != r.ResultID || c.Version != r.Version:
		return false, record.ErrMissing
	case c.Status == record.Executing && c.ExpiresAt.IsZero():
		return false, errOurProgram
	case c.Status == record.Executing:
		return false, nil
	case c.Error == e.reason():
		return true, nil
	}
	return false, ErrCallEnded
}

// end records the end of a program, or of all that are left in the run and of
// the run, in one transaction. It returns the programs that ended.
func (s *Service) end(ctx context.Context, tx database.Tx, r run.Ref, e Ending, answer record.Answer) (ended []string, err error) {
	programs, err := s.records.LockOutside(tx, r, e.CallID)
	if err != nil {
		return nil, err
	}
	whole := e.CallID == ""
	for _, c := range programs {
		if err := s.records.EndProgram(ctx, tx, c, answer, whole && e.Status == run.Aborted); err != nil {
			return nil, err
		}
		ended = append(ended, c.CallID)
	}
	switch {
	case whole:
		err = s.endRun(ctx, tx, r, e)
	case len(programs) == 0: // it was given up meanwhile
		err = ErrCallEnded
	}
	return ended, err
}

// endRun ends the run after its programs. From then on its row is locked and
// nothing is added to it, so what was added before is seen now.
func (s *Service) endRun(ctx context.Context, tx database.Tx, r run.Ref, e Ending) error {
	finish := run.Finish{Status: e.Status, PTCEnabled: true}
	if reason := e.reason(); reason != "" {
		finish.Errors = []string{reason}
	}
	if err := s.runs.Finish(ctx, tx, r, finish); err != nil {
		return err
	}
	left, err := s.records.Executing(tx, r)
	if err != nil || left == 0 {
		return err
	}
	if e.Status == run.Aborted {
		added, err := s.records.LockOutside(tx, r, "")
		if err != nil || len(added) == 0 {
			return err
		}
	}
	return record.ErrUnsettled
}
