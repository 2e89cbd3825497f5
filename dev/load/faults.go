package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/portico-run/portico/dev/instance"
	"github.com/portico-run/portico/internal/lifecycle"
)

const (
	slowCallers = 8
	// statement is how much longer each answer of a slow database takes.
	statement = 50 * time.Millisecond
	// grace is by how much an answer may come after its deadline.
	grace = 2 * time.Second
	// patience is the longest that an upload to a stalled storage may wait, and
	// endless when it is no longer watched.
	patience = time.Minute
	endless  = 90 * time.Second
	// unharmed is how many times as long what does not need the slow thing may
	// take.
	unharmed = 3
)

// probe makes calls, or asks what needs no database, and is the median of the
// time that takes.
func (w *world) probe(ctx context.Context, d time.Duration, one func(ctx context.Context) (time.Duration, error)) (p50 time.Duration, err error) {
	var took []time.Duration
	for begin := time.Now(); time.Since(begin) < d; {
		t, err := one(ctx)
		if err != nil {
			return 0, err
		}
		took = append(took, t)
		if err := lifecycle.Pause(ctx, 20*time.Millisecond); err != nil {
			return 0, err
		}
	}
	return percentile(took, 0.5), nil
}

// repeat does something from several workers until the context ends, and returns
// the longest it took and what went wrong.
func repeat(ctx context.Context, workers int, one func(n int) (time.Duration, error)) func() (time.Duration, error) {
	var mu sync.Mutex
	var longest time.Duration
	var failed []error
	var all sync.WaitGroup
	for n := range workers {
		all.Go(func() {
			for ctx.Err() == nil {
				took, err := one(n)
				mu.Lock()
				longest = max(longest, took)
				if err != nil && len(failed) < maxFailures {
					failed = append(failed, err)
				}
				mu.Unlock()
			}
		})
	}
	return func() (time.Duration, error) {
		all.Wait()
		return longest, errors.Join(failed...)
	}
}

// faults makes what the server depends on slow, one after the other.
func (w *world) faults(ctx context.Context, d time.Duration) (checks []check, err error) {
	who, err := instance.Register(ctx, w.server.URL, w.keys[0])
	if err != nil {
		return nil, err
	}
	call := func(ctx context.Context) (time.Duration, error) { return w.call(ctx, who, "demo", "list_cities") }
	before, err := w.probe(ctx, d, call)
	if err != nil {
		return nil, err
	}
	health, err := w.probe(ctx, d/2, w.healthy)
	if err != nil {
		return nil, err
	}
	for _, fault := range []func(context.Context, time.Duration, usual) ([]check, error){w.slowUpstream, w.stalledStorage, w.slowDatabase} {
		more, err := fault(ctx, d, usual{call: call, took: before, health: health})
		if err != nil {
			return checks, err
		}
		checks = append(checks, more...)
		if err := settle(ctx); err != nil {
			return checks, err
		}
	}
	after, err := w.probe(ctx, d/2, call)
	return append(checks, most("after the faults: a call, p50", after.Seconds()*1000, unharmed*before.Seconds()*1000, "%.1f ms")), err
}

// usual is what a call is and how long it takes when nothing is wrong.
type usual struct {
	call         func(ctx context.Context) (time.Duration, error)
	took, health time.Duration
}

func (w *world) slowUpstream(ctx context.Context, d time.Duration, u usual) ([]check, error) {
	fmt.Fprintln(os.Stderr, "a slow upstream…")
	// What is under way ends by itself: by the deadline, if that holds.
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	end := repeat(waiting, slowCallers, func(n int) (time.Duration, error) {
		took, err := w.call(ctx, instance.Caller{Key: w.keys[n%len(w.keys)]}, "slow", "ask")
		if failed, is := errors.AsType[toolError](err); is {
			// Late, or refused for a while after many were late.
			if failed.code == "TIMEOUT" || took < time.Second {
				return took, lifecycle.Pause(ctx, 100*time.Millisecond)
			}
		}
		return took, fmt.Errorf("a call of the slow upstream: %w", errors.Join(err, errors.New("it did not time out")))
	})
	took, err := w.probe(ctx, max(d, deadline+grace), u.call)
	stop()
	longest, failed := end()
	if err != nil {
		return nil, err
	}
	return []check{
		most("slow upstream: its calls, longest", longest.Seconds(), (deadline + grace).Seconds(), "%.1f s"),
		{"slow upstream: calls of it that did not fail as late ones", problem(failed), "none", failed == nil},
		most("slow upstream: calls of another, p50", took.Seconds()*1000, unharmed*u.took.Seconds()*1000, "%.1f ms"),
	}, nil
}

func (w *world) stalledStorage(ctx context.Context, d time.Duration, u usual) ([]check, error) {
	fmt.Fprintln(os.Stderr, "a stalled object storage…")
	w.objects.stall.Store(true)
	defer w.objects.stall.Store(false)
	type upload struct {
		took time.Duration
		err  error
	}
	uploads := make(chan upload, 1)
	go func() {
		begin := time.Now()
		err := w.upload(ctx, w.keys[0], make([]byte, uploadSize))
		uploads <- upload{time.Since(begin), err}
	}()
	took, err := w.probe(ctx, d, u.call)
	if err != nil {
		return nil, err
	}
	limit := time.NewTimer(endless - d)
	defer limit.Stop()
	one := upload{endless, errors.New("nothing")}
	select {
	case one = <-uploads:
	case <-limit.C:
	}
	w.objects.stall.Store(false)
	again := w.upload(ctx, w.keys[0], make([]byte, uploadSize))
	return []check{
		most("stalled storage: an upload ends", one.took.Seconds(), (patience + grace).Seconds(), "%.1f s"),
		{"stalled storage: what an upload is told", problem(one.err), "a refusal", errors.Is(one.err, errRefused)},
		most("stalled storage: calls, p50", took.Seconds()*1000, unharmed*u.took.Seconds()*1000, "%.1f ms"),
		{"stalled storage: an upload after it", problem(again), "none", again == nil},
	}, nil
}

func (w *world) slowDatabase(ctx context.Context, d time.Duration, u usual) ([]check, error) {
	fmt.Fprintln(os.Stderr, "a slow database…")
	w.database.delay.Store(int64(statement))
	defer w.database.delay.Store(0)
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	end := repeat(waiting, slowCallers, func(int) (time.Duration, error) { return u.call(ctx) })
	health, err := w.probe(ctx, d, w.healthy)
	stop()
	longest, failed := end()
	if err != nil {
		return nil, err
	}
	return []check{
		most("slow database: calls, longest", longest.Seconds(), (deadline + grace).Seconds(), "%.1f s"),
		{"slow database: calls that failed", problem(failed), "none", failed == nil},
		most("slow database: an answer that needs none, p50", health.Seconds()*1000, max(unharmed*u.health.Seconds()*1000, 10), "%.1f ms"),
	}, nil
}

// healthy asks whether the server lives, which needs nothing else.
func (w *world) healthy(ctx context.Context) (time.Duration, error) {
	begin := time.Now()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.server.URL+"/healthz", nil)
	if err != nil {
		return 0, err
	}
	err = w.ask(r, nil)
	return time.Since(begin), err
}

func problem(err error) string {
	if err == nil {
		return "none"
	}
	return fmt.Sprintf("%.200s", err)
}
