package record

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

// Grant is what a program was given to call.
type Grant struct {
	All      bool     // it may call every toolset of its user
	Toolsets []string // otherwise, the only ones
	// Selected are the only tools of a toolset, by the toolset's key; all of one
	// that is not in it.
	Selected map[string][]string
}

// Allows reports whether a program was given a toolset.
func (g Grant) Allows(toolset string) bool { return g.All || slices.Contains(g.Toolsets, toolset) }

// Selects reports whether a program was given a tool of a toolset.
func (g Grant) Selects(toolset, name string) bool {
	only, narrowed := g.Selected[toolset]
	return !narrowed || slices.Contains(only, name)
}

// Caller returns the program that a call of the actor's names. It returns
// ErrParentForeign for one that is not a program of the actor's. The key of a
// program counts with one that is executing now, else ErrParentEnded; every call
// asks the database, so that the end of a program is the end of its key in
// every process.
func (s *Service) Caller(ctx context.Context, a actor.Actor, callID string) (Call, Grant, error) {
	restricted := a.Scope == actor.ToolExecute
	if callID == "" {
		return Call{}, Grant{}, ErrProgramMissing
	}
	c, err := s.rows.byID(s.db.Read(ctx), a.UID, callID)
	if errors.Is(err, ErrMissing) || (err == nil && c.Origin != ids.Agent) {
		return c, Grant{}, ErrParentForeign
	}
	if err != nil {
		return c, Grant{}, err
	}
	given, readable := programOf(c.Input)
	if restricted && !readable {
		return c, Grant{}, ErrParentForeign
	}
	if restricted && !c.Live(s.now()) {
		return c, Grant{}, ErrParentEnded
	}
	return c, Grant{All: readable && len(given.Toolsets) == 0, Toolsets: given.Toolsets, Selected: given.Selected}, nil
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
	of, _, err := s.Caller(ctx, a, callID)
	if err != nil {
		return err
	}
	if c.CallID == of.CallID || !c.InRun() || c.ResultID != of.ResultID || c.Version != of.Version {
		return ErrMissing
	}
	return nil
}
