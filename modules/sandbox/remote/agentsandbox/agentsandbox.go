// Package agentsandbox takes sandbox nodes out of a warm pool of Kubernetes'
// agent-sandbox: a SandboxClaim for each owner of programs, which the controller
// binds to a pod that nobody had before.
//
// All processes of a Portico share the claim of an owner: its name follows from the
// owner. Nobody of them deletes it. Whoever has programs there pushes its end ahead
// (spec.lifecycle.shutdownTime), and the controller takes claim and pod away when
// nobody has done so for a while. So an owner who pauses, and a Portico that died,
// leave nothing behind, and no process ends the work of another.
//
// A pod that dies is replaced below the same claim, perhaps with the same address. A
// node is therefore known by its nonce alone, which it is asked for; a node that is
// bound to another owner is never used.
package agentsandbox

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/portico-run/portico/internal/lifecycle"
	"github.com/portico-run/portico/modules/sandbox/remote"
)

// Settings are how nodes are taken.
type Settings struct {
	// Pool is the name of the SandboxWarmPool, in Namespace.
	Namespace, Pool string
	// Port is where the nodes listen.
	Port int
	// Idle is how long the node of an owner is kept after their last program, at
	// least.
	Idle time.Duration
}

// asker asks a node about itself. *remote.Client is one.
type asker interface {
	Status(ctx context.Context, address string) (remote.Status, error)
}

// Nodes are the nodes of the owners whose programs run through this process. It
// implements remote.Nodes, and lifecycle.Service.
type Nodes struct {
	settings Settings
	claims   claims
	nodes    asker
	log      *slog.Logger

	mu      sync.Mutex
	tenants map[string]*tenant // by owner
	nonces  map[string]*tenant // by nonce of their node
	told    map[string]time.Time

	cancel context.CancelFunc
	done   chan struct{} // nil until Start
}

// New returns nodes of a pool; it asks the cluster nothing.
func New(s Settings, cluster dynamic.Interface, nodes asker, log *slog.Logger) *Nodes {
	return &Nodes{
		settings: s, nodes: nodes, log: log,
		claims:  claims{cluster.Resource(resource).Namespace(s.Namespace), s},
		tenants: map[string]*tenant{}, nonces: map[string]*tenant{}, told: map[string]time.Time{},
	}
}

// tenant is an owner of programs that have run here lately.
type tenant struct {
	owner string
	claim string // its name
	// turn is held by who looks for the node.
	turn chan struct{}
	// freed is closed, and replaced, when a program has ended.
	freed chan struct{}

	node remote.Node
	// found says that the node answered, and did not break off since.
	found bool
	// bound says that it serves this owner alone. Until then it may become another's
	// yet, and is asked before every program.
	bound bool
	room  int // programs that the node holds at once
	// programs are those of this process there.
	programs int
	served   bool // a program has ended there as it should
	waiting  int
	used     time.Time // when the last program began or ended
	until    time.Time // when the claim ends, as far as is known here
}

// Acquire implements remote.Nodes.
func (n *Nodes) Acquire(ctx context.Context, owner string) (remote.Node, error) {
	t := n.enter(owner)
	defer n.leave(t)
	for {
		node, freed, ok := n.take(t)
		switch {
		case ok:
			return node, nil
		case freed == nil:
			if err := n.find(ctx, t); err != nil {
				return remote.Node{}, n.explain(ctx, err)
			}
		default:
			select {
			case <-freed:
			case <-ctx.Done():
				return remote.Node{}, ctx.Err()
			}
		}
	}
}

// Release implements remote.Nodes.
func (n *Nodes) Release(node remote.Node, failed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.nonces[node.Nonce]
	if t == nil {
		return // it was replaced, and its programs with it
	}
	t.programs = max(0, t.programs-1)
	t.used, t.served = time.Now(), !failed || t.served
	if failed {
		t.found = false
	}
	t.wake()
}

// wake lets those look again who wait for room.
func (t *tenant) wake() {
	close(t.freed)
	t.freed = make(chan struct{})
}

