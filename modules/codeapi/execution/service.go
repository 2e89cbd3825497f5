// Package execution runs the programs of the code interpreter API: to their
// end, or with pauses in which the caller executes the calls that a program
// makes.
package execution

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/signing"
	"github.com/portico-run/portico/modules/codeapi/session"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/sandbox"
)

// Sandbox runs code, in this process or elsewhere.
type Sandbox interface {
	Begin(ctx context.Context, job sandbox.Job) (sandbox.Execution, error)
	Languages() []sandbox.Language
}

// Programs gives a program the tools of toolsets.
type Programs interface {
	Open(ctx context.Context, a actor.Actor, req program.Request) (*program.Opened, error)
}

// Observer counts what happens to programs that pause.
type Observer interface {
	// Round is one answer that asked the caller for calls.
	Round(calls int)
	// Ended is the end of a program, with its cause.
	Ended(cause string)
}

// Peers are the other processes.
type Peers interface {
	// Others asks all of them that live at once.
	Others(ctx context.Context, op string, who actor.Actor, in any, each func(answer json.RawMessage)) error
}

// Settings are the limits of programs.
type Settings struct {
	// Owner names this process; it holds the programs it pauses.
	Owner string
	// Keys are those that the keys of continuation tokens are made of.
	Keys signing.Keys
	// Peers are the other processes, which hold programs, too; nil where this one is
	// alone.
	Peers Peers
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
	// results of one program, and of its calls that wait for results, in bytes.
	MaxResult, MaxState int64
}

// Deps is what the service needs.
type Deps struct {
	DB       *database.DB
	Sessions *session.Service
	Sandbox  Sandbox
	Programs Programs
	Observer Observer
	Settings Settings
	Logger   *slog.Logger
	Now      func() time.Time
}

// Service runs programs in sessions.
type Service struct {
	db       *database.DB
	sessions *session.Service
	sandbox  Sandbox
	programs Programs
	observer Observer
	settings Settings
	logger   *slog.Logger
	now      func() time.Time
	rows     repository
	tokens   tokens
	paused   *paused
	peers    Peers
	lasts    *lasts
	keeping  time.Duration // bounds how long the files of one program are stored
}

// New returns a service that runs nothing.
func New(d Deps) (*Service, error) {
	keys, err := d.Settings.Keys.For("portico continuation tokens")
	if err != nil {
		return nil, err
	}
	return &Service{
		db: d.DB, sessions: d.Sessions, sandbox: d.Sandbox, programs: d.Programs, observer: d.Observer, settings: d.Settings,
		logger: d.Logger, now: d.Now, tokens: tokens{keys: keys}, paused: newPaused(),
		peers: d.Settings.Peers, lasts: &lasts{now: d.Now}, keeping: settleTimeout,
	}, nil
}

// Stop ends every program that is paused, or runs, and returns when they are
// gone.
func (s *Service) Stop(ctx context.Context) error { return s.paused.stop(ctx) }

// life is how long it is remembered what became of an execution.
const life = 24 * time.Hour

// Purge forgets what became of the executions of all users that are long over.
func (s *Service) Purge(ctx context.Context) error {
	return s.db.InTx(ctx, func(tx database.Tx) error { return s.rows.purgeExecutions(tx, s.now().Add(-life)) })
}
