// Package lifecycle starts and stops the long-lived parts of the program.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
)

// Service is a part that works in the background. Start returns as soon as it
// runs, or fails; Stop returns when nothing of it runs any more, and may be
// called twice or without a Start.
type Service interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
}

// Group runs services in the order they were added and stops them in reverse.
type Group struct {
	members []member
	started int
}

type member struct {
	name    string
	service Service
}

// Add appends a service under the name its errors carry.
func (g *Group) Add(name string, s Service) {
	g.members = append(g.members, member{name, s})
}

// Start starts every service. When one fails, those already started are
// stopped again.
func (g *Group) Start(ctx context.Context) error {
	for _, m := range g.members[g.started:] {
		if err := m.service.Start(ctx); err != nil {
			return errors.Join(fmt.Errorf("start %s: %w", m.name, err), g.Stop(context.WithoutCancel(ctx)))
		}
		g.started++
	}
	return nil
}

// Stop stops what was started, last first, and returns every error.
func (g *Group) Stop(ctx context.Context) error {
	var errs []error
	for ; g.started > 0; g.started-- {
		m := g.members[g.started-1]
		if err := m.service.Stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", m.name, err))
		}
	}
	return errors.Join(errs...)
}
