package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portico-run/portico/dev/instance"
)

const (
	workers    = 16
	executeURL = "/v1/tool/execute"
	// The answer is small, so that what a call costs is not what its data costs.
	callBody = `{"toolsetKey":"demo","toolName":"list_cities","arguments":{"min_population":13000000,"file_name_title":"x"}}`
)

// outside are the users of a server as callers that are in no run.
func (p *portico) outside() []instance.Caller {
	callers := make([]instance.Caller, len(p.keys))
	for n, key := range p.keys {
		callers[n].Key = key
	}
	return callers
}

// inRuns gives each user a run with a program.
func (p *portico) inRuns(ctx context.Context) ([]instance.Caller, error) {
	callers := make([]instance.Caller, len(p.keys))
	for n, key := range p.keys {
		var err error
		if callers[n], err = instance.Register(ctx, p.url, key); err != nil {
			return nil, err
		}
	}
	return callers, nil
}

// repeated is one caller so many times.
func repeated(c instance.Caller, n int) []instance.Caller {
	all := make([]instance.Caller, n)
	for i := range all {
		all[i] = c
	}
	return all
}

// rate is a side that calls as fast as all callers together can.
func rate(url string, callers []instance.Caller) sideFunc {
	c := client()
	return func(ctx context.Context, d time.Duration) (float64, error) {
		begin := time.Now()
		done, err := load(ctx, c, url, callers, d)
		return float64(done) / time.Since(begin).Seconds(), err
	}
}

// load calls for so long and returns how many calls were answered.
func load(ctx context.Context, c *http.Client, url string, callers []instance.Caller, d time.Duration) (int64, error) {
	deadline := time.Now().Add(d)
	var done atomic.Int64
	var all sync.WaitGroup
	failed := make(chan error, len(callers))
	for _, caller := range callers {
		all.Go(func() {
			for time.Now().Before(deadline) {
				if err := call(ctx, c, url, caller); err != nil {
					failed <- err
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	close(failed)
	var problems []error
	for err := range failed {
		problems = append(problems, err)
	}
	return done.Load(), errors.Join(problems...)
}

// median is a side that calls one after the other, and is the median of the
// time that takes in milliseconds.
func median(work func(ctx context.Context) error) sideFunc {
	return func(ctx context.Context, d time.Duration) (float64, error) {
		var took []time.Duration
		for begin := time.Now(); time.Since(begin) < d || len(took) == 0; {
			one := time.Now()
			if err := work(ctx); err != nil {
				return 0, err
			}
			took = append(took, time.Since(one))
		}
		return percentile(took, 0.5).Seconds() * 1000, nil
	}
}

func call(ctx context.Context, c *http.Client, url string, caller instance.Caller) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(callBody))
	if err != nil {
		return err
	}
	caller.Header(r.Header)
	resp, err := c.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || !strings.Contains(string(body), `"status":"success"`)) {
		err = fmt.Errorf("%s: %.200s", resp.Status, body)
	}
	return err
}

// client keeps as many connections alive as there are workers.
func client() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2000}}
}
