package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/portico-run/portico/dev/instance"
)

const (
	idleStreams    = 1000
	idleStreamRuns = 20
)

// benchStreams measures what streams take on which nothing happens.
func benchStreams(ctx context.Context, o options) ([]result, error) {
	return outside(o, func(program, dir string) (rows []result, err error) {
		s, stop, err := serve(ctx, instance.Config{Program: program, Dir: dir})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, stop()) }()
		key, err := s.User(ctx, "watcher")
		if err != nil {
			return nil, err
		}
		var runs []instance.Caller
		for range idleStreamRuns {
			r, err := instance.Register(ctx, s.URL, key)
			if err != nil {
				return nil, err
			}
			runs = append(runs, r)
		}
		before, err := settledUsage(ctx, s)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(ctx)
		var open sync.WaitGroup
		defer open.Wait()
		defer cancel() // the streams end with it
		for n := range idleStreams {
			if err := openStream(ctx, s, runs[n%len(runs)], &open); err != nil {
				return nil, fmt.Errorf("stream %d: %w", n, err)
			}
		}
		after, err := settledUsage(ctx, s)
		if err != nil {
			return nil, err
		}
		row := bounded(fmt.Sprintf("memory of %d idle streams, PostgreSQL (before them)", idleStreams), float64(after.RSS-before.RSS)/mebibyte, 25, "%.1f MiB")
		row.baseline = fmt.Sprintf("%.1f MiB", float64(before.RSS)/mebibyte)
		return []result{row}, nil
	})
}

// openStream watches a run until the context ends, and returns with the first
// bytes.
func openStream(ctx context.Context, s *instance.Server, c instance.Caller, open *sync.WaitGroup) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/v1/action/"+c.Run+"/events", nil)
	if err != nil {
		return err
	}
	instance.Caller{Key: c.Key}.Header(r.Header)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	buffer := make([]byte, 4<<10)
	if _, err := resp.Body.Read(buffer); err != nil || resp.StatusCode != http.StatusOK {
		return errors.Join(err, resp.Body.Close(), fmt.Errorf("%s", resp.Status))
	}
	open.Go(func() {
		defer resp.Body.Close()
		for {
			if _, err := resp.Body.Read(buffer); err != nil {
				return // the measurement is over
			}
		}
	})
	return nil
}
