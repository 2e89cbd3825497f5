//go:build kubernetes

package kubernetes_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/portico-run/portico/internal/lifecycle"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/remote"
	"github.com/portico-run/portico/modules/sandbox/remote/agentsandbox"
	"github.com/portico-run/portico/modules/sandbox/sandboxtest"
)

const (
	namespace = "portico"
	pool      = "portico"
	port      = 5803
	// warm is how many pods wait for an owner.
	warm     = 3
	overlays = "../../configs/kubernetes/overlays"
)

// program is what make build makes.
const program = "../../bin/portico"

// startNode returns what starts a sandbox node as the pod that it would be.
func startNode(t *testing.T) start {
	t.Helper()
	dir := sandboxtest.RunDir(t)
	return func(ctx context.Context, ip string) (func(bool), error) {
		c := exec.Command(program, "serve", "--role=sandbox")
		c.Env = []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "XDG_DATA_HOME=" + os.Getenv("XDG_DATA_HOME"), "SANDBOX_RUN_DIR=" + dir,
			"SANDBOX_NODE_LISTEN=" + net.JoinHostPort(ip, strconv.Itoa(port)), "SANDBOX_NODE_TENANTS=one", "SANDBOX_MAX_CONCURRENT=2", "SANDBOX_MAX_PAUSED=1",
		}
		var said buffer
		c.Stdout, c.Stderr = &said, &said
		if err := c.Start(); err != nil {
			return nil, err
		}
		ended := make(chan struct{})
		go func() {
			_ = c.Wait()
			close(ended)
		}()
		stop := func(kill bool) {
			if !kill {
				_ = c.Process.Signal(syscall.SIGTERM)
				select {
				case <-ended:
				case <-time.After(30 * time.Second):
				}
			}
			_ = c.Process.Kill()
			<-ended
		}
		client := remote.NewClient(remote.ClientConfig{})
		defer client.Close()
		for {
			if _, err := client.Status(ctx, net.JoinHostPort(ip, strconv.Itoa(port))); err == nil {
				return stop, nil
			}
			select {
			case <-ended:
				return nil, fmt.Errorf("the node ended: %s", said.String())
			default:
			}
			if err := lifecycle.Pause(ctx, 20*time.Millisecond); err != nil {
				stop(true)
				return nil, err
			}
		}
	}
}

// cluster is a control plane with pods and processes of Portico.
type cluster struct {
	*controlPlane
	kubelet *kubelet
}

// newCluster has what the overlay agent-sandbox says, except that nothing is scheduled.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	testenv.Sandbox(t, sandboxtest.Root())
	c := &cluster{controlPlane: startControlPlane(t)}
	output, err := c.kubectl("", "apply", "--server-side", "-k", filepath.Join(overlays, "agent-sandbox"))
	require.NoError(t, err, output)
	output, err = c.kubectl("", "-n", namespace, "patch", "sandboxtemplate", pool, "--type=merge", `-p={"spec":{"podTemplate":{"spec":{"nodeName":"test"}}}}`)
	require.NoError(t, err, output)
	c.kubelet = startKubelet(t, c.admin, startNode(t))
	output, err = c.kubectl("", "-n", namespace, "delete", "sandboxes", "--all", "--wait=false") // those that nobody placed
	require.NoError(t, err, output)
	c.scale(warm)
	return c
}

// scale says how many pods wait, and waits for them.
func (c *cluster) scale(n int64) {
	c.t.Helper()
	output, err := c.kubectl("", "-n", namespace, "scale", "sandboxwarmpool", pool, fmt.Sprintf("--replicas=%d", n))
	require.NoError(c.t, err, output)
	c.eventuallyWarm(n)
}

func (c *cluster) eventuallyWarm(n int64) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		pool, err := c.admin.Resource(pools()).Namespace(namespace).Get(c.t.Context(), pool, metav1.GetOptions{})
		if err != nil {
			return false
		}
		ready, _, _ := unstructured.NestedInt64(pool.Object, "status", "readyReplicas")
		return ready == n
	}, time.Minute, 50*time.Millisecond, "the pool has no %d pods", n)
}

