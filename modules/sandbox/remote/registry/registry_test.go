package registry_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/sandbox/remote"
	"github.com/portico-run/portico/modules/sandbox/remote/registry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// town is the nodes of a test, by address, and what names mean there.
type town struct {
	mu    sync.Mutex
	nodes map[string]remote.Status
	names map[string][]string
}

// Status implements registry.Asker.
func (d *town) Status(_ context.Context, address string) (remote.Status, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, ok := d.nodes[address]
	if !ok {
		return s, errors.New("nobody listens")
	}
	return s, nil
}

func (d *town) lookup(_ context.Context, host string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	hosts, ok := d.names[host]
	if !ok {
		return nil, errors.New("no such host")
	}
	return append([]string{}, hosts...), nil
}

func (d *town) change(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

func open(t *testing.T, d *town, rest time.Duration, addresses ...string) *registry.Registry {
	t.Helper()
	r := registry.New(registry.Deps{Addresses: addresses, Asker: d, Lookup: d.lookup, Every: 5 * time.Millisecond, Rest: rest, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, r.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, r.Stop(context.Background())) })
	return r
}

func room(nonce string, running, capacity int) remote.Status {
	return remote.Status{Nonce: nonce, Running: running, Capacity: capacity}
}

func TestNamesHaveManyAddresses(t *testing.T) {
	t.Parallel()
	d := &town{nodes: map[string]remote.Status{"10.0.0.1:1": room("a", 0, 9), "10.0.0.2:1": room("b", 0, 9)}, names: map[string][]string{"sandbox": {"10.0.0.1"}}}
	r := open(t, d, time.Hour, "sandbox:1")
	n, err := r.Acquire(t.Context(), "u")
	require.NoError(t, err)
	require.Equal(t, remote.Node{Address: "10.0.0.1:1", Nonce: "a"}, n)
	r.Release(n, true) // it rests
	d.change(func() { d.names["sandbox"] = []string{"10.0.0.1", "10.0.0.2"} })
	n, err = r.Acquire(t.Context(), "u") // waits until the name was looked up
	require.NoError(t, err)
	require.Equal(t, "b", n.Nonce)
	d.change(func() { delete(d.names, "sandbox") }) // those that are known stay
	for range 5 {
		n, err = r.Acquire(t.Context(), "u")
		require.NoError(t, err)
		require.Equal(t, "b", n.Nonce)
		r.Release(n, false)
	}
	d.change(func() {
		d.names["sandbox"] = []string{"10.0.0.2"}
		d.nodes["10.0.0.2:1"] = room("c", 0, 9) // another one at the same address
	})
	require.Eventually(t, func() bool {
		n, err := r.Acquire(t.Context(), "u")
		r.Release(n, false)
		return err == nil && n.Nonce == "c"
	}, time.Minute, time.Millisecond)
	require.Len(t, r.List(t.Context()), 1)
}

func TestTheLessLoadedNodeIsTaken(t *testing.T) {
	t.Parallel()
	d := &town{nodes: map[string]remote.Status{"10.0.0.1:1": room("a", 6, 8), "10.0.0.2:1": room("b", 1, 4)}}
	r := open(t, d, time.Hour, "10.0.0.1:1", "10.0.0.2:1")
	n, err := r.Acquire(t.Context(), "u")
	require.NoError(t, err)
	require.Equal(t, "b", n.Nonce)
	d.change(func() { d.nodes["10.0.0.1:1"], d.nodes["10.0.0.2:1"] = room("a", 8, 8), room("b", 4, 4) })
	require.Eventually(t, func() bool { // both are full
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := r.Acquire(ctx, "u")
		return errors.Is(err, context.DeadlineExceeded)
	}, time.Minute, time.Millisecond)
	d.change(func() { d.nodes["10.0.0.1:1"] = room("a", 7, 8) })
	n, err = r.Acquire(t.Context(), "u")
	require.NoError(t, err)
	require.Equal(t, "a", n.Nonce)
}

func TestANodeThatFailedRests(t *testing.T) {
	t.Parallel()
	d := &town{nodes: map[string]remote.Status{"10.0.0.1:1": room("a", 0, 9)}}
	r := open(t, d, 300*time.Millisecond, "10.0.0.1:1")
	n, err := r.Acquire(t.Context(), "u")
	require.NoError(t, err)
	failed := time.Now()
	r.Release(n, true)
	_, err = r.Acquire(t.Context(), "u") // waits
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(failed), 300*time.Millisecond)
}

func TestWithoutANodeItSaysWhy(t *testing.T) {
	t.Parallel()
	theirs := room("c", 0, 9)
	theirs.Owner = remote.OwnerHash("other")
	ends := room("d", 0, 9)
	ends.Draining = true
	d := &town{nodes: map[string]remote.Status{"10.0.0.2:1": theirs, "10.0.0.3:1": ends}}
	r := open(t, d, time.Hour, "10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1", "unknown:1")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := r.Acquire(ctx, "u")
	require.ErrorIs(t, err, remote.ErrNoNode)
	e, _ := errors.AsType[*errs.Error](err)
	require.Contains(t, e.Detail, "portico node list")
	for _, why := range []string{"10.0.0.1:1: nobody listens", "10.0.0.2:1 serves another user", "10.0.0.3:1 is about to end"} {
		require.ErrorContains(t, errors.Unwrap(err), why)
	}
}
