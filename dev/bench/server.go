package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/lifecycle"
)

// settleTime lets the server do what it does after its start.
const settleTime = 2 * time.Second

// benchServer measures the program from outside: how soon it answers, and what
// it occupies when idle. The baseline of its start is `portico config`, which
// does nothing but read its configuration.
func benchServer(ctx context.Context) (_ []result, err error) {
	dir, err := os.MkdirTemp("", "portico-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	program := filepath.Join(dir, "portico")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/api").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	begin := time.Now()
	if err := exec.CommandContext(ctx, program, "config").Run(); err != nil {
		return nil, err
	}
	least := time.Since(begin)

	var starts []time.Duration
	var memory int
	for n := range 5 {
		took, kib, err := start(ctx, program, dir, n == 4)
		if err != nil {
			return nil, err
		}
		starts = append(starts, took)
		memory = kib
	}
	p50 := percentile(starts, 0.5)
	return []result{{
		what: "start of the server to ready, SQLite (portico config)", measured: ms(p50), baseline: ms(least),
		ratio: times(p50, least), target: "≤ 300 ms", holds: p50 <= 300*time.Millisecond,
	}, {
		what: "idle memory of the server, without warm sandboxes", measured: fmt.Sprintf("%.1f MiB", float64(memory)/1024), baseline: "-",
		ratio: "-", target: "≤ 60 MiB", holds: memory <= 60<<10,
	}}, nil
}

// start starts the server, waits until it is ready, and reads its memory after
// a while if asked to.
func start(ctx context.Context, program, dir string, measure bool) (took time.Duration, kib int, err error) {
	listen, err := freeAddress(ctx)
	if err != nil {
		return 0, 0, err
	}
	upstream, err := freeAddress(ctx)
	if err != nil {
		return 0, 0, err
	}
	cmd := exec.CommandContext(ctx, program, "serve")
	cmd.Env = []string{
		"DATABASE_URL=sqlite:" + filepath.Join(dir, "portico.db"), "OBJECT_STORAGE_FOLDER=" + dir, "PORTICO_LISTEN=" + listen,
		"DEMO_LISTEN=" + upstream, "SANDBOX_POOL=0", "LOG_LEVEL=error", "HOME=" + os.Getenv("HOME"),
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	defer func() {
		_ = cmd.Process.Kill() // measured; how it ends is of no matter
		_ = cmd.Wait()
	}()
	for !ready(ctx, "http://"+listen+"/readyz") {
		if time.Since(begin) > 10*time.Second {
			return 0, 0, errors.New("the server did not become ready")
		}
		if err := lifecycle.Pause(ctx, time.Millisecond); err != nil {
			return 0, 0, err
		}
	}
	took = time.Since(begin)
	if !measure {
		return took, 0, nil
	}
	if err := lifecycle.Pause(ctx, settleTime); err != nil {
		return 0, 0, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err = strconv.Atoi(strings.Fields(rest)[0])
		}
	}
	return took, kib, err
}

func ready(ctx context.Context, url string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
