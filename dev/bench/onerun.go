package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/portico-run/portico/dev/instance"
)

// before is the commit that calls in one run are compared with where no other is
// named: the last one whose transactions were many statements each.
const before = "231987d"

// benchOneRun measures one run with many callers: against the floor in this
// process, and, as programs of their own, against the same server as it was at
// another commit.
func benchOneRun(ctx context.Context, o options) (rows []result, err error) {
	crowd := func(p *portico) ([]instance.Caller, error) {
		who, err := p.inRuns(ctx)
		return repeated(who[0], workers), err
	}
	err = besideFloor(ctx, 1, crowd, func(p *portico, _ *floor, floorURL string, who []instance.Caller) error {
		s, err := takeTurns(ctx, o, rate(p.url+executeURL, who), rate(floorURL, who))
		if err == nil {
			rows = append(rows, compared(fmt.Sprintf("calls in one run, %d callers (lean floor)", workers), s[0], s[1], 0))
		}
		return err
	})
	if err != nil {
		return rows, err
	}
	dir, err := os.MkdirTemp("", "portico-bench-")
	if err != nil {
		return rows, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	old, remove, err := checkout(ctx, o.against, dir)
	if err != nil {
		return rows, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	var sides []sideFunc
	for name, source := range map[string]string{"old": old, "new": "."} {
		side, stop, err := oneRunOf(ctx, source, filepath.Join(dir, name+"-server"))
		if err != nil {
			return rows, fmt.Errorf("%s server: %w", name, err)
		}
		defer func() { err = errors.Join(err, stop()) }()
		if name == "new" {
			sides = append([]sideFunc{side}, sides...)
		} else {
			sides = append(sides, side)
		}
	}
	s, err := takeTurns(ctx, o, sides...)
	if err != nil {
		return rows, err
	}
	return append(rows, compared(fmt.Sprintf("calls in one run, %d callers (commit %s)", workers, o.against), s[0], s[1], 3)), nil
}

// checkout puts another commit of this repository into a folder.
func checkout(ctx context.Context, commit, dir string) (path string, remove func() error, err error) {
	path = filepath.Join(dir, "checkout")
	if out, err := exec.CommandContext(ctx, "git", "worktree", "add", "--detach", path, commit).CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("commit %s cannot be checked out; name another with -against: %w: %s", commit, err, out)
	}
	return path, func() error {
		return exec.CommandContext(context.WithoutCancel(ctx), "git", "worktree", "remove", "--force", path).Run()
	}, nil
}

// oneRunOf builds and starts the server of a checkout. The side calls in one run
// of one user.
func oneRunOf(ctx context.Context, source, dir string) (side sideFunc, stop func() error, err error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, nil, err
	}
	program, err := instance.Build(ctx, source, dir)
	if err != nil {
		return nil, nil, err
	}
	s, stop, err := serve(ctx, instance.Config{Program: program, Dir: dir, Env: []string{fmt.Sprintf("DATABASE_MAX_CONNECTIONS=%d", connections)}})
	if err != nil {
		return nil, nil, err
	}
	key, err := s.User(ctx, "measured")
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	who, err := instance.Register(ctx, s.URL, key)
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return rate(s.URL+executeURL, repeated(who, workers)), stop, nil
}

// serve starts a server over a PostgreSQL database of its own, unless a database
// is named; stop ends both.
func serve(ctx context.Context, c instance.Config) (s *instance.Server, stop func() error, err error) {
	drop := func(context.Context) error { return nil }
	if c.Database == "" {
		if c.Database, drop, err = instance.NewDatabase(ctx); err != nil {
			return nil, nil, err
		}
	}
	if s, err = instance.Start(ctx, c); err != nil {
		return nil, nil, errors.Join(err, drop(context.WithoutCancel(ctx)))
	}
	return s, func() error {
		ctx := context.WithoutCancel(ctx)
		return errors.Join(s.Stop(ctx), drop(ctx))
	}, nil
}
