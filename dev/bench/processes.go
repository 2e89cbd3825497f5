package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/portico-run/portico/dev/instance"
)

// processes is how many servers share a database at most.
const processes = 3

// benchProcesses measures calls in runs, which are charged, over one, two and three
// servers that share a PostgreSQL database. The baseline is what the database does by
// itself: the two transactions of each call in their leanest form, from this process,
// without HTTP and upstream. All of them share the machine with each other, the
// database and who asks.
func benchProcesses(ctx context.Context, o options) (rows []result, err error) {
	dir, err := os.MkdirTemp("", "portico-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	program, err := o.program()
	if err != nil {
		return nil, err
	}
	database, drop, err := instance.NewDatabase(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, drop(context.WithoutCancel(ctx))) }()
	var servers []*instance.Server
	defer func() {
		for _, s := range servers {
			err = errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
		}
	}()
	for n := range processes {
		place, err := instance.FreeAddress(ctx)
		if err != nil {
			return nil, err
		}
		c := instance.Config{Program: program, Dir: filepath.Join(dir, fmt.Sprint(n)), Database: database, Env: []string{
			"PORTICO_PEER_LISTEN=" + place, fmt.Sprintf("DATABASE_MAX_CONNECTIONS=%d", connections/2), "SANDBOX_POOL=0",
		}}
		if err := os.Mkdir(c.Dir, 0o755); err != nil {
			return nil, err
		}
		s, err := instance.Start(ctx, c)
		if err != nil {
			return nil, err
		}
		servers = append(servers, s)
	}
	who := make([]instance.Caller, workers)
	for n := range who {
		key, err := servers[0].User(ctx, fmt.Sprint("measured-", n))
		if err != nil {
			return nil, err
		}
		if who[n], err = instance.Register(ctx, servers[0].URL, key); err != nil {
			return nil, err
		}
	}
	alone, end, err := databaseAlone(ctx, who)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	sides := []sideFunc{alone}
	for n := range processes {
		sides = append(sides, overServers(servers[:n+1], who))
	}
	s, err := takeTurns(ctx, o, sides...)
	if err != nil {
		return nil, err
	}
	for n, ours := range s[1:] {
		what := fmt.Sprintf("calls in runs, %d users, %s (the database alone)", workers, strings.TrimSuffix(fmt.Sprintf("%d processes", n+1), map[bool]string{true: "es"}[n == 0]))
		rows = append(rows, compared(what, ours, s[0], 0))
	}
	return append(rows, compared(fmt.Sprintf("the same, %d processes (1 process)", processes), s[processes], s[1], 0)), nil
}

// overServers shares callers among servers, and adds up what they reach.
func overServers(servers []*instance.Server, who []instance.Caller) sideFunc {
	var sides []sideFunc
	for n, s := range servers {
		var own []instance.Caller
		for i := n; i < len(who); i += len(servers) {
			own = append(own, who[i])
		}
		sides = append(sides, rate(s.URL+executeURL, own))
	}
	return func(ctx context.Context, d time.Duration) (float64, error) {
		var all errgroup.Group
		reached := make([]float64, len(sides))
		for n, side := range sides {
			all.Go(func() (err error) {
				reached[n], err = side(ctx, d)
				return err
			})
		}
		err := all.Wait()
		total := 0.0
		for _, r := range reached {
			total += r
		}
		return total, err
	}
}

// databaseAlone makes the transactions of calls and nothing else, from as many
// goroutines as there are callers.
func databaseAlone(ctx context.Context, who []instance.Caller) (side sideFunc, end func() error, err error) {
	store, err := openPostgresStore(ctx, connections)
	if err != nil {
		return nil, nil, err
	}
	for n, c := range who {
		if err := store.seed(ctx, fmt.Sprint("u", n), c); err != nil {
			return nil, nil, errors.Join(err, store.close()) //nolint:contextcheck // it is closed whatever ends
		}
	}
	side = func(ctx context.Context, d time.Duration) (float64, error) {
		var all errgroup.Group
		var done atomic.Int64
		begin := time.Now()
		for n, c := range who {
			all.Go(func() error {
				for time.Since(begin) < d {
					w := work{
						id: "ptc:" + uuid.NewString(), uid: fmt.Sprint("u", n), run: c.Run, program: c.Program, toolset: "demo", tool: "list_cities",
						input: "{}", output: `{"cities":[]}`, at: time.Now(),
					}
					if err := errors.Join(store.begin(ctx, w), store.settle(ctx, w)); err != nil {
						return err
					}
					done.Add(1)
				}
				return nil
			})
		}
		err := all.Wait()
		return float64(done.Load()) / time.Since(begin).Seconds(), err
	}
	return side, store.close, nil
}
