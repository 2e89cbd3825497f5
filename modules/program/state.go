package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/catalogue"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/sandbox"
)

// Describe tells what Python programs of the actor's that name toolsets can call, for
// whoever writes one. The warnings say what could not be described.
func (s *Service) Describe(ctx context.Context, a actor.Actor, keys []string) (*catalogue.Catalogue, []string, error) {
	return s.DescribeSelected(ctx, a, keys, nil)
}

// DescribeSelected is Describe where only some tools of a toolset are given, by its
// key.
func (s *Service) DescribeSelected(ctx context.Context, a actor.Actor, keys []string, selected map[string][]string) (*catalogue.Catalogue, []string, error) {
	req := Request{Language: sandbox.Python, Toolsets: keys, Selected: selected}
	named, err := s.named(ctx, a, req)
	if err != nil {
		return nil, nil, err
	}
	bundle, _, err := s.bundle(ctx, a, nil)
	if err != nil {
		return nil, nil, err
	}
	_, c, err := s.tools(ctx, a, req, named, bundle.Classes())
	return c, named.warnings, err
}

// State is how far a program has come. Of one that has not ended, only its calls are
// known.
type State struct {
	Outcome

	Ended bool
	// CanvasID is whose files it has; empty for none.
	CanvasID string
	// Why is why it did not complete; empty where it did.
	Why string
	// Lost is how many bytes it printed beyond what is kept.
	Lost int64
}

// ErrNoProgram is the error of State for what is no program of the actor's.
var ErrNoProgram = errs.New(errs.NotFound, "There is no such program.").Do("Give the id of one that was begun with the same user's key.")

// State reads how far a program of the actor's has come, by the id of its record, with
// its calls or without. The error is ErrNoProgram for any other id.
func (s *Service) State(ctx context.Context, a actor.Actor, callID string, calls bool) (State, error) {
	call, err := s.deps.Records.Call(ctx, a, callID)
	if errs.CodeOf(err) == errs.CodeOf(record.ErrMissing) || err == nil && call.Toolset != call.Tool {
		return State{}, ErrNoProgram
	}
	if err != nil {
		return State{}, err
	}
	st := State{Ended: call.Ended(), CanvasID: call.CanvasID, Outcome: Outcome{
		ResultID: call.ResultID, Version: call.Version, CallID: call.CallID, Status: running, Files: []File{}, Warnings: []string{},
	}}
	if st.Ended {
		if err := s.ended(ctx, a, call, &st); err != nil {
			return State{}, err
		}
	}
	if !calls {
		return st, nil
	}
	st.ToolCalls, err = s.children(ctx, a, call)
	st.ToolCallsMade = len(st.ToolCalls)
	return st, err
}

// ended fills in how a program ended.
func (s *Service) ended(ctx context.Context, a actor.Actor, call record.Call, st *State) error {
	data, err := s.deps.Records.Output(ctx, a, call.CallID)
	if err != nil {
		return err
	}
	if len(data) > 0 {
		var more struct{ StdoutDropped int64 }
		if err := errors.Join(json.Unmarshal(data, &st.Outcome), json.Unmarshal(data, &more)); err != nil {
			return fmt.Errorf("outcome of %s: %w", call.CallID, err)
		}
		st.Lost = more.StdoutDropped
	}
	if st.Status == running { // it was given up, or never begun
		st.Status, st.Stderr = sandbox.Failed, call.Error
	}
	st.Why = call.Error
	return nil
}
