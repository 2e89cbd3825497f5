package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/portico-run/portico/internal/lifecycle"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/bubblewrap"
	"github.com/portico-run/portico/modules/sandbox/forkserver"
	"github.com/portico-run/portico/modules/sandbox/guest"
	"github.com/portico-run/portico/modules/sandbox/gvisor"
)

const (
	executions = 60
	coldStarts = 20
)

// engineDriver is one driver and its targets; 0 is none. Those that are shares
// are of a bare python3 that does nothing.
type engineDriver struct {
	name        string
	make        func() (sandbox.Driver, error)
	warm        time.Duration
	refill      time.Duration
	refillShare float64
	memory      int64 // of one idle interpreter, in bytes
	perSecond   float64
	rateShare   float64
	small       int // executions that are timed for its rate
}

func root() string { return guest.DefaultRoot(map[string]string{"HOME": os.Getenv("HOME")}) }

func drivers() []engineDriver {
	return []engineDriver{{
		name: "fork-server", warm: 3 * time.Millisecond, refillShare: 0.75, memory: 5 << 20, rateShare: 1.5, small: 400,
		make: func() (sandbox.Driver, error) {
			return forkserver.New(guest.Config{Root: root(), Preload: forkserver.DefaultPreload()})
		},
	}, {
		name: "single-use", warm: 2 * time.Millisecond, refill: 250 * time.Millisecond, small: 30,
		make: func() (sandbox.Driver, error) {
			return bubblewrap.New(guest.Config{Root: root(), Preload: bubblewrap.DefaultPreload()})
		},
	}, {
		name: "gVisor", warm: 20 * time.Millisecond, refill: 300 * time.Millisecond, perSecond: 8, small: 30,
		make: func() (sandbox.Driver, error) {
			return gvisor.New(guest.Config{Root: root(), Preload: gvisor.DefaultPreload(), Program: os.Getenv("PORTICO_RUNSC")})
		},
	}}
}

// withEngine runs work on an engine with a pool.
func withEngine(ctx context.Context, d engineDriver, pool int, work func(e *sandbox.Engine) error) (err error) {
	driver, err := d.make()
	if err != nil {
		return err
	}
	e := sandbox.New(sandbox.Deps{
		Driver: driver, Pool: sandbox.Pool{Min: pool}, MaxConcurrent: 8, MaxQueue: 1000, MaxPaused: 1000, Queue: sandbox.Queue{Timeout: time.Minute},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err := e.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Stop(context.WithoutCancel(ctx))) }()
	if _, err := firstLine(ctx, e); err != nil { // whatever is made once is made
		return err
	}
	if err := filled(ctx, e, pool); err != nil {
		return err
	}
	return work(e)
}

