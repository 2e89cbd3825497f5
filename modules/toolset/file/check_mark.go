package file

import (
	"slices"

	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/mark"
)

// mark reads whether programs call a method as a plain function. One that is
// called with GET only reads, unless its file says otherwise.
func (c *checker) mark(key string, s methodSpec, m toolset.Method) (made mark.Mark, ok bool) {
	made = mark.Mark{
		Toolset: key, Tool: m.Name, Name: m.Name, Idempotent: s.Idempotent, FromFile: true,
		ReadOnly: slices.Contains([]string{"GET", "HEAD"}, m.HTTPMethod),
	}
	if s.ReadOnly != nil {
		made.ReadOnly = *s.ReadOnly
	}
	switch {
	case made.ReadOnly && slices.Contains([]string{"PUT", "PATCH", "DELETE"}, m.HTTPMethod):
		c.problem(s.line, "read_only of %q contradicts its HTTP method %s, which changes something", m.Name, m.HTTPMethod)
	case !s.Callable:
		return made, false
	case !m.Callers().Code:
		c.problem(s.line, "sandbox_callable of %q contradicts its allowedCallers, which leave out code", m.Name)
	default:
		if problem := made.Problem(); problem != "" {
			c.problem(s.line, "sandbox_callable: method %q %s; see read_only and idempotent", m.Name, problem)
		}
	}
	return made, s.Callable
}
