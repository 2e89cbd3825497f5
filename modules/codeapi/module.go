// Package codeapi is the code interpreter API that LibreChat speaks: programs
// with files in sessions, and programs whose tools the caller executes while
// they are paused.
package codeapi

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/modules/codeapi/execution"
	"github.com/portico-run/portico/modules/codeapi/session"
	"github.com/portico-run/portico/modules/run/bound"
)

// How errors of a run are answered; see Settings.Errors.
const (
	ErrorsAuto    = "auto"
	ErrorsStatus  = "status"
	ErrorsPhrases = "phrases"
)

// Settings are the limits of the API.
type Settings struct {
	// Limiter counts the programs of users whose plans bound them; nil counts those of
	// this process alone.
	Limiter *bound.Limiter
	// Errors says how a program that failed is answered: ErrorsStatus by the
	// HTTP status, ErrorsPhrases by 200 and one of the phrases that newer
	// clients know, ErrorsAuto by what the caller sends.
	Errors string
	// SessionLife is how long sessions and their files are kept after their
	// last use.
	SessionLife time.Duration
	// MaxFile is the largest file, in bytes; MaxFiles how many come with one
	// request or out of one program.
	MaxFile  int64
	MaxFiles int
	// MaxInput is how many bytes the files that one program finds may have
	// together.
	MaxInput int64
	// Programs are the limits of programs.
	Programs execution.Settings
}

// Storage is where sessions, files and programs that pause are kept.
type Storage struct {
	DB      *database.DB
	Objects objectstore.Store
	Quota   session.Quota
}

// Deps is what the module needs.
type Deps struct {
	Storage  Storage
	Sandbox  execution.Sandbox
	Programs execution.Programs
	Observer execution.Observer
	// Plans bounds users by their plans; nil bounds all by Settings alone.
	Plans    execution.Plans
	Settings Settings
	Logger   *slog.Logger
	Now      func() time.Time
}

// Module is the wired package.
type Module struct {
	Sessions   *session.Service
	Executions *execution.Service

	settings Settings
}

// New wires the module and starts nothing.
func New(d Deps) (*Module, error) {
	if d.Now == nil {
		d.Now = d.Storage.DB.Now
	}
	var largest func(ctx context.Context, uid string) (int64, error)
	if d.Plans != nil {
		if d.Settings.Limiter == nil {
			d.Settings.Limiter = bound.New(bound.Deps{Now: d.Now})
		}
		d.Sandbox = execution.Admit(d.Sandbox, d.Plans, d.Settings.Limiter)
		largest = func(ctx context.Context, uid string) (int64, error) {
			limits, err := d.Plans.LimitsOf(ctx, uid)
			return limits.MaxFile, err
		}
	}
	c := d.Settings
	sessions := session.New(session.Deps{
		DB: d.Storage.DB, Objects: d.Storage.Objects, Quota: d.Storage.Quota, Largest: largest, Now: d.Now,
		Settings: session.Settings{Life: c.SessionLife, MaxFile: c.MaxFile, MaxFiles: c.MaxFiles, MaxInput: c.MaxInput},
	})
	executions, err := execution.New(execution.Deps{
		DB: d.Storage.DB, Sessions: sessions, Sandbox: d.Sandbox, Programs: d.Programs, Observer: d.Observer, Logger: d.Logger, Now: d.Now,
		Settings: c.Programs,
	})
	return &Module{Sessions: sessions, Executions: executions, settings: c}, err
}

// Stop ends every program that is paused, or runs, and returns when they are
// gone.
func (m *Module) Stop(ctx context.Context) error { return m.Executions.Stop(ctx) }

// Start implements lifecycle.Service; programs come with requests.
func (m *Module) Start(context.Context) error { return nil }

// Purge deletes what is over, of all users.
func (m *Module) Purge(ctx context.Context) error {
	return errors.Join(m.Sessions.Purge(ctx), m.Executions.Purge(ctx))
}

// Register adds the module's routes, under /v1 and without it.
func (m *Module) Register(api *httpapi.API) {
	controller{m.Sessions, m.Executions, m.settings}.register(api)
}
