package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool/function"
)

// CodeNotFound says that a function of the server's own did not find what it
// was asked for.
const CodeNotFound = "NOT_FOUND"

// performOwn executes a call of a function of the server's own: one that the
// calling program was lent, or one that everybody has.
func (s *Service) performOwn(ctx context.Context, j job) record.Answer {
	c := j.call
	if lent, ok := s.lent.find(c.ParentID, c.Tool); ok && !j.by.ReadOnly {
		return s.performLent(ctx, c, lent, j.arguments)
	}
	f, ok := s.functions.Find(c.Tool)
	switch {
	case !ok:
		return s.noFunction(c)
	case c.Origin == ids.PTC && !f.SandboxCallable:
		return record.Refuse(CodeCallerNotAllowed, fmt.Sprintf("Function %s may not be called from code.", f.Name))
	case j.by.ReadOnly && !f.ReadOnly:
		return s.refused(ctx, c, mayChange(f.Name))
	}
	return s.performFunction(ctx, j.actor, c, f, j.arguments)
}

// performFunction executes a call of a registered function. What it returns is
// bounded and checked as the result of any tool.
func (s *Service) performFunction(ctx context.Context, a actor.Actor, c record.Call, f function.Function, arguments map[string]any) record.Answer {
	if err := s.fits(arguments, f.Input); err != nil {
		return s.refused(ctx, c, err)
	}
	given, err := json.Marshal(arguments)
	if err != nil {
		return s.refused(ctx, c, err)
	}
	caller := function.Caller{Actor: a, CanvasID: c.CanvasID, CallID: c.CallID, ProgramID: c.ParentID}
	result, err := f.Run(ctx, caller, given)
	if err == nil {
		return s.conclude(ctx, c, Outcome{Data: result})
	}
	answer := s.refused(ctx, c, err)
	switch errs.CodeOf(err) {
	case errs.NotFound, errs.FileMissing: // of a thing, not of the function
		answer.ErrorCode = CodeNotFound
	case errs.Invalid, errs.Unsupported:
		answer.ErrorCode = CodeInvalidArguments
	case errs.TooLarge:
		answer.ErrorCode = upstream.CodeTooLarge
	}
	return answer
}

// noFunction says which functions a call could have named.
func (s *Service) noFunction(c record.Call) record.Answer {
	var names []string
	for _, f := range s.lent.to(c.ParentID) {
		names = append(names, f.Name)
	}
	for _, f := range s.functions.All() {
		if f.SandboxCallable || c.Origin != ids.PTC {
			names = append(names, f.Name)
		}
	}
	if len(names) == 0 {
		return record.Refuse(CodeNotAllowed, "There are no functions of the server that may be called here; programs of agents have some.")
	}
	return record.Refuse(CodeMethodNotFound, fmt.Sprintf("There is no function %s; there are: %s.", c.Tool, strings.Join(names, ", ")))
}
