package app

import (
	"context"
	"errors"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/account/erasure"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/tool/approval"
)

func (a *App) erasure() *erasure.Service {
	return erasure.New(erasure.Deps{
		DB: a.DB, Objects: a.Objects, Accounts: a.Accounts.Service, Work: goingOn{a}, Logger: a.Logger,
		Settle:   4 * time.Second, // who is refused is known within one, and answers that last ask every three
		Patience: time.Minute,
	})
}

// goingOn is the work of users.
type goingOn struct{ app *App }

// Abort implements erasure.Work.
func (g goingOn) Abort(ctx context.Context, uid, resultID string, version int) error {
	_, err := g.app.Agents.Service.Abort(ctx, actor.Actor{UID: uid}, resultID, &version)
	if errors.Is(err, run.ErrMissing) {
		return nil
	}
	return err
}

// Refuse implements erasure.Work.
func (g goingOn) Refuse(ctx context.Context, uid, callID string) error {
	_, err := g.app.Approvals.Service.Decide(ctx, actor.Actor{UID: uid}, approval.Ruling{CallID: callID, Decision: approval.Refuse})
	if errs.CodeOf(err) == errs.Settled {
		return nil
	}
	return err
}

// eraser is how administrators erase users.
type eraser struct{ app *App }

// Erase implements roster.Erasure.
func (e eraser) Erase(ctx context.Context, by actor.Actor, uid string) (rows, objects int64, err error) {
	r, err := e.app.Erase(ctx, by, uid)
	return r.Rows, r.Objects, err
}

// Erase takes everything of a user's away. It refuses the user that callers without a
// credential are.
func (a *App) Erase(ctx context.Context, by actor.Actor, uid string) (erasure.Report, error) {
	if c := a.Config.CodeAPI; !c.Auth {
		u, err := a.Accounts.Service.UserByName(ctx, c.User)
		if err == nil && u.UID == uid {
			return erasure.Report{}, errs.Newf(errs.Conflict, "User %s is CODEAPI_USER: callers without a credential are this user.", u.Name).Do("Set another CODEAPI_USER before.")
		}
	}
	return a.users.Erase(ctx, by, uid)
}
