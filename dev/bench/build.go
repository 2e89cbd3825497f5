package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/portico-run/portico/dev/instance"
)

const (
	heaviest   = 10
	sampleTime = 100 * time.Millisecond
)

// benchBuild builds the server as on a machine that never built it.
func benchBuild(ctx context.Context, _ options) (_ []result, err error) {
	dir, err := os.MkdirTemp("", "portico-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	program, graph := filepath.Join(dir, "portico"), filepath.Join(dir, "graph.json")
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build"}, instance.BuildFlags()...), "-debug-actiongraph="+graph, "-o", program, "./cmd/api")...)
	cmd.Env = append(os.Environ(), "GOCACHE="+filepath.Join(dir, "cache"), "GOFLAGS=-buildvcs=false")
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	peak, err := watchMemory(cmd.Process.Pid, ended)
	if err != nil {
		return nil, fmt.Errorf("go build: %w: %s", err, output.String())
	}
	seconds := (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	info, err := os.Stat(program)
	if err != nil {
		return nil, err
	}
	most, err := heaviestPackages(graph)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "the packages that take longest to compile, in processor-seconds:\n%s", most)
	return []result{
		bounded("fresh build, processor time", seconds, 160, "%.0f s"),
		bounded("fresh build, peak memory of all its processes", float64(peak)/(1<<30), 1.3, "%.2f GiB"),
		bounded("stripped binary", float64(info.Size())/1e6, 60, "%.1f MB"),
	}, nil
}

// watchMemory is the most that a process and all below it had in memory at once.
func watchMemory(pid int, ended <-chan error) (peak int64, err error) {
	tick := time.NewTicker(sampleTime)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			peak = max(peak, instance.Resident(pid))
		case err := <-ended:
			return peak, err
		}
	}
}

// heaviestPackages lists what took the compiler longest.
func heaviestPackages(graph string) (string, error) {
	text, err := os.ReadFile(graph)
	if err != nil {
		return "", err
	}
	type action struct {
		Mode, Package   string
		CmdUser, CmdSys time.Duration
	}
	var actions []action
	if err := json.Unmarshal(text, &actions); err != nil {
		return "", err
	}
	slices.SortFunc(actions, func(a, b action) int { return cmp.Compare(b.CmdUser+b.CmdSys, a.CmdUser+a.CmdSys) })
	var lines strings.Builder
	for _, a := range actions[:min(heaviest, len(actions))] {
		fmt.Fprintf(&lines, "  %6.1f  %s %s\n", (a.CmdUser + a.CmdSys).Seconds(), a.Mode, a.Package)
	}
	return lines.String(), nil
}
