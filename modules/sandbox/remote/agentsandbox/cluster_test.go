package agentsandbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/portico-run/portico/modules/sandbox/remote"
	"github.com/portico-run/portico/modules/sandbox/remote/agentsandbox"
)

const (
	namespace = "sandboxes"
	idle      = 15 * time.Minute
)

// cluster is an API server with a controller that gives each claim a pod after a
// moment, and deletes claims when their time is over. It keeps time in a bubble.
type cluster struct {
	*fake.FakeDynamicClient
	t *testing.T

	mu    sync.Mutex
	pods  int
	nodes map[string]remote.Status // by address
	asked int
	down  error // what the API server says instead of anything
	// broken is why no claim gets a pod; empty where they do.
	broken string
}

func resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "extensions.agents.x-k8s.io", Version: "v1beta1", Resource: "sandboxclaims"}
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{
		t: t, nodes: map[string]remote.Status{},
		FakeDynamicClient: fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{resource(): "SandboxClaimList"}),
	}
	c.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.down != nil, nil, c.down
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				c.reconcile()
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return c
}

func (c *cluster) claims() dynamic.ResourceInterface {
	return c.Resource(resource()).Namespace(namespace)
}

// list reads the claims past the API server.
func (c *cluster) list() []*unstructured.Unstructured {
	list, err := c.Tracker().List(resource(), schema.GroupVersionKind{Group: resource().Group, Version: resource().Version, Kind: "SandboxClaim"}, namespace)
	require.NoError(c.t, err)
	claims, ok := list.(*unstructured.UnstructuredList)
	require.True(c.t, ok)
	var found []*unstructured.Unstructured
	for i := range claims.Items {
		found = append(found, &claims.Items[i])
	}
	return found
}

// ends returns when a claim ends.
func (c *cluster) ends(claim *unstructured.Unstructured) time.Time {
	text, _, err := unstructured.NestedString(claim.Object, "spec", "lifecycle", "shutdownTime")
	require.NoError(c.t, err)
	at, err := time.Parse(time.RFC3339, text)
	require.NoError(c.t, err)
	return at
}

func (c *cluster) reconcile() {
	for _, claim := range c.list() {
		if !time.Now().Before(c.ends(claim)) {
			require.NoError(c.t, c.Tracker().Delete(resource(), namespace, claim.GetName()))
			continue
		}
		if _, has, _ := unstructured.NestedMap(claim.Object, "status"); !has {
			c.bind(claim)
		}
	}
}

// bind gives a claim a pod that nobody had before, or says why it has none.
func (c *cluster) bind(claim *unstructured.Unstructured) {
	c.mu.Lock()
	c.pods++
	address := fmt.Sprintf("10.0.0.%d", c.pods)
	broken := c.broken
	c.mu.Unlock()
	if broken != "" {
		c.set(claim, "False", broken)
		return
	}
	c.run(address, remote.Status{Nonce: "nonce of " + address, Capacity: 2, MaxPaused: 1})
	c.set(claim, "True", "DependenciesReady", address)
}

func (c *cluster) set(claim *unstructured.Unstructured, ready, reason string, ips ...string) {
	addresses := make([]any, len(ips))
	for i, ip := range ips {
		addresses[i] = ip
	}
	claim.Object["status"] = map[string]any{
		"conditions": []any{map[string]any{"type": "Ready", "status": ready, "reason": reason, "message": "as the test says"}},
		"sandbox":    map[string]any{"podIPs": addresses},
	}
	require.NoError(c.t, c.Tracker().Update(resource(), claim, namespace))
}

// run lets a node answer at an address.
func (c *cluster) run(ip string, s remote.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[ip+":5803"] = s
}

// end ends the node at an address.
func (c *cluster) end(ip string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.nodes, ip+":5803")
}

// say changes what the API server answers, and what becomes of claims.
func (c *cluster) say(down error, broken string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down, c.broken = down, broken
}

// Status asks a node about itself.
func (c *cluster) Status(_ context.Context, address string) (remote.Status, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	s, ok := c.nodes[address]
	if !ok {
		return s, errors.New("connection refused")
	}
	return s, nil
}

// serve lets the node at an address serve one owner alone from now on.
func (c *cluster) serve(address, owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.nodes[address]
	s.Owner = remote.OwnerHash(owner)
	c.nodes[address] = s
}

func (c *cluster) questions() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// process is one Portico.
type process struct {
	*agentsandbox.Nodes
	log *bytes.Buffer
}

func (c *cluster) process() process {
	c.t.Helper()
	log := new(bytes.Buffer)
	n := agentsandbox.New(agentsandbox.Settings{Namespace: namespace, Pool: "warm", Port: 5803, Idle: idle}, c, c, slog.New(slog.NewTextHandler(log, nil)))
	require.NoError(c.t, n.Start(c.t.Context()))
	c.t.Cleanup(func() { require.NoError(c.t, n.Stop(context.Background())) })
	return process{n, log}
}

// begin begins a program of an owner.
func (p process) begin(c *cluster, owner string) remote.Node {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	n, err := p.Acquire(ctx, owner)
	require.NoError(c.t, err, p.log)
	c.serve(n.Address, owner)
	return n
}
