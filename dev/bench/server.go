package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/portico-run/portico/dev/instance"
	"github.com/portico-run/portico/internal/lifecycle"
)

// settleTime lets a server do what it does after its start.
const settleTime = 2 * time.Second

// outside measures the built server in a folder that the measurement may use.
func outside(o options, measure func(program, dir string) ([]result, error)) (rows []result, err error) {
	program, err := o.program()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "portico-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return measure(program, dir)
}

// databases are the kinds of databases, each with its memory of an idle server
// in MiB. The URL of the one in a file follows from the folder; another is made.
func databases(dir string) []struct {
	name, url string
	idle      float64
} {
	return []struct {
		name, url string
		idle      float64
	}{{"SQLite", "sqlite:" + filepath.Join(dir, "portico.db"), 45}, {"PostgreSQL", "", 40}}
}

// benchStart measures how soon the program is ready when its database is up to
// date. The baseline is `portico config`, which reads its configuration only.
func benchStart(ctx context.Context, o options) ([]result, error) {
	return outside(o, func(program, dir string) (rows []result, err error) {
		for _, d := range databases(dir) {
			c := instance.Config{Program: program, Dir: dir, Database: d.url}
			if c.Database == "" {
				made, drop, err := instance.NewDatabase(ctx)
				if err != nil {
					return nil, err
				}
				defer func() { err = errors.Join(err, drop(context.WithoutCancel(ctx))) }()
				c.Database = made
			}
			// The round that is not counted makes the tables.
			s, err := takeTurns(ctx, o, func(ctx context.Context, _ time.Duration) (float64, error) {
				s, err := instance.Start(ctx, c)
				if err != nil {
					return 0, err
				}
				return s.Took.Seconds() * 1000, s.Stop(ctx)
			}, func(ctx context.Context, _ time.Duration) (float64, error) {
				begin := time.Now()
				err := exec.CommandContext(ctx, program, "config").Run()
				return time.Since(begin).Seconds() * 1000, err
			})
			if err != nil {
				return nil, err
			}
			row := bounded("start of the server to ready, "+d.name+" that is up to date (portico config)", s[0].median(), 100, "%.0f ms")
			row.measured, row.baseline, row.noise = s[0].milliseconds(), s[1].milliseconds(), s[1].spread()
			row.ratio = fmt.Sprintf("%.2f", s[0].over(s[1]).median())
			rows = append(rows, row)
		}
		return rows, nil
	})
}

// benchIdle measures what the program occupies when it does nothing.
func benchIdle(ctx context.Context, o options) ([]result, error) {
	return outside(o, func(program, dir string) (rows []result, err error) {
		for _, d := range databases(dir) {
			s, stop, err := serve(ctx, instance.Config{Program: program, Dir: dir, Database: d.url})
			if err != nil {
				return nil, err
			}
			u, err := settledUsage(ctx, s)
			if err := errors.Join(err, stop()); err != nil {
				return nil, err
			}
			row := bounded("idle memory of the server, "+d.name+", resident (proportional)", float64(u.RSS)/mebibyte, d.idle, "%.1f MiB")
			row.baseline = fmt.Sprintf("%.1f MiB", float64(u.PSS)/mebibyte)
			rows = append(rows, row)
		}
		return rows, nil
	})
}

func settledUsage(ctx context.Context, s *instance.Server) (instance.Usage, error) {
	if err := lifecycle.Pause(ctx, settleTime); err != nil {
		return instance.Usage{}, err
	}
	return s.Usage(ctx)
}
