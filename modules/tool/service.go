package tool

import (
	"context"
	"errors"
	"log/slog"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/budget"
	"github.com/portico-run/portico/internal/schema/jsonschema"
	"github.com/portico-run/portico/modules/run/bound"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool/function"
	"github.com/portico-run/portico/modules/tool/resource"
)

// Service executes tool calls. Each method executes and shows the actor's own
// calls only.
type Service struct {
	records   *record.Service
	catalogue Catalogue
	policy    Policy
	billing   Biller
	executors Executors
	resources Resources
	functions *function.Registry
	approvals Approvals
	settings  Settings
	logger    *slog.Logger

	schemas *jsonschema.Cache
	lent    lent
	limiter *bound.Limiter
	large   *budget.Budget
}

// File returns a temporary file of a call. It returns record.ErrMissing when
// there is none, or not any more.
func (s *Service) File(ctx context.Context, a actor.Actor, callID, name string) (resource.File, error) {
	c, err := s.records.Call(ctx, a, callID)
	if err != nil {
		return resource.File{}, err
	}
	f, err := s.resources.Open(ctx, a, c.CallID, c.CreatedAt, name)
	if errors.Is(err, resource.ErrGone) {
		return f, record.ErrMissing
	}
	return f, err
}
