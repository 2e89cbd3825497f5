package dialogue

import (
	"context"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/model"
)

// Count says how many tokens the model would be asked with, and how many outputs it
// would not be told again. It charges nothing.
func (s *Service) Count(ctx context.Context, a actor.Actor, req Request) (counted model.Counted, compacted int, err error) {
	if s.deps.Model == nil {
		return model.Counted{}, 0, errs.New(errs.Unavailable, "This server has no model.").Do("Set MODEL_NAME or MODEL_FILE.")
	}
	c, err := s.converse(ctx, a, req)
	if err != nil {
		return model.Counted{}, 0, err
	}
	c.cancel(nil)
	fits, err := c.fit()
	if err != nil {
		return model.Counted{}, 0, err
	}
	counted, err = s.deps.Model.CountTokens(ctx, c.asking(fits))
	if err != nil {
		return counted, 0, refusedBy(err)
	}
	return counted, fits.left, nil
}
