// Package flight lets callers that need the same thing at once share the work
// of making it, without any of them deciding for the others.
package flight

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
)

// Group is work that is going on, by key. The zero value is ready. What has
// been made is not kept: that is for a cache in front of it.
type Group[K comparable, V any] struct {
	mu      sync.Mutex
	flights map[K]*flight[V]
}

type flight[V any] struct {
	landed  chan struct{} // closed once value and err are there
	value   V
	err     error
	waiting int
	cancel  context.CancelFunc
}

// Do returns what work makes. Callers with the same key share one execution of
// it. A caller whose context ends gets that context's error, and the others go
// on waiting; when nobody waits any more, the context of the work ends. A panic
// of the work is an error of all who wait.
func (g *Group[K, V]) Do(ctx context.Context, key K, work func(ctx context.Context) (V, error)) (V, error) {
	g.mu.Lock()
	f, ok := g.flights[key]
	if !ok {
		f = g.start(ctx, key, work)
	}
	f.waiting++
	g.mu.Unlock()
	select {
	case <-f.landed:
		return f.value, f.err
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if f.waiting--; f.waiting == 0 {
		f.cancel()
		g.forget(key, f) // whoever comes now must not share what was given up
	}
	var none V
	return none, ctx.Err()
}

// start begins the work; the lock is held.
func (g *Group[K, V]) start(ctx context.Context, key K, work func(ctx context.Context) (V, error)) *flight[V] {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight[V]{landed: make(chan struct{}), cancel: cancel}
	if g.flights == nil {
		g.flights = map[K]*flight[V]{}
	}
	g.flights[key] = f
	go func() {
		defer cancel()
		defer close(f.landed)
		defer func() {
			if r := recover(); r != nil {
				f.err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			g.forget(key, f)
		}()
		f.value, f.err = work(ctx)
	}()
	return f
}

func (g *Group[K, V]) forget(key K, f *flight[V]) {
	if g.flights[key] == f {
		delete(g.flights, key)
	}
}
