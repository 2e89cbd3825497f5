package agent

import (
	"context"
	"fmt"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/agent/loop"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/run"
)

// metered is the model of a run that may spend so much.
type metered struct {
	service *Service
	run     run.Run
	name    string
	notices *notices
}

// Respond implements loop.Model. A run that has spent what it may is over; so is one
// of a user who has.
func (m metered) Respond(ctx context.Context, req model.Request, on func(model.Delta)) (model.Response, error) {
	err := m.admit(ctx, m.name)
	if errs.CodeOf(err) == errs.NoCredits {
		return model.Response{}, fmt.Errorf("%w: %s", loop.ErrLimit, errs.Message(err))
	}
	if err != nil {
		return model.Response{}, err
	}
	req.Model, req.Admit = m.name, m.admit
	got, err := m.service.deps.Model.Respond(ctx, req, on)
	for _, p := range got.Passed {
		m.notices.fallback(ctx, p, got.Name)
	}
	return got, err
}

// admit refuses a model that is not free when nothing is left of what may be spent.
func (m metered) admit(ctx context.Context, name string) error {
	if m.service.deps.Settings.Facts(name).Price.Free() {
		return nil
	}
	return m.service.deps.Billing.AdmitModel(ctx, m.run.UID, m.run.ResultID, m.run.Version)
}
