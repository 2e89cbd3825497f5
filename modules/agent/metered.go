package agent

import (
	"context"
	"fmt"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/model"
)

// metered is the model of a run that may spend so much.
type metered struct {
	service *Service
	live    *live
}

// Respond implements Model. A run that has spent what it may is over; so is one
// of a user who has.
func (m metered) Respond(ctx context.Context, req model.Request, on func(model.Delta)) (model.Response, error) {
	price := m.service.Settings.Price
	if price.Input > 0 || price.Output > 0 {
		r := m.live.run
		err := m.service.Billing.AdmitModel(ctx, r.UID, r.ResultID, r.Version)
		if errs.CodeOf(err) == errs.NoCredits {
			return model.Response{}, fmt.Errorf("%w: %s", ErrLimit, errs.Message(err))
		}
		if err != nil {
			return model.Response{}, err
		}
	}
	return m.service.Model.Respond(ctx, req, on)
}
