package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/portico-run/portico/dev/instance"
)

// connections is how many connections to the database both sides have.
const connections = 32

// besideFloor starts a server with so many users and a floor over PostgreSQL.
// callers says who calls both.
func besideFloor(
	ctx context.Context, users int, callers func(*portico) ([]instance.Caller, error), measure func(p *portico, f *floor, floorURL string, who []instance.Caller) error,
) (err error) {
	p, err := startPortico(ctx, users)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	who, err := callers(p)
	if err != nil {
		return err
	}
	store, err := openPostgresStore(ctx, connections)
	if err != nil {
		return err
	}
	f := newFloor(store, p.demo)
	url, end, err := f.serve(ctx, who)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	return measure(p, f, url, who)
}

// againstFloor is the row of the calls per second that the callers reach.
func againstFloor(ctx context.Context, o options, what string, target float64, callers func(*portico) ([]instance.Caller, error)) (rows []result, err error) {
	err = besideFloor(ctx, workers, callers, func(p *portico, _ *floor, floorURL string, who []instance.Caller) error {
		s, err := takeTurns(ctx, o, rate(p.url+executeURL, who), rate(floorURL, who))
		if err == nil {
			rows = append(rows, compared(what, s[0], s[1], target))
		}
		return err
	})
	return rows, err
}

// benchRuns compares the main job with the floor: calls of programs in runs,
// each of a user of its own.
func benchRuns(ctx context.Context, o options) ([]result, error) {
	return againstFloor(ctx, o, fmt.Sprintf("calls in runs, %d users with a run each (lean floor)", workers), 0.8, func(p *portico) ([]instance.Caller, error) {
		return p.inRuns(ctx)
	})
}

// benchExecute compares calls outside runs with the floor.
func benchExecute(ctx context.Context, o options) ([]result, error) {
	return againstFloor(ctx, o, fmt.Sprintf("calls outside runs, %d users (lean floor)", workers), 0.8, func(p *portico) ([]instance.Caller, error) {
		return p.outside(), nil
	})
}

// benchAdded measures what a call in a run takes beyond its upstream and its
// two commits, which the floor does without being asked over HTTP.
func benchAdded(ctx context.Context, o options) (rows []result, err error) {
	one := func(p *portico) ([]instance.Caller, error) { return p.inRuns(ctx) }
	err = besideFloor(ctx, 1, one, func(p *portico, f *floor, _ string, who []instance.Caller) error {
		c := client()
		n := 0
		s, err := takeTurns(ctx, o, median(func(ctx context.Context) error {
			return call(ctx, c, p.url+executeURL, who[0])
		}), median(func(ctx context.Context) error {
			n++
			_, err := f.call(ctx, work{
				id: fmt.Sprintf("ptc:added-%d", n), uid: f.users[who[0].Key], run: who[0].Run, program: who[0].Program, toolset: "demo", tool: "list_cities", input: "{}",
			})
			return err
		}))
		if err != nil {
			return err
		}
		added := make(series, len(s[0]))
		for n := range added {
			added[n] = s[0][n] - s[1][n]
		}
		row := bounded("added latency of a call in a run, p50 (upstream and commits)", added.median(), 1.5, "%.2f ms")
		row.baseline, row.noise = s[1].milliseconds(), s[1].spread()
		row.ratio = fmt.Sprintf("%.2f", s[0].over(s[1]).median())
		rows = append(rows, row)
		return nil
	})
	return rows, err
}

// benchConnections compares the same server with many connections to the
// database and with few.
func benchConnections(ctx context.Context, o options) (_ []result, err error) {
	const few = 8
	var sides []sideFunc
	for _, n := range []int{connections, few} {
		p, err := startPortico(ctx, connections, fmt.Sprintf("DATABASE_MAX_CONNECTIONS=%d", n))
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, p.stop()) }()
		who, err := p.inRuns(ctx)
		if err != nil {
			return nil, err
		}
		sides = append(sides, rate(p.url+executeURL, who))
	}
	s, err := takeTurns(ctx, o, sides...)
	if err != nil {
		return nil, err
	}
	row := compared(fmt.Sprintf("calls in %d runs, %d database connections (%d)", connections, connections, few), s[0], s[1], 0)
	row.target, row.holds = "> 1", s[0].over(s[1]).median() > 1
	return []result{row}, nil
}

// benchSQLite compares calls in runs on SQLite with bare SQLite.
func benchSQLite(ctx context.Context, o options) (_ []result, err error) {
	dir, err := os.MkdirTemp("", "portico-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p, err := startPortico(ctx, workers, "DATABASE_URL=sqlite:"+filepath.Join(dir, "portico.db"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	who, err := p.inRuns(ctx)
	if err != nil {
		return nil, err
	}
	store, err := openSQLiteStore(ctx, filepath.Join(dir, "floor.db"))
	if err != nil {
		return nil, err
	}
	url, end, err := newFloor(store, p.demo).serve(ctx, who)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	s, err := takeTurns(ctx, o, rate(p.url+executeURL, who), rate(url, who))
	if err != nil {
		return nil, err
	}
	return []result{compared("SQLite: calls in runs (bare SQLite)", s[0], s[1], 0.7)}, nil
}
