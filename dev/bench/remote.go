package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portico-run/portico/dev/instance"
)

const (
	remoteUsers = 8
	remoteCalls = 200
)

// callingProgram makes calls of a free tool that does nothing, and prints the median of
// what they take in milliseconds.
const callingProgram = `
import statistics, time

took = []
for _ in range(%d):
    begin = time.perf_counter()
    answer = wait(ms=0)
    assert answer["waited"] == 0, answer
    took.append(time.perf_counter() - begin)
print(1000 * statistics.median(took))
`

// benchRemote measures what it costs that programs run on a sandbox node. The baseline
// is the same server with the same sandbox in its own process. Node and servers are on
// one machine: the way between two comes on top, three times there and back for a program
// that prints, and once for a call. There is no target, since who needs the isolation of
// a node takes it at its price; it is here so that nobody raises the price unseen.
func benchRemote(ctx context.Context, o options) ([]result, error) {
	return outside(o, func(program, dir string) (rows []result, err error) {
		servers, stop, err := ownAndRemote(ctx, program, dir)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, stop()) }()
		small, err := alternate(ctx, o, servers, func(ctx context.Context, r runner) (time.Duration, error) {
			begin := time.Now()
			err := r.printsOne(ctx, r.keys[0])
			return time.Since(begin), err
		})
		if err != nil {
			return nil, err
		}
		calls, err := alternate(ctx, o, servers, func(ctx context.Context, r runner) (time.Duration, error) { return r.callTime(ctx) })
		if err != nil {
			return nil, err
		}
		s, err := takeTurns(ctx, o, servers[1].programRate, servers[0].programRate)
		if err != nil {
			return nil, err
		}
		return []result{
			more("print(1) on a sandbox node, request → answer, p50 added (in the server's own sandbox, p50)", small),
			more("a tool call from a sandbox node, p50 added (from the server's own sandbox, p50)", calls),
			compared(fmt.Sprintf("programs of %d users on a sandbox node (in the server's own sandbox)", remoteUsers), s[0], s[1], 0),
		}, nil
	})
}

// alternate measures both servers one after the other, for as long as o says, and returns
// the median of each. What disturbs one disturbs the other.
func alternate(ctx context.Context, o options, servers []runner, measure func(context.Context, runner) (time.Duration, error)) (medians [2]time.Duration, err error) {
	var took [2][]time.Duration
	for begin := time.Now(); time.Since(begin) < time.Duration(2*o.rounds)*o.time; {
		for n := range took {
			one, err := measure(ctx, servers[n])
			if err != nil {
				return medians, err
			}
			took[n] = append(took[n], one)
		}
	}
	for n := range took {
		medians[n] = percentile(took[n], 0.5)
	}
	return medians, nil
}

// more is the row of what the second of two takes more than the first.
func more(what string, took [2]time.Duration) result {
	return result{what: what, measured: ms(took[1] - took[0]), baseline: ms(took[0]), ratio: times(took[1], took[0])}
}

// runner is a server with users who run programs.
type runner struct {
	url    string
	keys   []string
	client *http.Client
}

// ownAndRemote starts a server that runs programs itself, and one that has a node do so.
func ownAndRemote(ctx context.Context, program, dir string) (servers []runner, stop func() error, err error) {
	var stops []func() error
	stop = func() (err error) {
		for n := range stops {
			err = errors.Join(err, stops[len(stops)-1-n]())
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()
	config := func(name string, env ...string) instance.Config {
		return instance.Config{Program: program, Dir: filepath.Join(dir, name), Env: env}
	}
	begin := func(c instance.Config) (*instance.Server, error) {
		if err := os.Mkdir(c.Dir, 0o755); err != nil {
			return nil, err
		}
		s, end, err := serve(ctx, c)
		if err == nil {
			stops = append(stops, end)
		}
		return s, err
	}
	own, err := begin(config("own", "SANDBOX_POOL=2"))
	if err != nil {
		return nil, stop, err
	}
	// Both servers have one encryption key, and so one key for nodes.
	trust, err := own.Run(ctx, "node", "key")
	if err != nil {
		return nil, stop, err
	}
	c := config("node")
	if err := os.Mkdir(c.Dir, 0o755); err != nil {
		return nil, stop, err
	}
	node, err := instance.StartNode(ctx, c, strings.TrimSpace(string(trust)))
	if err != nil {
		return nil, stop, err
	}
	stops = append(stops, func() error { return node.Stop(context.WithoutCancel(ctx)) })
	remote, err := begin(config("remote", "PORTICO_ROLE=api", "SANDBOX_DRIVER=remote", "SANDBOX_NODES="+node.Address()))
	if err != nil {
		return nil, stop, err
	}
	for _, s := range []*instance.Server{own, remote} {
		r := runner{url: s.URL, client: client()}
		for n := range remoteUsers {
			key, err := s.User(ctx, fmt.Sprint("measured-", n))
			if err != nil {
				return nil, stop, err
			}
			r.keys = append(r.keys, key)
		}
		servers = append(servers, r)
	}
	return servers, stop, nil
}

// run runs a program and returns what it printed.
func (r runner) run(ctx context.Context, key, code string) (string, error) {
	status, text, err := post(ctx, r.client, r.url+"/v1/sandbox/execute", key, map[string]any{"language": "python", "toolsets": []string{"demo"}, "code": code})
	if err != nil {
		return "", err
	}
	var answer struct {
		Data struct{ Stdout, Stderr string }
	}
	if err := json.Unmarshal(text, &answer); err != nil || status != http.StatusOK {
		return "", errors.Join(err, fmt.Errorf("/v1/sandbox/execute answered %d: %.300s", status, text))
	}
	if answer.Data.Stderr != "" {
		return "", fmt.Errorf("the program failed: %s", answer.Data.Stderr)
	}
	return answer.Data.Stdout, nil
}

// printsOne runs the smallest program.
func (r runner) printsOne(ctx context.Context, key string) error {
	out, err := r.run(ctx, key, "print(1)")
	if err == nil && out != "1\n" {
		err = fmt.Errorf("print(1) printed %q", out)
	}
	return err
}

// callTime is the median of what the calls of a program take. The program measures them
// itself.
func (r runner) callTime(ctx context.Context) (time.Duration, error) {
	out, err := r.run(ctx, r.keys[0], fmt.Sprintf(callingProgram, remoteCalls))
	if err != nil {
		return 0, err
	}
	v, err := printed(out, "")
	return time.Duration(v * float64(time.Millisecond)), err
}

// programRate is how many small programs a second all users together have answered.
func (r runner) programRate(ctx context.Context, d time.Duration) (float64, error) {
	var all sync.WaitGroup
	var done atomic.Int64
	failed := make([]error, len(r.keys))
	begin := time.Now()
	for n, key := range r.keys {
		all.Go(func() {
			for failed[n] == nil && time.Since(begin) < d {
				if failed[n] = r.printsOne(ctx, key); failed[n] == nil {
					done.Add(1)
				}
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / time.Since(begin).Seconds(), errors.Join(failed...)
}
