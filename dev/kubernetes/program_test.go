//go:build kubernetes

package kubernetes_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/remote"
)

// overlaysAreAccepted lets the API server check every manifest as if it were applied.
func overlaysAreAccepted(t *testing.T, c *cluster) {
	found, err := os.ReadDir(overlays)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(found), 3)
	for _, folder := range found {
		output, err := c.kubectl("", "apply", "--server-side", "--dry-run=server", "--force-conflicts", "-k", filepath.Join(overlays, folder.Name()))
		require.NoError(t, err, output)
		require.NotContains(t, output, "Warning", "Pod Security, or a field that nobody knows")
		t.Logf("%s: %d objects", folder.Name(), strings.Count(output, "\n"))
	}
}

// engine runs programs on the nodes of claims.
func (c *cluster) engine(t *testing.T) (*sandbox.Engine, process) {
	t.Helper()
	p := c.process(t, pool, porticoToken, time.Hour)
	driver := remote.New(remote.Deps{Nodes: unstarted{p}, Client: p.client, Logger: slog.New(slog.NewTextHandler(p.log, nil))})
	engine := sandbox.New(sandbox.Deps{Driver: driver, MaxConcurrent: 10, MaxPaused: 10, MaxQueue: 10, Logger: slog.New(slog.NewTextHandler(p.log, nil))})
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() {
		require.NoError(t, engine.Stop(context.Background()))
		if t.Failed() {
			t.Log(p.log)
		}
	})
	return engine, p
}

// unstarted keeps the driver from starting what the test has started.
type unstarted struct{ nodes remote.Nodes }

func (u unstarted) Acquire(ctx context.Context, owner string) (remote.Node, error) {
	return u.nodes.Acquire(ctx, owner)
}
func (u unstarted) Release(n remote.Node, failed bool) { u.nodes.Release(n, failed) }

// job asks its gateway for something, and prints what it got.
func job(owner, code string, gateway http.HandlerFunc) sandbox.Job {
	return sandbox.Job{Owner: owner, Code: code, Timeout: time.Minute, Gateway: gateway, Loopback: true}
}

const asks = `
import urllib.request
print("got", urllib.request.urlopen("http://127.0.0.1:5800/anything").read().decode())
`

func programsRunThroughAClaim(t *testing.T, c *cluster) {
	engine, _ := c.engine(t)
	for i := range 4 {
		owner := fmt.Sprintf("program%d", i/2)
		begun := time.Now()
		result, err := engine.Run(t.Context(), job(owner, asks, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, owner) }))
		require.NoError(t, err)
		require.Equal(t, sandbox.Completed, result.Status, result.Stderr)
		require.Equal(t, "got "+owner+"\n", result.Stdout)
		t.Logf("program %d of %s: %v", i%2+1, owner, time.Since(begun).Round(time.Millisecond))
	}
}

func aNodeThatDrainsFinishesItsPrograms(t *testing.T, c *cluster) {
	engine, p := c.engine(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	held := func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-answer
		_, _ = io.WriteString(w, "the end")
	}
	begun, err := engine.Begin(t.Context(), job("drained", asks, held))
	require.NoError(t, err)
	<-asked
	n := p.begin(t, "drained")
	p.Release(n, false)
	c.kubelet.remove(ip(t, n))
	require.Eventually(t, func() bool {
		status, err := p.client.Status(t.Context(), n.Address)
		return err == nil && status.Draining
	}, 30*time.Second, 10*time.Millisecond)
	close(answer)
	result, err := begun.Result()
	require.NoError(t, err)
	require.Equal(t, "got the end\n", result.Stdout, result.Stderr)

	// The next one runs on the pod that came instead.
	after, err := engine.Run(t.Context(), job("drained", "print(1)", nil))
	require.NoError(t, err)
	require.Equal(t, "1\n", after.Stdout, after.Stderr)
}
