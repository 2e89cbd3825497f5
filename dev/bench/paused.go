package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/portico-run/portico/dev/instance"
)

const (
	pausedPrograms = 50
	pausingStarts  = 500
	// pausingUsers share the starts, so that no user's share of what may be
	// paused decides.
	pausingUsers = 10
)

// pausing asks for a program that pauses at once, because it calls a tool of its
// caller's.
func pausing(ctx context.Context, c *http.Client, server, key string) (took time.Duration, status int, err error) {
	begin := time.Now()
	status, body, err := post(ctx, c, server+"/exec/programmatic", key, map[string]any{"code": "await ask()", "tools": []map[string]string{{"name": "ask"}}})
	if err == nil && status == http.StatusOK && !bytes.Contains(body, []byte(`"tool_call_required"`)) {
		err = fmt.Errorf("the program did not pause: %.300s", body)
	}
	return time.Since(begin), status, err
}

func post(ctx context.Context, c *http.Client, url, key string, body any) (status int, answer []byte, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(text))
	if err != nil {
		return 0, nil, err
	}
	instance.Caller{Key: key}.Header(r.Header)
	resp, err := c.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// benchPaused measures what a program occupies that waits for its caller.
func benchPaused(ctx context.Context, o options) ([]result, error) {
	return outside(o, func(program, dir string) (rows []result, err error) {
		s, stop, err := serve(ctx, instance.Config{Program: program, Dir: dir, Env: []string{"SANDBOX_POOL=2", "SANDBOX_MAX_POOL=2"}})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, stop()) }()
		key, err := s.User(ctx, "pausing")
		if err != nil {
			return nil, err
		}
		c := client()
		one := func() error {
			_, status, err := pausing(ctx, c, s.URL, key)
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("a program that pauses was answered %d", status)
			}
			return err
		}
		// What is made once is made by the first.
		for range 2 {
			if err := one(); err != nil {
				return nil, err
			}
		}
		before, err := settledUsage(ctx, s)
		if err != nil {
			return nil, err
		}
		for range pausedPrograms {
			if err := one(); err != nil {
				return nil, err
			}
		}
		c.CloseIdleConnections()
		after, err := settledUsage(ctx, s)
		if err != nil {
			return nil, err
		}
		each := func(more int64) float64 { return float64(more) / pausedPrograms }
		return []result{
			bounded("a paused program: memory of the server and the sandbox, proportional", each(after.Tree-before.Tree)/mebibyte, 5, "%.1f MiB"),
			bounded("a paused program: descriptors of the server", each(int64(after.Descriptors-before.Descriptors)), 6, "%.1f"),
			bounded("a paused program: goroutines of the server", each(int64(after.Goroutines-before.Goroutines)), 4, "%.1f"),
		}, nil
	})
}

// benchStarts starts many programs at once that all pause.
func benchStarts(ctx context.Context, o options) ([]result, error) {
	return outside(o, func(program, dir string) (rows []result, err error) {
		s, stop, err := serve(ctx, instance.Config{Program: program, Dir: dir, Env: []string{"SANDBOX_POOL=2"}})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, stop()) }()
		keys := make([]string, pausingUsers)
		for n := range keys {
			if keys[n], err = s.User(ctx, fmt.Sprintf("pausing%d", n)); err != nil {
				return nil, err
			}
		}
		var mu sync.Mutex
		var took []time.Duration
		refused := map[int]int{}
		var failed error
		var all sync.WaitGroup
		c := client()
		for n := range pausingStarts {
			all.Go(func() {
				one, status, err := pausing(ctx, c, s.URL, keys[n%len(keys)])
				mu.Lock()
				defer mu.Unlock()
				took = append(took, one)
				if status != http.StatusOK {
					refused[status]++
				}
				failed = errors.Join(failed, err)
			})
		}
		all.Wait()
		if failed != nil {
			return nil, failed
		}
		what := fmt.Sprintf("%d programs started at once that pause: ", pausingStarts)
		p99 := bounded(what+"answer, p99 (p50)", percentile(took, 0.99).Seconds(), 3, "%.2f s")
		p99.baseline = fmt.Sprintf("%.2f s", percentile(took, 0.5).Seconds())
		sum := 0
		for _, n := range refused {
			sum += n
		}
		none := bounded(what+"refused", float64(sum), 0, "%.0f")
		if sum > 0 {
			none.measured = fmt.Sprintf("%d, by status: %v", sum, refused)
			p99.holds = false // a refusal is soon said
		}
		return []result{p99, none}, nil
	})
}
