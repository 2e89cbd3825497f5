package tool

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/ids"
)

// ErrProgramMissing is the key of a program without a program.
var ErrProgramMissing = errs.New(errs.Forbidden, "This key counts only together with the id of a program that is executing.").
	Do("Send x-ptc-call-id as the program was given it in REFLY_PTC_CALL_ID; outside of programs, use an API key of your own.")

// program is what a call knows of the program that makes it.
type program struct {
	stepName string
	any      bool     // it may call every toolset of its user
	toolsets []string // otherwise, the only ones
	selected map[string][]string
}

func (p program) allows(toolset string) bool { return p.any || slices.Contains(p.toolsets, toolset) }

// selects reports whether a program was given a tool of a toolset.
func (p program) selects(toolset, name string) bool {
	only, narrowed := p.selected[toolset]
	return !narrowed || slices.Contains(only, name)
}

// caller returns the program that a call of the actor's names. It returns
// ErrParentForeign for one that is not a program of the actor's. The key of a
// program counts with one that is executing now, else ErrParentEnded; every call
// asks the database, so that the end of a program is the end of its key in
// every process.
func (s *Service) caller(ctx context.Context, a actor.Actor, callID string) (Call, program, error) {
	restricted := a.Scope == actor.ToolExecute
	if callID == "" {
		return Call{}, program{}, ErrProgramMissing
	}
	c, err := s.rows.byID(s.Stores.DB.Read(ctx), a.UID, callID)
	if errors.Is(err, ErrMissing) || (err == nil && c.Origin != ids.Agent) {
		return c, program{}, ErrParentForeign
	}
	if err != nil {
		return c, program{}, err
	}
	given, readable := programOf(c.Input)
	if restricted && !readable {
		return c, program{}, ErrParentForeign
	}
	if restricted && !c.live(s.Now()) {
		return c, program{}, ErrParentEnded
	}
	return c, program{stepName: c.StepName, any: readable && len(given.Toolsets) == 0, toolsets: given.Toolsets, selected: given.Selected}, nil
}

// programOf reads which toolsets a program was given; none are all. What is
// not the input of a program, or of one without tools, is not readable: it
// gives no toolset.
func programOf(input json.RawMessage) (given ProgramInput, readable bool) {
	var v struct {
		Input ProgramInput `json:"input"`
	}
	if json.Unmarshal(input, &v) != nil || v.Input.Language == "" || v.Input.Plain || (v.Input.Code == "" && !v.Input.Outside) {
		return ProgramInput{}, false
	}
	return v.Input, true
}

// sees reports ErrMissing for calls that are not of the program's run.
func (s *Service) sees(ctx context.Context, a actor.Actor, c Call, callID string) error {
	of, _, err := s.caller(ctx, a, callID)
	if err != nil {
		return err
	}
	if c.CallID == of.CallID || !c.InRun() || c.ResultID != of.ResultID || c.Version != of.Version {
		return ErrMissing
	}
	return nil
}