// process is one Portico, as its account may act.
type process struct {
	*agentsandbox.Nodes
	client *remote.Client
	log    *buffer
}

// buffer is a log that is read while it is written.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (c *cluster) process(t *testing.T, pool, token string, idle time.Duration) process {
	t.Helper()
	p := process{client: remote.NewClient(remote.ClientConfig{}), log: new(buffer)}
	kubernetes, err := agentsandbox.Connect(c.configure(token))
	require.NoError(t, err)
	p.Nodes = agentsandbox.New(agentsandbox.Settings{Namespace: namespace, Pool: pool, Port: port, Idle: idle},
		kubernetes, p.client, slog.New(slog.NewTextHandler(p.log, nil)))
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() {
		require.NoError(t, p.Stop(context.Background()))
		p.client.Close()
	})
	return p
}

func (p process) begin(t *testing.T, owner string) remote.Node {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	n, err := p.Acquire(ctx, owner)
	require.NoError(t, err, p.log)
	return n
}

func (c *cluster) count(t *testing.T) int {
	t.Helper()
	list, err := c.admin.Resource(claims()).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	return len(list.Items)
}

func ip(t *testing.T, n remote.Node) string {
	t.Helper()
	host, _, err := net.SplitHostPort(n.Address)
	require.NoError(t, err)
	return host
}

// The control plane is started once, for one question after the other.
//
//nolint:paralleltest // they change the one pool
func TestAgentSandbox(t *testing.T) {
	c := newCluster(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *cluster)
	}{
		{"overlays are accepted", overlaysAreAccepted},
		{"programs run through a claim", programsRunThroughAClaim},
		{"a node that drains finishes its programs", aNodeThatDrainsFinishesItsPrograms},
		{"owners have nodes of their own", ownersHaveNodesOfTheirOwn},
		{"a warm pod comes quickly", aWarmPodComesQuickly},
		{"a lost pod is replaced", aLostPodIsReplaced},
		{"a claim that nobody uses is deleted", anUnusedClaimIsDeleted},
		{"an evicted pod is replaced", anEvictedPodIsReplaced},
		{"what is refused is told", whatIsRefusedIsTold},
		{"an empty pool starts pods", anEmptyPoolStartsPods},
	} {
		require.True(t, t.Run(test.name, func(t *testing.T) { test.run(t, c) }))
		output, err := c.kubectl("", "-n", namespace, "delete", "sandboxclaims", "--all", "--wait=false")
		require.NoError(t, err, output)
	}
}

func ownersHaveNodesOfTheirOwn(t *testing.T, c *cluster) {
	one, two := c.process(t, pool, porticoToken, time.Hour), c.process(t, pool, porticoToken, time.Hour)
	found := map[remote.Node]string{}
	for i := range 4 {
		owner := fmt.Sprintf("own%d", i)
		both := make(chan remote.Node, 2)
		for _, p := range []process{one, two} {
			go func() {
				n, err := p.Acquire(t.Context(), owner)
				if err != nil {
					t.Error(err)
				}
				both <- n
			}()
		}
		n := <-both
		require.Equal(t, n, <-both, "two processes have two nodes for one owner")
		require.Empty(t, found[n], "two owners have one node")
		found[n] = owner
	}
}

func aWarmPodComesQuickly(t *testing.T, c *cluster) {
	p := c.process(t, pool, porticoToken, time.Hour)
	var took []time.Duration
	for i := range 10 {
		c.eventuallyWarm(warm)
		begun := time.Now()
		p.begin(t, fmt.Sprintf("quick%d", i))
		took = append(took, time.Since(begun).Round(time.Millisecond))
	}
	slices.Sort(took)
	t.Logf("from nothing to a node: p50 %v, max %v", took[5], took[9])
	require.Less(t, took[5], 10*time.Second)
}

func aLostPodIsReplaced(t *testing.T, c *cluster) {
	p := c.process(t, pool, porticoToken, time.Hour)
	n := p.begin(t, "lost")
	before := c.count(t)
	c.kubelet.crash(ip(t, n))
	p.Release(n, true)
	begun := time.Now()
	renewed := p.begin(t, "lost")
	t.Logf("another node after %v", time.Since(begun).Round(time.Millisecond))
	require.NotEqual(t, n.Nonce, renewed.Nonce)
	require.Equal(t, before, c.count(t), "under the same claim")
}

