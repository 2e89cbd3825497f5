package remote_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/lifecycle"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/forkserver"
	"github.com/portico-run/portico/modules/sandbox/guest"
	"github.com/portico-run/portico/modules/sandbox/remote"
	"github.com/portico-run/portico/modules/sandbox/remote/machine"
	"github.com/portico-run/portico/modules/sandbox/remote/registry"
	"github.com/portico-run/portico/modules/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m, driver) }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// key is a pair whose private half a process has, and whose public half a node.
func key(t testing.TB) (ed25519.PrivateKey, ed25519.PublicKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	return private, public
}

func pair(private ed25519.PrivateKey) []ed25519.PrivateKey { return []ed25519.PrivateKey{private} }

// whole is a driver of nodes together with a node of its own that it speaks with over
// TCP. Closed, it leaves neither.
type whole struct {
	*remote.Driver

	inner   sandbox.Driver
	limits  sandbox.Limits
	ready   int // interpreters that wait at the node
	engine  *sandbox.Engine
	machine *machine.Machine
	closed  bool
}

func driver(c guest.Config) (sandbox.Driver, error) {
	c.Root = sandboxtest.Root()
	inner, err := forkserver.New(c)
	w := &whole{inner: inner, limits: c.Limits}
	if c.RunDir != "" {
		w.ready = 3 // that the suite looks for
	}
	return w, err
}

const most = 1000

// Open implements sandbox.Driver.
func (w *whole) Open(ctx context.Context) error {
	if w.engine != nil {
		return errors.New("it was opened before")
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	w.engine = sandbox.New(sandbox.Deps{Driver: w.inner, Pool: sandbox.Pool{Min: w.ready, Max: w.ready}, MaxConcurrent: most, MaxPaused: most, Logger: quiet()})
	if err := w.engine.Start(ctx); err != nil {
		return err
	}
	w.machine = machine.New(machine.Deps{
		Engine: w.engine, Listen: "127.0.0.1:0", Trust: machine.Trust{Keys: []ed25519.PublicKey{public}}, Room: machine.Room{Running: most, Paused: most}, Logger: quiet(),
	})
	if err := w.machine.Start(ctx); err != nil {
		return err
	}
	client := remote.NewClient(remote.ClientConfig{Keys: []ed25519.PrivateKey{private}})
	nodes := registry.New(registry.Deps{Addresses: []string{w.machine.Addr().String()}, Asker: client, Logger: quiet()})
	w.Driver = remote.New(remote.Deps{Nodes: nodes, Client: client, Output: w.limits.Output, Logger: quiet()})
	return w.Driver.Open(ctx)
}

// Start implements sandbox.Driver.
func (w *whole) Start(ctx context.Context) (sandbox.Capsule, error) {
	for !w.closed && w.engine.Stats().Idle < w.ready {
		if err := lifecycle.Pause(ctx, time.Millisecond); err != nil {
			return nil, err
		}
	}
	return w.Driver.Start(ctx)
}

// Close implements sandbox.Driver.
func (w *whole) Close() error {
	w.closed = true
	return errors.Join(w.Driver.Close(), w.machine.Stop(context.Background()), w.engine.Stop(context.Background()))
}
