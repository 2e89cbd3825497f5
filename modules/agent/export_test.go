package agent

import (
	"context"

	"github.com/portico-run/portico/modules/run"
)

// Unique is how tools of toolsets are named.
func Unique(name string, taken map[string]bool) string { return unique(name, taken) }

// NewLive shows a run, with a function that ends it.
func NewLive(ctx context.Context, s *Service, r run.Run) (Observer, func()) {
	l := newLive(ctx, s, r)
	return l, l.close
}

// Fit shortens the descriptions of toolsets as a prompt does.
func Fit(list []Described) []Described { return fit(list, maxDescribed) }
