package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portico-run/portico/dev/instance"
	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/lifecycle"
	"github.com/portico-run/portico/modules/run"
)

const (
	streams      = 200
	streamRuns   = 20 // each watched by ten
	streamEvents = 50 // of each run

	// While events are watched, so many calls a second are written, and an event
	// of each run after each pause.
	streamCalls = 300
	streamPause = 50 * time.Millisecond
)

// benchStream measures the way of an event from its commit to a client, with
// many clients watching, as fast as events can be written and while many calls
// are; the baseline is the median of the same.
func benchStream(ctx context.Context, _ options) (rows []result, err error) {
	p, err := startPortico(ctx, workers, "PTC_POLL_INTERVAL_MS=60000")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	alone, err := p.streamed(ctx, 0)
	if err != nil {
		return nil, err
	}
	rows = append(rows, delivered("nothing else", alone))
	who, err := p.inRuns(ctx)
	if err != nil {
		return nil, err
	}
	calling, stop := context.WithCancel(ctx)
	end := callAtRate(calling, p.url+executeURL, who, streamCalls)
	busy, err := p.streamed(ctx, streamPause)
	stop()
	perSecond, failed := end()
	if err := errors.Join(err, failed); err != nil {
		return rows, err
	}
	return append(rows, delivered(fmt.Sprintf("%.0f of %d calls/s written", perSecond, streamCalls), busy)), nil
}

func delivered(beside string, took []time.Duration) result {
	p50, p99 := percentile(took, 0.5), percentile(took, 0.99)
	return result{
		what: fmt.Sprintf("commit → event at a client, %d streams, %s, p99 (baseline: p50)", streams, beside), measured: ms(p99), baseline: ms(p50),
		ratio: times(p99, p50), target: "≤ 50 ms", holds: p99 <= 50*time.Millisecond,
	}
}

// callAtRate begins calls at a rate until the context ends, unless all workers
// wait for an answer. end is how many were made a second.
func callAtRate(ctx context.Context, url string, who []instance.Caller, perSecond int) (end func() (float64, error)) {
	due := make(chan struct{})
	var done atomic.Int64
	var all sync.WaitGroup
	failed := make(chan error, 2*len(who))
	c := client()
	for n := range 2 * len(who) {
		all.Go(func() {
			for range due {
				if err := call(context.WithoutCancel(ctx), c, url, who[n%len(who)]); err != nil {
					failed <- err
					return
				}
				done.Add(1)
			}
		})
	}
	begin := time.Now()
	all.Go(func() {
		defer close(due)
		tick := time.NewTicker(time.Second / time.Duration(perSecond))
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			select {
			case due <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() (float64, error) {
		rate := float64(done.Load()) / time.Since(begin).Seconds()
		all.Wait()
		close(failed)
		return rate, <-failed
	}
}

// streamed is how long each event took to each client.
func (p *portico) streamed(ctx context.Context, pause time.Duration) ([]time.Duration, error) {
	who := actor.Actor{UID: p.uids[0], Scope: actor.Full}
	w := &watching{committed: map[string]time.Time{}}
	var runs []run.Run
	for range streamRuns {
		r, err := p.app.Runs.Service.Create(ctx, who, run.CreateParams{Title: "bench"})
		if err != nil {
			return nil, err
		}
		runs = append(runs, r)
	}
	var all sync.WaitGroup
	var ready sync.WaitGroup
	c := client()
	for n := range streams {
		ready.Add(1)
		all.Go(func() { w.watch(ctx, c, p, runs[n%streamRuns].ResultID, ready.Done) })
	}
	ready.Wait()
	for range streamEvents {
		if err := lifecycle.Pause(ctx, pause); err != nil {
			return nil, err
		}
		for _, r := range runs {
			var seq int64
			err := p.app.DB.InTx(ctx, func(tx database.Tx) (err error) {
				seq, err = p.app.Runs.Service.Append(ctx, tx, r.Ref(), run.NewEvent{Type: run.Log})
				return err
			})
			if err != nil {
				return nil, err
			}
			w.commit(r.ResultID, seq)
		}
	}
	for _, r := range runs {
		if err := p.app.DB.InTx(ctx, func(tx database.Tx) error {
			return p.app.Runs.Service.Finish(ctx, tx, r.Ref(), run.Finish{Status: run.Done})
		}); err != nil {
			return nil, err
		}
	}
	all.Wait()
	if w.err != nil {
		return nil, w.err
	}
	if want := streamEvents * streams; len(w.took) != want {
		return nil, fmt.Errorf("%d events arrived, not %d", len(w.took), want)
	}
	return w.took, nil
}

// watching compares when events were committed with when they arrived.
type watching struct {
	mu        sync.Mutex
	committed map[string]time.Time
	waiting   map[string][]time.Time // arrived before commit was told
	took      []time.Duration
	err       error
}

func (w *watching) commit(resultID string, seq int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.committed[fmt.Sprint(resultID, " ", seq)] = time.Now()
	for range w.waiting[fmt.Sprint(resultID, " ", seq)] {
		w.took = append(w.took, 0)
	}
}

func (w *watching) arrive(resultID, seq string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := resultID + " " + seq
	if at, ok := w.committed[key]; ok {
		w.took = append(w.took, time.Since(at))
		return
	}
	if w.waiting == nil {
		w.waiting = map[string][]time.Time{}
	}
	w.waiting[key] = append(w.waiting[key], time.Now())
}

func (w *watching) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = errors.Join(w.err, err)
}

func (w *watching) watch(ctx context.Context, c *http.Client, p *portico, resultID string, ready func()) {
	ready = sync.OnceFunc(ready)
	defer ready()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/v1/action/"+resultID+"/events", nil)
	if err != nil {
		w.fail(err)
		return
	}
	r.Header.Set("X-API-Key", p.keys[0])
	resp, err := c.Do(r)
	if err != nil {
		w.fail(err)
		return
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	var id string
	for lines.Scan() {
		line := lines.Text()
		if rest, ok := strings.CutPrefix(line, "id: "); ok {
			id = rest
		}
		switch {
		case strings.HasPrefix(line, `data: {"event":"start"`):
			ready()
		case strings.HasPrefix(line, `data: {"event":"log"`):
			w.arrive(resultID, id)
		}
	}
	if err := lines.Err(); err != nil {
		w.fail(err)
	}
}
