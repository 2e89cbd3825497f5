package agentsandbox

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// pushTimeout bounds one push, so that an API server that hangs keeps nobody from
// stopping.
const pushTimeout = 10 * time.Second

// Start implements lifecycle.Service: from now on the claims of owners with programs
// are pushed ahead.
func (n *Nodes) Start(ctx context.Context) error {
	ctx, n.cancel = context.WithCancel(context.WithoutCancel(ctx))
	n.done = make(chan struct{})
	go func() {
		defer close(n.done)
		tick := time.NewTicker(n.claims.slack() / 4) // so that it may fail a few times
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				n.pushAll(ctx)
			case <-ctx.Done():
				return
			}
		}
	}()
	return nil
}

// Stop implements lifecycle.Service. The claims stay: other processes may use them,
// and those that nobody uses end by themselves.
func (n *Nodes) Stop(ctx context.Context) error {
	if n.done == nil {
		return nil
	}
	n.cancel()
	select {
	case <-n.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pushAll pushes the claims ahead that are used and end too soon, and forgets owners
// of whom nothing is left.
func (n *Nodes) pushAll(ctx context.Context) {
	for _, t := range n.due() {
		if !n.pushOne(ctx, t) {
			return // the others are tried the next time
		}
	}
}

// due are the owners whose claims must be pushed ahead.
func (n *Nodes) due() []*tenant {
	n.mu.Lock()
	defer n.mu.Unlock()
	var due []*tenant
	for _, t := range n.tenants {
		used := t.used
		if t.programs > 0 {
			used = time.Now()
		}
		switch {
		case t.until.IsZero():
		case used.Add(n.settings.Idle).After(t.until):
			due = append(due, t)
		default:
			n.forget(t)
		}
	}
	return due
}

// pushOne reports whether the API server answers.
func (n *Nodes) pushOne(ctx context.Context, t *tenant) bool {
	call, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	object, err := n.claims.push(call, t.claim)
	if apierrors.IsNotFound(err) {
		// Somebody deleted it, and its pod with it. The next program makes another one.
		n.mu.Lock()
		t.found, t.until = false, time.Now()
		n.mu.Unlock()
		return true
	}
	var now claim
	if err == nil {
		now, err = read(object)
	}
	if err != nil {
		if ctx.Err() != nil {
			return false
		}
		err = refused(n.settings, err)
		n.tell(ctx, err)
		p, ok := errors.AsType[*problem](err)
		return ok && p.final
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	t.until = now.Spec.Lifecycle.ShutdownTime.Time
	return true
}
