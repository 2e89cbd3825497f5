package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portico-run/portico/dev/instance"
	"github.com/portico-run/portico/internal/lifecycle"
)

// maxUnderWay bounds the jobs that wait for answers at once, as a crowd of
// clients is bounded: without it, this program would be what ends first.
const maxUnderWay = 400

// drive begins jobs at a rate for so long, whatever becomes of them. wait returns
// when the last of them has ended.
func (w *world) drive(ctx context.Context, r *recorder, perSecond float64, d time.Duration) (wait func(), err error) {
	defer r.close()
	jobs := mix()
	var underWay atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	for n := 0; ; n++ {
		due := time.Duration(float64(n) / perSecond * float64(time.Second))
		if err := lifecycle.Pause(ctx, min(due, d)-time.Since(begin)); err != nil || due >= d {
			return all.Wait, err
		}
		if underWay.Load() >= maxUnderWay {
			r.skip()
			continue
		}
		underWay.Add(1)
		all.Go(func() {
			defer underWay.Add(-1)
			w.do(ctx, r, jobs[n%len(jobs)], w.keys[n%len(w.keys)])
		})
	}
}

func (w *world) do(ctx context.Context, r *recorder, j job, key string) {
	r.end(j.name, j.do(ctx, w, key, r))
}

// ramp finds how many jobs a second the machine gives: with more and more
// workers, until more of them twice did not get more done.
func (w *world) ramp(ctx context.Context, step time.Duration) (perSecond float64, err error) {
	const enough = 1.05
	worse := 0
	for workers := 2; workers <= 64; workers *= 2 {
		r := newRecorder()
		var all sync.WaitGroup
		var next atomic.Int64
		for range workers {
			all.Go(func() {
				for time.Since(r.begin) < step && ctx.Err() == nil {
					n := int(next.Add(1))
					w.do(ctx, r, mix()[n%len(mix())], w.keys[n%len(w.keys)])
				}
			})
		}
		all.Wait()
		r.close()
		s := r.summary()
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if s.failed > 0 {
			return 0, fmt.Errorf("%d jobs failed while the capacity was looked for: %s", s.failed, s.failures)
		}
		fmt.Fprintf(os.Stderr, "  %2d workers: %.1f jobs/s, %d refused, p50 of a call %s\n", workers, s.perSecond, s.refused, s.p50[direct].Round(time.Millisecond/10))
		if s.perSecond < perSecond*enough {
			worse++
		}
		if perSecond = max(perSecond, s.perSecond); worse == 2 {
			break
		}
	}
	return perSecond, nil
}

// observed is what the server occupied at a moment.
type observed struct {
	instance.Usage

	at time.Duration
}

// observe looks at the server once a second until the context ends.
func (w *world) observe(ctx context.Context) (all []observed) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	begin := time.Now()
	for {
		if u, err := w.server.Usage(ctx); err == nil { // one that is too busy to say misses a point
			all = append(all, observed{u, time.Since(begin)})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return all
		}
	}
}

// phase is one part of the whole, as it was seen.
type phase struct {
	name     string
	rate     float64 // jobs a second that were begun
	recorder *recorder
	summary  summary
	seconds  []second
	usage    []observed
	wait     func() // until all that was begun in it has ended
}

// run drives the server at a rate and watches it.
func (w *world) run(ctx context.Context, name string, perSecond float64, d time.Duration) (phase, error) {
	fmt.Fprintf(os.Stderr, "%s: %.1f jobs/s for %s…\n", name, perSecond, d)
	p := phase{name: name, rate: perSecond, recorder: newRecorder()}
	watching, stop := context.WithCancel(ctx)
	seen := make(chan []observed, 1)
	go func() { seen <- w.observe(watching) }()
	var err error
	p.wait, err = w.drive(ctx, p.recorder, perSecond, d)
	stop()
	p.usage = <-seen
	return p, err
}
