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
	// KeyID is the user's key that began the program; empty for none. Approval is
	// when its calls are to wait for a person, as whoever began it wants.
	KeyID, Approval string
	// ReadOnly refuses its calls of tools that may change something.
	ReadOnly bool
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
// program counts with one that is executing, else ErrParentEnded. Another process
// may learn a second late that a program has ended; Begin, which asks the
// database, refuses its calls all the same.
func (s *Service) Caller(ctx context.Context, a actor.Actor, callID string) (Call, Grant, error) {
	p, err := s.programs.Get(ctx, ownCall{a.UID, callID}, func(ctx context.Context) (program, error) { return s.readProgram(ctx, a, callID) })
	return s.admit(a, p, err)
}

// CallerNow is Caller for those that do not Begin a call: it asks the database.
func (s *Service) CallerNow(ctx context.Context, a actor.Actor, callID string) (Call, Grant, error) {
	p, err := s.readProgram(ctx, a, callID)
	return s.admit(a, p, err)
}

func (s *Service) admit(a actor.Actor, p program, err error) (Call, Grant, error) {
	restricted := a.Scope == actor.ToolExecute
	switch {
	case err != nil:
		return p.Call, Grant{}, err
	case p.Origin != ids.Agent, restricted && !p.readable:
		return p.Call, Grant{}, ErrParentForeign
	case restricted && !p.Live(s.now()):
		return p.Call, Grant{}, ErrParentEnded
	}
	return p.Call, p.grant, nil
}

func (s *Service) readProgram(ctx context.Context, a actor.Actor, callID string) (program, error) {
	if callID == "" {
		return program{}, ErrProgramMissing
	}
	c, err := s.rows.byID(s.db.Read(ctx), a.UID, callID)
	if errors.Is(err, ErrMissing) {
		return program{}, ErrParentForeign
	}
	if err != nil {
		return program{}, err
	}
	given, readable := programOf(c.Input)
	c.Input, c.Output = nil, nil
	return program{c, Grant{All: readable && len(given.Toolsets) == 0, Toolsets: given.Toolsets, Selected: given.Selected, KeyID: given.KeyID, Approval: given.Approval, ReadOnly: given.ReadOnly}, readable}, nil
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
	of, _, err := s.CallerNow(ctx, a, callID)
	if err != nil {
		return err
	}
	if c.CallID == of.CallID || !c.InRun() || c.ResultID != of.ResultID || c.Version != of.Version {
		return ErrMissing
	}
	return nil
}
