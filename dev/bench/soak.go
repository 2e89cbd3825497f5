package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/portico-run/portico/internal/lifecycle"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/forkserver"
	"github.com/portico-run/portico/modules/sandbox/guest"
)

// soak is a day of executions in minutes: mixed kinds, several at once, and
// then a look at what they left.
const (
	soakExecutions = 20_000
	soakClients    = 6
)

// soakJob is the nth job of a soak, with the end it must come to.
func soakJob(n int) (sandbox.Job, sandbox.Status) {
	job := sandbox.Job{Timeout: 20 * time.Second}
	switch n % 12 {
	case 0:
		job.Code = "import numpy as np\nprint(np.arange(10).sum())"
	case 1:
		job.Code = "import pandas as pd\npd.DataFrame({'a': [1]}).to_csv('x.csv')"
		job.Collect = sandbox.Collect{MaxFiles: 5, MaxBytes: 1 << 20}
	case 2:
		job.Language, job.Code = sandbox.Bash, "echo $((1 + 1)); sleep 100 & disown"
	case 3:
		job.Code = "1/0"
		return job, sandbox.Failed
	case 4:
		job.Code = "import os\nfor _ in range(5):\n    if os.fork() == 0: os.setsid()\nos._exit(0) if os.getpid() == 2 else __import__('time').sleep(100)"
	case 5:
		job.Code, job.Timeout = "while True: pass", 50*time.Millisecond
		return job, sandbox.TimedOut
	case 6:
		job.Code = "x = bytearray(1 << 40)"
		return job, sandbox.OutOfMemory
	case 7:
		job.Code = "print(sum(await asyncio.gather(*[get(n=n) for n in range(5)])))"
		job.Stubs = []sandbox.Stub{{Identifier: "get", Name: "get", Toolset: "x", Open: true}}
		job.Gateway = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"success":true,"data":{"status":"success","data":1}}`)
		})
	case 8:
		job.Code = "import socket\ns = socket.socket(socket.AF_UNIX); s.bind('/mnt/data/s'); s.listen()\nopen('/dev/shm/x', 'wb').write(b'x' * 1000000)"
	case 9:
		job.Inputs = []sandbox.File{{Path: "in/a.txt", Content: []byte("a")}}
		job.Code = "print(open('in/a.txt').read())"
	case 10:
		job.Code = "import threading, time\nfor _ in range(8): threading.Thread(target=time.sleep, args=(100,), daemon=True).start()"
	default:
		job.Code = "print('x' * 200000)"
	}
	return job, sandbox.Completed
}

// trace is what executions could leave on a machine.
type trace struct {
	processes, mounts, descriptors, goroutines, files int
	memory                                            int64
}

func (t trace) String() string {
	return fmt.Sprintf("%d processes, %d mounts, %d descriptors, %d goroutines, %d files, %.1f MiB", t.processes, t.mounts, t.descriptors, t.goroutines, t.files, float64(t.memory)/(1<<20))
}

// inside counts the processes, whoever's children they are, that see something
// of a folder below another path: those in sandboxes.
func inside(dir string) (n int, err error) {
	tables, err := filepath.Glob("/proc/[0-9]*/mountinfo")
	for _, table := range tables {
		text, err := os.ReadFile(table)
		if err == nil && strings.Contains(string(text), filepath.Base(dir)) { // otherwise it has ended
			n++
		}
	}
	return n, err
}

func look(dir string) (t trace, err error) {
	processes, err := inside(dir)
	if err != nil {
		return t, err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return t, err
	}
	descriptors, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return t, err
	}
	err = filepath.WalkDir(dir, func(string, os.DirEntry, error) error {
		t.files++
		return nil
	})
	runtime.GC()
	own, failed := share(os.Getpid())
	t.processes, t.mounts, t.descriptors = processes, strings.Count(string(mounts), "\n"), len(descriptors)
	t.goroutines, t.memory = runtime.NumGoroutine(), own
	return t, errors.Join(err, failed)
}

// benchSoak runs the executions and compares what is there after the first
// thousandth with what is there after the last.
func benchSoak(ctx context.Context, _ options) (_ []result, err error) {
	dir, err := os.MkdirTemp("", "portico-soak-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	d := engineDriver{make: func() (sandbox.Driver, error) {
		return forkserver.New(guest.Config{Root: root(), RunDir: dir, Preload: forkserver.DefaultPreload()})
	}}
	var before, after trace
	var took time.Duration
	err = withEngine(ctx, d, 8, func(e *sandbox.Engine) error {
		if err := soak(ctx, e, 0, soakExecutions/100); err != nil {
			return err
		}
		if before, err = settled(ctx, e, dir); err != nil {
			return err
		}
		begin := time.Now()
		if err := soak(ctx, e, soakExecutions/100, soakExecutions); err != nil {
			return err
		}
		took = time.Since(begin)
		after, err = settled(ctx, e, dir)
		return err
	})
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "before: %s\nafter:  %s\n", before, after)
	grown := after.memory - before.memory
	clean := after.processes <= before.processes+2 && after.mounts == before.mounts && after.descriptors <= before.descriptors+2 &&
		after.goroutines <= before.goroutines+2 && after.files <= before.files+2
	return []result{{
		what:     fmt.Sprintf("%d executions of mixed kinds: what they leave (what the first %d left)", soakExecutions, soakExecutions/100),
		measured: after.String(), baseline: before.String(), ratio: fmt.Sprintf("%.0f/s", soakExecutions/took.Seconds()), target: "nothing", holds: clean,
	}, {
		what: "growth of the server's memory over them", measured: fmt.Sprintf("%.1f MiB", float64(grown)/(1<<20)), baseline: "-", ratio: "-",
		target: "≤ 16 MiB", holds: grown <= 16<<20,
	}}, nil
}

// settled looks when the pool is full and nothing runs.
func settled(ctx context.Context, e *sandbox.Engine, dir string) (trace, error) {
	if err := filled(ctx, e, 8); err != nil {
		return trace{}, err
	}
	if err := lifecycle.Pause(ctx, 2*time.Second); err != nil { // what was killed is removed meanwhile
		return trace{}, err
	}
	return look(dir)
}

func soak(ctx context.Context, e *sandbox.Engine, from, to int) error {
	var next atomic.Int64
	next.Store(int64(from))
	failed := make(chan error, soakClients)
	for range soakClients {
		go func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= to {
					failed <- nil
					return
				}
				job, want := soakJob(n)
				r, err := e.Run(ctx, job)
				if err == nil && r.Status != want {
					err = fmt.Errorf("execution %d ended %s, not %s: %s", n, r.Status, want, r.Stderr)
				}
				if err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	var err error
	for range soakClients {
		err = errors.Join(err, <-failed)
	}
	return err
}
