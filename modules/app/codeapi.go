package app

import (
	"context"
	"time"

	"github.com/portico-run/portico/modules/codeapi"
	"github.com/portico-run/portico/modules/internal/actor"
	"github.com/portico-run/portico/modules/internal/telemetry"
)

// minTimeout is the shortest time limit that callers of the code interpreter
// API may name (seeds/programmatic-execution-design.md).
const minTimeout = time.Second

func (a *App) codeAPI() (*codeapi.Module, error) {
	c, s := a.Config.CodeAPI, a.Config.Sandbox
	return codeapi.New(codeapi.Deps{
		DB: a.DB, Objects: a.Objects, Sandbox: a.Engine, Programs: a.Programs.Service, Quota: a.Drive.Service, Observer: newRounds(a.Metrics),
		Secret: []byte(a.Config.Server.EncryptionKey.Reveal()), Logger: a.Logger,
		Settings: codeapi.Settings{
			Owner: a.Owner, Errors: c.Errors, SessionLife: c.SessionLife, MaxFile: c.MaxFile, MaxFiles: c.MaxFiles,
			MaxInput: min(4*c.MaxFile, s.Disk),
			Timeout:  min(c.Timeout, s.MaxTimeout), MinTimeout: minTimeout, MaxTimeout: s.MaxTimeout, Idle: c.Idle,
			MaxRounds: c.MaxRounds, MaxCalls: c.MaxCalls, MaxTools: c.MaxTools, MaxResult: c.MaxResult, MaxState: c.MaxState,
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
		return actor.Actor{UID: u.UID, Scope: actor.Full}, err
	}
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

// Round implements codeapi.Observer.
func (r rounds) Round(calls int) {
	r.rounds(1)
	r.calls(calls)
}

// Ended implements codeapi.Observer.
func (r rounds) Ended(cause string) { r.ended(1, cause) }
