// Package registry finds sandbox nodes by their addresses, which are configured.
package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/lifecycle"
	"github.com/portico-run/portico/modules/sandbox/remote"
)

// Asker asks a node about itself. *remote.Client is one.
type Asker interface {
	Status(ctx context.Context, address string) (remote.Status, error)
}

// Deps is what a registry needs.
type Deps struct {
	// Addresses are "host:port". A name may have many addresses; it is looked up again as
	// often as nodes are asked.
	Addresses []string
	Asker     Asker
	// Lookup finds the addresses of a name; nil asks the system.
	Lookup func(ctx context.Context, host string) ([]string, error)
	Logger *slog.Logger
	// Every is how often nodes are asked, and Rest how long one that failed is left alone;
	// zero takes what is usual.
	Every, Rest time.Duration
}

const (
	usualEvery = 2 * time.Second
	usualRest  = 5 * time.Second
)

// Registry knows the nodes. It implements remote.Nodes, and is a lifecycle.Service.
type Registry struct {
	deps Deps

	mu    sync.Mutex
	nodes map[string]*known // by address
	news  chan struct{}     // closed when something changed, and made anew

	stop context.CancelFunc
	done chan struct{}
}

// known is what is known of a node.
type known struct {
	remote.Status

	address string
	err     error // of the last question
	began   int   // programs of this process that began there since it was asked
	rests   time.Time
}

// New returns a registry that asks nobody.
func New(d Deps) *Registry {
	if d.Lookup == nil {
		d.Lookup = net.DefaultResolver.LookupHost
	}
	if d.Every == 0 {
		d.Every = usualEvery
	}
	if d.Rest == 0 {
		d.Rest = usualRest
	}
	return &Registry{deps: d, nodes: map[string]*known{}, news: make(chan struct{})}
}

// Start asks all nodes once, and goes on to do so.
func (r *Registry) Start(ctx context.Context) error {
	r.look(ctx)
	ctx, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	r.done = make(chan struct{})
	go func() {
		defer close(r.done)
		for lifecycle.Pause(ctx, r.deps.Every) == nil {
			r.look(ctx)
		}
	}()
	return nil
}

// Stop implements lifecycle.Service.
func (r *Registry) Stop(context.Context) error {
	if r.stop != nil {
		r.stop()
		<-r.done
	}
	return nil
}

// look finds all addresses and asks all nodes.
func (r *Registry) look(ctx context.Context) {
	found := map[string]bool{}
	whole := true
	for _, a := range r.deps.Addresses {
		list, err := r.resolve(ctx, a)
		if err != nil {
			whole = false
			r.deps.Logger.WarnContext(ctx, "the name of sandbox nodes was not found", "name", a, "error", err)
		}
		for _, address := range list {
			found[address] = true
		}
	}
	r.mu.Lock()
	if !whole { // those that are known stay
		for address := range r.nodes {
			found[address] = true
		}
	}
	r.mu.Unlock()
	var all sync.WaitGroup
	for address := range found {
		all.Go(func() { r.ask(ctx, address) })
	}
	all.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.nodes, func(address string, _ *known) bool { return !found[address] })
	r.tell()
}

// tell wakes whoever waits for a node. The caller holds mu.
func (r *Registry) tell() {
	close(r.news)
	r.news = make(chan struct{})
}

func (r *Registry) resolve(ctx context.Context, address string) ([]string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if net.ParseIP(host) != nil {
		return []string{address}, nil
	}
	hosts, err := r.deps.Lookup(ctx, host)
	for i, h := range hosts {
		hosts[i] = net.JoinHostPort(h, port)
	}
	return hosts, err
}

func (r *Registry) ask(ctx context.Context, address string) {
	r.mu.Lock()
	before := 0
	if n := r.nodes[address]; n != nil {
		before = n.began
	}
	r.mu.Unlock()
	s, err := r.deps.Asker.Status(ctx, address)
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes[address]
	if n == nil {
		n = &known{address: address}
		r.nodes[address] = n
	}
	if err != nil {
		if n.err == nil {
			r.deps.Logger.WarnContext(ctx, "a sandbox node does not answer", "node", address, "error", err)
		}
		n.err = err
		return
	}
	if n.err != nil || n.Nonce != s.Nonce {
		n.rests = time.Time{} // it is back, or another one
	}
	n.Status, n.err, n.began = s, nil, n.began-before
	r.tell()
}

// Acquire implements remote.Nodes: of two nodes, the one that has more room.
func (r *Registry) Acquire(ctx context.Context, owner string) (remote.Node, error) {
	hash := remote.OwnerHash(owner)
	for {
		r.mu.Lock()
		n, err := r.choose(hash)
		news := r.news
		if n != nil {
			n.began++
			node := remote.Node{Address: n.address, Nonce: n.Nonce}
			r.mu.Unlock()
			return node, nil
		}
		r.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return remote.Node{}, err
		}
	}
}

// choose returns a node that has room, or why there is none. The caller holds mu.
func (r *Registry) choose(hash string) (*known, error) {
	var free []*known
	var failed []error
	busy := false
	now := time.Now()
	for _, address := range slices.Sorted(maps.Keys(r.nodes)) {
		n := r.nodes[address]
		switch {
		case n.err != nil:
			failed = append(failed, fmt.Errorf("%s: %w", address, n.err))
		case n.rests.After(now):
			failed = append(failed, fmt.Errorf("%s failed a moment ago", address))
		case n.Draining:
			failed = append(failed, fmt.Errorf("%s is about to end", address))
		case n.Owner != "" && n.Owner != hash:
			failed = append(failed, fmt.Errorf("%s serves another user", address))
		case n.load() >= 1:
			busy = true
		case n.Owner == hash && hash != "": // what is theirs already comes first
			return n, nil
		default:
			free = append(free, n)
		}
	}
	switch {
	case len(free) > 0:
		rand.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] }) //nolint:gosec // no secret
		two := free[:min(2, len(free))]                                                 //nolint:mnd // the better of two
		return slices.MinFunc(two, func(a, b *known) int { return cmp.Compare(a.load(), b.load()) }), nil
	case busy:
		return nil, context.DeadlineExceeded
	case len(failed) == 0:
		failed = append(failed, errors.New(strings.Join(r.deps.Addresses, ", ")+" has no address"))
	}
	return nil, remote.ErrNoNode.With(errors.Join(failed...))
}

// load is how full a node is, from 0 to 1.
func (n *known) load() float64 {
	return float64(n.Running+n.began) / float64(max(n.Capacity, 1))
}

// Release implements remote.Nodes.
func (r *Registry) Release(node remote.Node, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes[node.Address]
	if n == nil || n.Nonce != node.Nonce {
		return
	}
	if n.began > 0 {
		n.began--
	} else if n.Running > 0 {
		n.Running-- // until it is asked again
	}
	if failed {
		n.rests = time.Now().Add(r.deps.Rest)
	}
	r.tell()
}

// Node is a node with what it says of itself, or why it says nothing.
type Node struct {
	Address string
	Status  remote.Status
	Err     error
}

// List asks all nodes, and returns them in the order of their addresses.
func (r *Registry) List(ctx context.Context) []Node {
	r.look(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []Node
	for _, address := range slices.Sorted(maps.Keys(r.nodes)) {
		n := r.nodes[address]
		list = append(list, Node{address, n.Status, n.err})
	}
	return list
}
