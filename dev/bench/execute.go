package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	workers    = 16
	rounds     = 6
	roundTime  = 2 * time.Second
	alone      = 400 // calls one after the other
	executeURL = "/v1/tool/execute"
	callBody   = `{"toolsetKey":"demo","toolName":"list_cities","arguments":{"file_name_title":"x"}}`
)

// benchExecute compares the main job with the least program that does the
// same, under load and alone.
func benchExecute(ctx context.Context) (_ []result, err error) {
	p, err := startPortico(ctx, workers)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	c, err := pgxpool.ParseConfig(p.db)
	if err != nil {
		return nil, err
	}
	c.MaxConns = 32
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	bare := httptest.NewServer(&baseline{pool: pool, upstream: p.demo, client: client()})
	defer bare.Close()

	var ours, theirs float64
	for range rounds { // in turns, so that both see the same machine
		a, err := load(ctx, p.url+executeURL, p.keys)
		if err != nil {
			return nil, err
		}
		b, err := load(ctx, bare.URL, p.keys)
		if err != nil {
			return nil, err
		}
		ours, theirs = ours+a, theirs+b
	}
	a, err := oneByOne(ctx, p.url+executeURL, p.keys[0])
	if err != nil {
		return nil, err
	}
	b, err := oneByOne(ctx, bare.URL, p.keys[0])
	if err != nil {
		return nil, err
	}
	added := percentile(a, 0.5) - percentile(b, 0.5)
	return []result{{
		what: "/v1/tool/execute, calls per second, bare Go + pgx", measured: fmt.Sprintf("%.0f/s", ours/rounds),
		baseline: fmt.Sprintf("%.0f/s", theirs/rounds), ratio: fmt.Sprintf("%.2f", ours/theirs), target: "≥ 0.8", holds: ours/theirs >= 0.8,
	}, {
		what: "added latency of a call, p50", measured: ms(added), baseline: ms(percentile(b, 0.5)),
		ratio: times(percentile(a, 0.5), percentile(b, 0.5)), target: "≤ 2 ms", holds: added <= 2*time.Millisecond,
	}}, nil
}

// load calls as fast as the workers can, each as a user of its own, and
// returns the calls per second.
func load(ctx context.Context, url string, keys []string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, roundTime)
	defer cancel()
	var done atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	begin := time.Now()
	c := client()
	for _, key := range keys {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := call(ctx, c, url, key); err != nil && ctx.Err() == nil {
					failed.Store(&err)
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(done.Load()) / time.Since(begin).Seconds(), nil
}

func oneByOne(ctx context.Context, url, key string) ([]time.Duration, error) {
	c := client()
	took := make([]time.Duration, 0, alone)
	for range alone {
		begin := time.Now()
		if err := call(ctx, c, url, key); err != nil {
			return nil, err
		}
		took = append(took, time.Since(begin))
	}
	return took, nil
}

func call(ctx context.Context, c *http.Client, url, key string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(callBody))
	if err != nil {
		return err
	}
	r.Header.Set("X-API-Key", key)
	r.Header.Set("Content-Type", "application/json")
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
