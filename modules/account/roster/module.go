// Package roster lets administrators see to users.
package roster

import (
	"context"
	"net/http"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/account"
)

// Grant is credits that a user is given.
type Grant struct {
	ID        string // the same id grants once; empty for a fresh one
	Amount    money.Amount
	Text      string
	ExpiresAt time.Time
}

// Credits are what users have.
type Credits interface {
	// Balance is what is left to a user, less open debts.
	Balance(ctx context.Context, uid string) (money.Amount, error)
	Grant(ctx context.Context, uid string, g Grant) error
	// Plan is the lookup key of a user's plan; SetPlan gives another one, and none
	// for the empty key.
	Plan(ctx context.Context, uid string) (string, error)
	SetPlan(ctx context.Context, uid, lookupKey string) error
}

// Passwords gives users passwords.
type Passwords interface {
	SetPassword(ctx context.Context, by actor.Actor, uid, password string) error
}

// Erasure takes everything of a user's away.
type Erasure interface {
	// Erase returns how many rows and objects were erased.
	Erase(ctx context.Context, by actor.Actor, uid string) (rows, objects int64, err error)
}

// Deps is what the module needs.
type Deps struct {
	DB        *database.DB
	Accounts  *account.Service
	Passwords Passwords
	Credits   Credits
	Erasure   Erasure
	Now       func() time.Time
}

// Module is the wired package.
type Module struct{ deps Deps }

// New wires the module.
func New(d Deps) *Module {
	if d.Now == nil {
		d.Now = d.DB.Now
	}
	return &Module{d}
}

const path, onePath = "/v1/admin/users", "/v1/admin/users/{uid}"

// Register adds the module's routes.
func (m *Module) Register(api *httpapi.API) {
	op := func(id, method, path, summary string, errors ...errs.Code) httpapi.Operation {
		return httpapi.Operation{ID: id, Method: method, Path: path, Summary: summary, Tag: "admin", Access: httpapi.Admin, Errors: errors}
	}
	httpapi.Register(api, op("list-users", http.MethodGet, path, "All users, newest first"), m.list)
	httpapi.Register(api, op("create-user", http.MethodPost, path, "Create a user", errs.Conflict), m.create)
	httpapi.Register(api, op("get-user", http.MethodGet, onePath, "A user, with their keys, credits and plan", errs.AccountMissing), m.get)
	httpapi.Register(api, op("change-user", http.MethodPatch, onePath, "Disable a user, or change their role, plan or password", errs.AccountMissing, errs.NotFound, errs.Conflict), m.change)
	erase := op("erase-user", http.MethodDelete, onePath, "Erase a user, with everything that is theirs", errs.AccountMissing, errs.Conflict)
	erase.Description = "Their credentials are refused first, then their work is ended, then it is deleted: files, runs, calls, credentials, keys. " +
		"What stays are amounts and dates of credits, and that something was done, under the user's id. It may take long, and may be repeated at any time. It cannot be undone."
	httpapi.Register(api, erase, m.erase)
	httpapi.Register(api, op("grant-user-credits", http.MethodPost, onePath+"/credits", "Give credits to a user", errs.AccountMissing, errs.Conflict), m.grant)
}

// note writes into the audit log what cannot be written together with the change.
func (m *Module) note(ctx context.Context, who actor.Actor, action, uid string, detail map[string]string) error {
	return m.deps.DB.InTx(ctx, func(tx database.Tx) error {
		return audit.Write(tx, audit.Change{By: who, Action: action, Subject: uid, Detail: detail}, m.deps.Now())
	})
}