func (n *Nodes) enter(owner string) *tenant {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.tenants[owner]
	if t == nil {
		t = &tenant{owner: owner, claim: n.claims.name(owner), turn: make(chan struct{}, 1), freed: make(chan struct{})}
		n.tenants[owner] = t
	}
	t.waiting++
	return t
}

func (n *Nodes) leave(t *tenant) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t.waiting--
	n.forget(t)
}

// forget lets go of an owner of whom nothing is left.
func (n *Nodes) forget(t *tenant) {
	if t.waiting > 0 || t.programs > 0 || time.Now().Before(t.until) {
		return
	}
	delete(n.tenants, t.owner)
	delete(n.nonces, t.node.Nonce)
}

// take begins a program on the node of the tenant. It returns what to wait for if
// the node is full, and nothing if there is none.
func (n *Nodes) take(t *tenant) (remote.Node, <-chan struct{}, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	// A claim that nobody could push ahead for so long may end any moment.
	case !t.found || time.Until(t.until) < n.settings.Idle/3:
		return remote.Node{}, nil, false
	case t.programs >= t.room:
		return remote.Node{}, t.freed, false
	}
	t.programs++
	t.used = time.Now()
	t.found = t.bound
	return t.node, nil, true
}

// find looks for the node of the tenant until it answers. One looks at a time.
func (n *Nodes) find(ctx context.Context, t *tenant) error {
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if n.known(t) {
		return nil // somebody found it meanwhile
	}
	var last error
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		err := n.look(ctx, t)
		if err == nil {
			return nil
		}
		if p, ok := errors.AsType[*problem](err); ok && p.final {
			return err
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		if lifecycle.Pause(ctx, wait) != nil {
			return last
		}
	}
}

// look looks for the node of the tenant once.
func (n *Nodes) look(ctx context.Context, t *tenant) error {
	address, until, err := n.claims.ready(ctx, t.claim)
	if err != nil {
		return err
	}
	status, err := n.ask(ctx, t, address)
	if err != nil {
		return err
	}
	n.keep(t, address, until, status)
	return nil
}

const (
	// A pod that was replaced is there within half a second, ordinarily.
	firstWait   = 50 * time.Millisecond
	longestWait = 2 * time.Second
)

func (n *Nodes) known(t *tenant) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return t.found && time.Until(t.until) >= n.settings.Idle/3
}

// ask asks the node at an address who it is, and whether it serves the tenant.
func (n *Nodes) ask(ctx context.Context, t *tenant, address string) (remote.Status, error) {
	status, err := n.nodes.Status(ctx, address)
	switch {
	case err != nil:
		return status, unreachable(t.claim, address, err)
	case status.Draining:
		return status, ending(t.claim, address)
	case status.Owner != "" && status.Owner != remote.OwnerHash(t.owner):
		return status, foreign(t.claim, address)
	case status.Capacity <= 0 || status.MaxPaused < 0:
		return status, roomless(t.claim, address)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if other := n.nonces[status.Nonce]; other != nil && other != t {
		return status, foreign(t.claim, address)
	}
	return status, nil
}

// keep remembers the node of a tenant. The programs of another node ended with it.
func (n *Nodes) keep(t *tenant, address string, until time.Time, status remote.Status) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if t.node.Nonce != status.Nonce {
		delete(n.nonces, t.node.Nonce)
		t.programs, t.served = 0, false
	}
	n.nonces[status.Nonce] = t
	t.node = remote.Node{Address: address, Nonce: status.Nonce}
	t.room, t.until, t.found = status.Capacity+status.MaxPaused, until, true
	t.bound = status.Owner != ""
	if t.served && !t.bound {
		n.log.Warn("a sandbox node from the warm pool would serve everybody", "claim", t.claim, "do", "Set SANDBOX_NODE_TENANTS=one in the template of the pool.")
		t.bound = true // it is asked no more; the claim is this owner's all the same
	}
	t.wake()
}