// filled waits until the pool is full: its own speed is measured apart.
func filled(ctx context.Context, e *sandbox.Engine, pool int) error {
	for e.Stats().Idle < pool {
		if err := lifecycle.Pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// firstLine measures from the request to the first line of user code.
func firstLine(ctx context.Context, e *sandbox.Engine) (time.Duration, error) {
	var took time.Duration
	begin := time.Now()
	r, err := e.Run(ctx, sandbox.Job{
		Code: "import numpy, pandas\nprint('first line')", Timeout: time.Minute,
		Output: func(sandbox.Stream, string) {
			if took == 0 {
				took = time.Since(begin)
			}
		},
	})
	if err == nil && r.Status != sandbox.Completed {
		err = fmt.Errorf("the program ended %s: %s", r.Status, r.Stderr)
	}
	return took, err
}

// baselines are what the host does without any isolation: a Python that does
// nothing, and a plain fork of one.
type baselines struct{ python, fork time.Duration }

func hostBaselines(ctx context.Context) (b baselines, err error) {
	var host []time.Duration
	for range coldStarts {
		took, err := barePython(ctx)
		if err != nil {
			return b, err
		}
		host = append(host, took)
	}
	out, err := exec.CommandContext(ctx, "/usr/bin/python3", "-I", "-c", plainFork).Output()
	if err != nil {
		return b, fmt.Errorf("plain fork: %w", err)
	}
	seconds, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil {
		return b, fmt.Errorf("plain fork: %w", err)
	}
	return baselines{python: percentile(host, 0.5), fork: time.Duration(seconds * float64(time.Second))}, nil
}

// barePython is how long the host's Python takes to do nothing.
func barePython(ctx context.Context) (time.Duration, error) {
	begin := time.Now()
	if out, err := exec.CommandContext(ctx, "/usr/bin/python3", "-c", "pass").CombinedOutput(); err != nil {
		return 0, fmt.Errorf("python3: %w: %s", err, out)
	}
	return time.Since(begin), nil
}

// plainFork prints how long a fork takes that writes a line and ends.
const plainFork = `
import os, statistics, time
took = []
for _ in range(200):
    r, w = os.pipe()
    begin = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        os.write(w, b"first line")
        os._exit(0)
    os.read(r, 100)
    took.append(time.perf_counter() - begin)
    os.waitpid(pid, 0)
    os.close(r); os.close(w)
print(statistics.median(took))`

// benchDriver measures how soon code runs with a driver, and how much.
func benchDriver(ctx context.Context, d engineDriver) ([]result, error) {
	base, err := hostBaselines(ctx)
	if err != nil {
		return nil, err
	}
	var cold, warm []time.Duration
	repeat := func(e *sandbox.Engine, pool, n int, into *[]time.Duration) error {
		for range n {
			if err := filled(ctx, e, pool); err != nil {
				return err
			}
			took, err := firstLine(ctx, e)
			if err != nil {
				return err
			}
			*into = append(*into, took)
		}
		return nil
	}
	if err := withEngine(ctx, d, 0, func(e *sandbox.Engine) error { return repeat(e, 0, coldStarts, &cold) }); err != nil {
		return nil, err
	}
	var memory int64
	rates := map[int]float64{}
	err = withEngine(ctx, d, 8, func(e *sandbox.Engine) (err error) {
		if memory, err = idleMemory(8); err != nil {
			return err
		}
		if err := repeat(e, 8, executions, &warm); err != nil {
			return err
		}
		for _, clients := range []int{1, 8, 32} {
			if rates[clients], err = throughput(ctx, e, clients, d.small); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	refill, err := benchRefill(ctx, d)
	if err != nil {
		return nil, err
	}
	return d.rows(base, measurements{cold: cold, warm: warm, refill: refill, memory: memory, rates: rates}), nil
}

// measurements are those of one driver.
type measurements struct {
	cold, warm, refill []time.Duration
	memory             int64
	rates              map[int]float64 // by the number of clients
}

func (d engineDriver) rows(base baselines, m measurements) []result {
	line := func(what string, took []time.Duration, target, baseline time.Duration) result {
		p50 := percentile(took, 0.5)
		return result{
			what: d.name + ": " + what, measured: ms(p50), baseline: ms(baseline), ratio: times(p50, baseline),
			target: within(target), holds: target == 0 || p50 <= target,
		}
	}
	refill := line("one more interpreter for the pool, p50 (host python3 -c pass)", m.refill, d.refill, base.python)
	if d.refillShare > 0 {
		refill.target = fmt.Sprintf("ratio ≤ %g", d.refillShare)
		refill.holds = float64(percentile(m.refill, 0.5)) <= d.refillShare*float64(base.python)
	}
	results := []result{
		line("request → first line, numpy and pandas ready, pooled, p50 (plain fork)", m.warm, d.warm, base.fork),
		refill,
		line("request → first line, cold, p50 (host python3 -c pass)", m.cold, 350*time.Millisecond, base.python),
		{
			what: d.name + ": memory of one idle interpreter", measured: fmt.Sprintf("%.1f MiB", float64(m.memory)/mebibyte),
			target: atMost(d.memory), holds: d.memory == 0 || m.memory <= d.memory,
		},
	}
	for _, clients := range []int{1, 8, 32} {
		share := m.rates[clients] * base.python.Seconds()
		row := result{
			what:     fmt.Sprintf("%s: small executions per second, %d clients (host python3 -c pass, one after the other)", d.name, clients),
			measured: fmt.Sprintf("%.1f/s", m.rates[clients]), baseline: fmt.Sprintf("%.1f/s", 1/base.python.Seconds()), ratio: fmt.Sprintf("%.2f", share),
		}
		switch {
		case clients != 8:
		case d.rateShare > 0:
			row.target, row.holds = fmt.Sprintf("ratio ≥ %g", d.rateShare), share >= d.rateShare
		case d.perSecond > 0:
			row.target, row.holds = fmt.Sprintf("≥ %.0f/s", d.perSecond), m.rates[clients] >= d.perSecond
		}
		results = append(results, row)
	}
	return results
}

func within(target time.Duration) string {
	if target == 0 {
		return "-"
	}
	return "≤ " + ms(target)
}

func atMost(bytes int64) string {
	if bytes == 0 {
		return "-"
	}
	return fmt.Sprintf("≤ %d MiB", bytes>>20)
}

// throughput runs n small programs from so many clients at once.
func throughput(ctx context.Context, e *sandbox.Engine, clients, n int) (float64, error) {
	var left atomic.Int64
	left.Store(int64(n))
	failed := make(chan error, clients)
	begin := time.Now()
	for range clients {
		go func() {
			for left.Add(-1) >= 0 {
				if _, err := firstLine(ctx, e); err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
	}
	var err error
	for range clients {
		err = errors.Join(err, <-failed)
	}
	return float64(n) / time.Since(begin).Seconds(), err
}

func benchRefill(ctx context.Context, d engineDriver) ([]time.Duration, error) {
	driver, err := d.make()
	if err != nil {
		return nil, err
	}
	if err := driver.Open(ctx); err != nil {
		return nil, err
	}
	var refill []time.Duration
	for n := range coldStarts + 1 {
		begin := time.Now()
		c, err := driver.Start(ctx)
		if err != nil {
			return nil, errors.Join(err, driver.Close())
		}
		if n > 0 { // the first may start what makes the others
			refill = append(refill, time.Since(begin))
		}
		if err := c.Close(); err != nil {
			return nil, errors.Join(err, driver.Close())
		}
	}
	return refill, driver.Close()
}
