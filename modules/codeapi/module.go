// Package codeapi is the code interpreter API that LibreChat speaks: programs
// with files in sessions, and programs whose tools the caller executes while
// they are paused.
package codeapi

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/sandbox"
)

// Sandbox runs code.
type Sandbox interface {
	Begin(ctx context.Context, job sandbox.Job) (sandbox.Execution, error)
	Languages() []sandbox.Language
}

// Programs gives a program the tools of toolsets.
type Programs interface {
	Open(ctx context.Context, a actor.Actor, req program.Request) (*program.Opened, error)
}

// Quota bounds what is stored for a user, over all modules.
type Quota interface {
	// Room refuses more bytes when there is no room for them, within the
	// transaction that adds them.
	Room(tx database.Tx, uid string, more int64) error
}

// Observer counts what happens to programs that pause.
type Observer interface {
	// Round is one answer that asked the caller for calls.
	Round(calls int)
	// Ended is the end of a program, with its cause.
	Ended(cause string)
}

// How errors of a run are answered; see Settings.Errors.
const (
	ErrorsAuto    = "auto"
	ErrorsStatus  = "status"
	ErrorsPhrases = "phrases"
)

// Settings are the limits of the API.
type Settings struct {
	// Owner names this process; it holds the programs it pauses.
	Owner string
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
	// Timeout is the limit of a program that names none, MinTimeout and
	// MaxTimeout what it may name. The clock stands while a program is paused.
	Timeout, MinTimeout, MaxTimeout time.Duration
	// Idle is how long a paused program waits for its caller.
	Idle time.Duration
	// MaxRounds is how often one program may pause, and MaxCalls how many
	// calls it may make.
	MaxRounds, MaxCalls int
	// MaxTools is how many tools a request may bring.
	MaxTools int
	// MaxResult is the largest result of one call, MaxState that of all
	// results of one program, in bytes.
	MaxResult, MaxState int64
}

// Deps is what the module needs.
type Deps struct {
	DB       *database.DB
	Objects  objectstore.Store
	Sandbox  Sandbox
	Programs Programs
	Quota    Quota
	Observer Observer
	// Plans bounds users by their plans; nil bounds all by Settings alone.
	Plans Plans
	// Secret signs continuation tokens.
	Secret   []byte
	Settings Settings
	Logger   *slog.Logger
	Now      func() time.Time
}

// Module is the wired package.
type Module struct{ Service *Service }

// New wires the module and starts nothing.
func New(d Deps) (*Module, error) {
	if d.Now == nil {
		d.Now = database.Now
	}
	if d.Plans != nil {
		d.Sandbox = &admission{inner: d.Sandbox, plans: d.Plans, now: d.Now, users: map[string]*usage{}}
	}
	// The server's key encrypts; tokens get one of their own.
	key, err := hkdf.Key(sha256.New, d.Secret, nil, "portico continuation tokens", sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("key of continuation tokens: %w", err)
	}
	return &Module{Service: &Service{Deps: d, tokens: tokens{key: key}, paused: newPaused()}}, nil
}

// Stop ends every program that is paused, or runs, and returns when they are
// gone.
func (m *Module) Stop(ctx context.Context) error { return m.Service.paused.stop(ctx) }

// Start implements lifecycle.Service; programs come with requests.
func (m *Module) Start(context.Context) error { return nil }

// Register adds the module's routes, under /v1 and without it.
func (m *Module) Register(api *httpapi.API) { controller{m.Service}.register(api) }
