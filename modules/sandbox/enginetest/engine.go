// Package enginetest gives tests a sandbox that runs real programs, in this
// process or behind a connection.
package enginetest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/bubblewrap"
	"github.com/portico-run/portico/modules/sandbox/guest"
	"github.com/portico-run/portico/modules/sandbox/sandboxtest"
)

// Sandbox begins jobs.
type Sandbox interface {
	Begin(ctx context.Context, job sandbox.Job) (sandbox.Execution, error)
	Run(ctx context.Context, job sandbox.Job) (sandbox.Result, error)
	Languages() []sandbox.Language
}

// New starts an engine on the root of this machine. It stops with the test,
// after everything that the test cleans up later.
func New(t *testing.T) *sandbox.Engine {
	t.Helper()
	root := sandboxtest.Root()
	testenv.Sandbox(t, root)
	d, err := bubblewrap.New(guest.Config{Root: root})
	require.NoError(t, err)
	e := sandbox.New(sandbox.Deps{
		Driver: d, MaxConcurrent: 4, MaxQueue: 100, Queue: sandbox.Queue{Timeout: time.Minute}, MaxPaused: 8,
		PerOwner: sandbox.Counts{Running: 4, Queued: 100, Paused: 8}, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, e.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, e.Stop(context.Background())) })
	return e
}
