package agent

import (
	"context"

	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/tool"
)

// Unique is how tools of toolsets are named.
func Unique(name string, taken map[string]bool) string { return unique(name, taken) }

// NewLive shows a run, with a function that ends it. What becomes of calls that
// the model gave up is told to refuse.
func NewLive(ctx context.Context, s *Service, r run.Run, refuse func(name string, shown tool.Shown)) (Observer, func()) {
	l := newLive(ctx, s, r)
	l.refuse = func(_ context.Context, c Call, shown tool.Shown, _ Refusal) { refuse(c.Name, shown) }
	return l, l.close
}

// Fit shortens the descriptions of toolsets as a prompt does.
func Fit(list []Described) []Described { return fit(list, maxDescribed) }
