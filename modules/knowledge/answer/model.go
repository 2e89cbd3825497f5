package answer

import (
	"context"
	"strings"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/tool/function"
)

// respond asks the model and charges what it answered.
func (s *Service) respond(ctx context.Context, c function.Caller, items []model.Item) (string, error) {
	a := s.deps
	paid := billing.ModelCharge{UID: c.Actor.UID}
	if c.CallID != "" {
		call, err := a.Records.Call(ctx, c.Actor, c.CallID)
		if err != nil {
			return "", err
		}
		if paid.Version = call.Version; call.InRun() {
			paid.ResultID = call.ResultID
		}
	}
	admit := func(ctx context.Context, name string) error {
		if a.Settings.Price(name).Free() {
			return nil
		}
		return a.Billing.AdmitModel(ctx, paid.UID, paid.ResultID, paid.Version)
	}
	if err := admit(ctx, ""); err != nil {
		return "", err
	}
	asking, cancel := context.WithTimeout(ctx, a.Settings.Timeout)
	defer cancel()
	r, err := a.Model.Respond(asking, model.Request{Input: items, Admit: admit}, func(model.Delta) {})
	if errs.CodeOf(err) == errs.NoCredits {
		return "", err
	}
	if err != nil && r.Ended != model.Refused { // a refusal is an answer that costs
		return "", s.unanswered(ctx, err)
	}
	used := price.Used{Input: r.Usage.Input, Cached: r.Usage.InputDetails.Cached, Written: r.Usage.InputDetails.Written, Output: r.Usage.Output}
	paid.Model, paid.Input, paid.Cached, paid.Written, paid.Output = r.Model, used.Input, used.Cached, used.Written, used.Output
	if paid.Price = a.Settings.Price(r.Name).Of(used); paid.Price > 0 {
		// The provider was paid: so is it here, also when the caller is gone.
		paying := context.WithoutCancel(ctx)
		err := a.DB.InTx(paying, func(tx database.Tx) error { return a.Billing.ChargeModel(paying, tx, paid) })
		if err != nil {
			return "", err
		}
	}
	text, _ := r.Read()
	switch {
	case err != nil:
		return "", s.unanswered(ctx, err)
	case r.Incomplete != nil:
		return "", errs.Newf(errs.Unavailable, "The answer of the model was cut (%s).", r.Incomplete.Reason).Do("Ask for less; MODEL_MAX_OUTPUT bounds answers.")
	case strings.TrimSpace(text) == "":
		return "", errs.New(errs.Unavailable, "The model answered without a word.").Do("Ask in other words.")
	}
	return strings.TrimSpace(text), nil
}

// unanswered is why there is no answer. What the provider said is for the
// operator.
func (s *Service) unanswered(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.deps.Logger.ErrorContext(ctx, "a model did not answer from the knowledge store", "error", err)
	return errs.Newf(errs.Unavailable, "The model gave no answer within %s.", s.deps.Settings.Timeout).
		Do("Try again later, or use search_knowledge, which asks no model.").With(err)
}
