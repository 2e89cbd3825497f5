package flat

import (
	"context"
	"fmt"
	"slices"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/toolset/mark"
)

// Marked is a mark, and why it is not in force; empty where it is.
type Marked struct {
	mark.Mark

	Problem string `json:"problem,omitempty"`
}

// Marks lists all marks. It is for operators.
func (s *Service) Marks(ctx context.Context) ([]Marked, error) {
	all, err := s.deps.Marks.All(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]Marked, len(all))
	for i, m := range all {
		why, err := s.contradiction(ctx, actor.Actor{}, m)
		if err != nil {
			return nil, err
		}
		list[i] = Marked{m, why}
	}
	return list, nil
}

// Mark makes a tool of a toolset that everybody may use a plain function. One
// that is called with GET only reads. It is for operators. The error is Invalid
// where the tool may not be one, or contradicts what is claimed of it.
func (s *Service) Mark(ctx context.Context, m mark.Mark) (mark.Mark, error) {
	nobody := actor.Actor{}
	t, err := s.deps.Tools.Identify(ctx, nobody, m.Toolset)
	if err != nil {
		return m, err
	}
	method, _, err := s.deps.Tools.Method(ctx, nobody, t, m.Tool)
	if err != nil {
		return m, err
	}
	m.Tool = method.Name
	if m.Name == "" {
		m.Name = method.Name
	}
	reads, changes := []string{"GET", "HEAD"}, []string{"PUT", "PATCH", "DELETE"}
	switch {
	case m.ReadOnly && slices.Contains(changes, method.HTTPMethod):
		return m, refusal(m, fmt.Sprintf("is called with %s, which changes something: it does not only read", method.HTTPMethod))
	case !method.Callers().Code:
		return m, refusal(m, "may not be called from code, says its toolset file (allowedCallers)")
	case slices.Contains(reads, method.HTTPMethod):
		m.ReadOnly = true
	}
	why, err := s.contradiction(ctx, nobody, m)
	if err != nil {
		return m, err
	}
	if why != "" {
		return m, refusal(m, why)
	}
	return m, s.deps.Marks.Set(ctx, m)
}

func refusal(m mark.Mark, why string) error {
	return errs.Newf(errs.Invalid, "Tool %s of %s cannot be marked: it %s.", m.Tool, m.Toolset, why)
}

// Unmark takes the mark of a tool away. It is for operators.
func (s *Service) Unmark(ctx context.Context, key, tool string) error {
	return s.deps.Marks.Remove(ctx, key, tool)
}

// contradiction is why a mark cannot be in force, in words that follow the tool;
// empty where it can.
func (s *Service) contradiction(ctx context.Context, a actor.Actor, m mark.Mark) (string, error) {
	if _, taken := s.deps.Functions.Find(m.Name); taken {
		return "cannot be a function named " + m.Name + ", which the server has itself", nil
	}
	if s.deps.Hints == nil {
		return "", nil
	}
	hints, known, err := s.deps.Hints.Hints(ctx, a, m.Toolset, m.Tool)
	if err != nil || !known {
		return "", err
	}
	return contradicts(m, hints), nil
}

// contradicts compares a mark with what a server claims of its tool. Claims only
// tighten: one that is missing, or says that the tool is harmless, changes
// nothing.
func contradicts(m mark.Mark, h server.Hints) string {
	says := func(hint *bool, value bool) bool { return hint != nil && *hint == value }
	switch {
	case m.ReadOnly && says(h.ReadOnly, false):
		return "is marked as one that only reads, and its server says that it does not (readOnlyHint is false)"
	case says(h.Destructive, true) && !says(h.ReadOnly, true):
		return "may destroy something, says its server (destructiveHint is true)"
	case !m.ReadOnly && says(h.Idempotent, false):
		return "is marked as idempotent, and its server says that it is not (idempotentHint is false)"
	}
	return ""
}
