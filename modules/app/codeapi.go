package app

import (
	"context"
	"fmt"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/telemetry"
	"github.com/portico-run/portico/modules/account"
	"github.com/portico-run/portico/modules/account/hosttoken"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/codeapi"
	"github.com/portico-run/portico/modules/codeapi/execution"
)

// minTimeout is the shortest time limit that callers of the code interpreter
// API may name.
const minTimeout = time.Second

func (a *App) codeAPI() (*codeapi.Module, error) {
	c, s := a.Config.CodeAPI, a.Config.Sandbox
	return codeapi.New(codeapi.Deps{
		Storage: codeapi.Storage{DB: a.DB, Objects: a.Objects, Quota: a.Drive.Service},
		Sandbox: a.Engine, Programs: a.Programs.Service, Observer: newRounds(a.Metrics), Plans: a.planLimits(), Logger: a.Logger,
		Settings: codeapi.Settings{
			Limiter: a.Bounds, Errors: c.Errors, SessionLife: c.SessionLife, MaxFile: c.MaxFile, MaxFiles: c.MaxFiles, MaxInput: min(4*c.MaxFile, s.Disk),
			Programs: execution.Settings{
				Owner: a.Owner, Peers: a.others(), Keys: serverKeys(a.Config),
				Timeout: min(c.Timeout, s.MaxTimeout), MinTimeout: minTimeout, MaxTimeout: s.MaxTimeout, Idle: c.Idle,
				MaxRounds: c.MaxRounds, MaxCalls: c.MaxCalls, MaxTools: c.MaxTools, MaxResult: c.MaxResult, MaxState: c.MaxState,
			},
		},
	})
}

// trusted is who callers without a credential are, where the configuration
// lets them in.
func (a *App) trusted() func(ctx context.Context) (actor.Actor, error) {
	c := a.Config.CodeAPI
	if c.Auth {
		return nil
	}
	return func(ctx context.Context) (actor.Actor, error) {
		u, err := a.Accounts.Service.UserByName(ctx, c.User)
		if err == nil && u.Disabled {
			err = errs.Newf(errs.Unauthorized, "The user of callers without a credential is disabled.").Do("Send a credential, or ask the operator for: portico user enable")
		}
		return actor.Actor{UID: u.UID, Scope: actor.Full}, err
	}
}

// hosts are the servers whose signed tokens are taken.
func (a *App) hosts() (account.Hosts, error) {
	c := a.Config.CodeAPI
	j := c.JWT
	if !j.Enabled() {
		return account.Hosts{}, nil
	}
	verifier, err := hosttoken.New(hosttoken.Settings{
		PublicKey: j.PublicKey.Reveal(), KeyID: j.KeyID, KeySet: j.KeySet.Reveal(), Folder: j.KeyFolder, ReloadEvery: seconds(j.ReloadSeconds),
		Secret: j.HS256Secret.Reveal(), SecretID: j.SecretID, Issuer: j.Issuer, Audience: j.Audience, Skew: seconds(j.SkewSeconds),
		MaxLife: seconds(j.MaxSeconds), TenantRequired: j.TenantRequired, Logger: a.Logger, Now: a.DB.Now,
	})
	if err != nil {
		return account.Hosts{}, fmt.Errorf("the signed tokens of the code interpreter API (CODEAPI_JWT_…): %w", err)
	}
	plans := c.PlanKeys()
	for name, key := range plans {
		if key == billing.FreePlan {
			plans[name] = "" // no subscription
		}
	}
	return account.Hosts{Verifier: verifier, MaxUsers: j.MaxUsers, Plans: plans, Subscriptions: a.Credits.Service}, nil
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// planLimits are the limits of code by the plans of users; nil without any.
func (a *App) planLimits() execution.Plans {
	list := a.Config.CodeAPI.PlanLimits
	if len(list) == 0 {
		return nil
	}
	limits := map[string]execution.PlanLimits{}
	for _, l := range list {
		limits[l.Plan] = execution.PlanLimits{Timeout: l.Timeout, MaxFile: l.MaxFile, AtOnce: l.AtOnce, PerMinute: l.PerMinute}
	}
	return planned{limits: limits, plan: a.Credits.Service.PlanOf}
}

// planned finds the limits of a user's plan.
type planned struct {
	limits map[string]execution.PlanLimits
	plan   func(ctx context.Context, uid string) (string, error)
}

// LimitsOf implements execution.Plans.
func (p planned) LimitsOf(ctx context.Context, uid string) (execution.PlanLimits, error) {
	plan, err := p.plan(ctx, uid)
	return p.limits[plan], err
}

// rounds counts what happens to programs of the code interpreter API.
type rounds struct {
	rounds, calls func(n int, labels ...string)
	ended         func(n int, labels ...string)
}

func newRounds(m *telemetry.Metrics) rounds {
	return rounds{
		rounds: m.Count("portico_code_rounds_total", "Answers that asked the caller for calls."),
		calls:  m.Count("portico_code_calls_total", "Calls that callers were asked for."),
		ended:  m.Count("portico_code_programs_total", "Programs that ended, by cause.", "cause"),
	}
}

// Round implements execution.Observer.
func (r rounds) Round(calls int) {
	r.rounds(1)
	r.calls(calls)
}

// Ended implements execution.Observer.
func (r rounds) Ended(cause string) { r.ended(1, cause) }
