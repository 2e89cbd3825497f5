package app

import (
	"context"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/account/oidc"
	"github.com/portico-run/portico/modules/account/roster"
	"github.com/portico-run/portico/modules/account/signin"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/run"
)

func (a *App) signIn() (*signin.Module, error) {
	keys, err := tokenKeys(a.Config)
	if err != nil {
		return nil, err
	}
	// A key of its own: what it signs is never taken for the token of a session.
	if keys, err = keys.For("portico oidc"); err != nil {
		return nil, err
	}
	c := a.Config.SignIn
	return signin.New(signin.Deps{
		DB: a.DB, Accounts: a.Accounts, Runs: versions{a.Runs.Service}, Logger: a.Logger,
		Settings: signin.Settings{
			Endpoint: a.Config.Server.Endpoint, Console: a.Config.Console.Place(), SignUp: signin.SignUp(c.SignUp), LinkEmail: c.OIDC.LinkEmail,
			OIDC: oidc.Settings{Issuer: c.OIDC.Issuer, ClientID: c.OIDC.ClientID, Secret: c.OIDC.Secret.Reveal(), Keys: keys},
		},
	}), nil
}

// versions finds the version of a run that a ticket is for.
type versions struct{ runs *run.Service }

// Version implements signin.Runs.
func (v versions) Version(ctx context.Context, a actor.Actor, runID string, version *int) (int, error) {
	r, err := v.runs.Get(ctx, a, runID, version)
	return r.Version, err
}

func (a *App) roster() *roster.Module {
	return roster.New(roster.Deps{DB: a.DB, Accounts: a.Accounts.Service, Passwords: a.SignIn.Service, Credits: purse{a.Credits.Service}, Erasure: eraser{a}})
}

// purse is what administrators do about the credits of users.
type purse struct{ credits *billing.Service }

// Balance implements roster.Credits.
func (p purse) Balance(ctx context.Context, uid string) (money.Amount, error) {
	b, err := p.credits.Balance(ctx, actor.Actor{UID: uid})
	return b.Net, err
}

// Grant implements roster.Credits.
func (p purse) Grant(ctx context.Context, uid string, g roster.Grant) error {
	return p.credits.Grant(ctx, uid, billing.Recharge{ID: g.ID, Amount: g.Amount, Source: "gift", Text: g.Text, ExpiresAt: g.ExpiresAt})
}

// Plan implements roster.Credits.
func (p purse) Plan(ctx context.Context, uid string) (string, error) {
	return p.credits.PlanOf(ctx, uid)
}

// SetPlan implements roster.Credits.
func (p purse) SetPlan(ctx context.Context, uid, lookupKey string) error {
	if lookupKey == "" {
		return p.credits.Cancel(ctx, uid)
	}
	if has, err := p.credits.PlanOf(ctx, uid); err != nil || has == lookupKey {
		return err // whoever has it is not given the credits of its first month again
	}
	return p.credits.Subscribe(ctx, uid, billing.Subscription{LookupKey: lookupKey})
}
