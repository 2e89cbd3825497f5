package dialogue

import (
	"context"
	"slices"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/model"
)

// Count says how many tokens the model would be asked with. It charges nothing.
func (s *Service) Count(ctx context.Context, a actor.Actor, req Request) (model.Counted, error) {
	if s.deps.Model == nil {
		return model.Counted{}, errs.New(errs.Unavailable, "This server has no model.").Do("Set MODEL_NAME or MODEL_FILE.")
	}
	c, err := s.converse(ctx, a, req)
	if err != nil {
		return model.Counted{}, err
	}
	c.cancel(nil)
	counted, err := s.deps.Model.CountTokens(ctx, model.Request{
		Model: c.model, Input: slices.Concat(c.system(), c.items), Tools: c.definitions(), Choice: c.req.Choice, Parallel: !req.OneByOne, Options: req.Options,
	})
	if err != nil {
		return counted, refusedBy(err)
	}
	return counted, nil
}