func anUnusedClaimIsDeleted(t *testing.T, c *cluster) {
	const idle = 10 * time.Second
	one, two := c.process(t, pool, porticoToken, idle), c.process(t, pool, porticoToken, idle)
	before := c.count(t)
	n := one.begin(t, "idle")
	require.Equal(t, n, two.begin(t, "idle"))
	one.Release(n, false)
	used := time.Now()
	require.Never(t, func() bool { return c.count(t) == before }, idle+idle/2, 500*time.Millisecond, "the second process has a program there")
	two.Release(n, false)
	require.Eventually(t, func() bool { return c.count(t) == before }, time.Minute, 100*time.Millisecond)
	t.Logf("the claim was deleted %v after its last use began to end", time.Since(used).Round(100*time.Millisecond))
	require.Eventually(t, func() bool {
		_, err := two.client.Status(t.Context(), n.Address)
		return err != nil
	}, time.Minute, 100*time.Millisecond, "the node runs on without a claim")
	require.NotEqual(t, n.Nonce, one.begin(t, "idle").Nonce)
}

func anEvictedPodIsReplaced(t *testing.T, c *cluster) {
	p := c.process(t, pool, porticoToken, time.Hour)
	n := p.begin(t, "evicted")
	c.kubelet.evict(ip(t, n))
	p.Release(n, true)
	require.NotEqual(t, n.Nonce, p.begin(t, "evicted").Nonce)
}

func whatIsRefusedIsTold(t *testing.T, c *cluster) {
	for _, x := range []struct{ pool, token, tells string }{
		{"missing", porticoToken, "SANDBOX_CLAIM_POOL"},
		{pool, "wrong", "automountServiceAccountToken"},
	} {
		p := c.process(t, x.pool, x.token, time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		_, err := p.Acquire(ctx, "refused")
		cancel()
		require.ErrorIs(t, err, sandbox.ErrUnavailable)
		require.Contains(t, p.log.String(), x.tells)
	}

	output, err := c.kubectl("", "-n", namespace, "delete", "rolebinding", "portico")
	require.NoError(t, err, output)
	p := c.process(t, pool, porticoToken, time.Hour)
	require.Eventually(t, func() bool { // the API server learns of it after a moment
		_, err := p.Acquire(t.Context(), "refused"+fmt.Sprint(time.Now().UnixNano()))
		return err != nil
	}, 30*time.Second, 10*time.Millisecond)
	require.Contains(t, p.log.String(), "get, watch, create and patch")
	output, err = c.kubectl("", "apply", "--server-side", "-f", filepath.Join(overlays, "agent-sandbox", "access.yaml"), "-n", namespace)
	require.NoError(t, err, output)

	c.apply("{apiVersion: v1, kind: ResourceQuota, metadata: {name: few, namespace: portico}, spec: {hard: {count/sandboxclaims.extensions.agents.x-k8s.io: 0}}}")
	const counts = `{"count/sandboxclaims.extensions.agents.x-k8s.io":"0"}` // another controller would count
	output, err = c.kubectl("", "-n", namespace, "patch", "resourcequota", "few", "--subresource=status", "--type=merge", `-p={"status":{"hard":`+counts+`,"used":`+counts+`}}`)
	require.NoError(t, err, output)
	p = c.process(t, pool, porticoToken, time.Hour)
	require.Eventually(t, func() bool {
		_, err := p.Acquire(t.Context(), "refused"+fmt.Sprint(time.Now().UnixNano()))
		return err != nil && strings.Contains(p.log.String(), "ResourceQuota")
	}, 30*time.Second, 100*time.Millisecond, p.log)
	output, err = c.kubectl("", "-n", namespace, "delete", "resourcequota", "few")
	require.NoError(t, err, output)
}

func anEmptyPoolStartsPods(t *testing.T, c *cluster) {
	c.scale(0)
	p := c.process(t, pool, porticoToken, time.Hour)
	begun := time.Now()
	p.begin(t, "cold")
	t.Logf("a node that was not warm after %v", time.Since(begun).Round(time.Millisecond))
}
