package sandbox_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/sandbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// driver makes capsules whose programs are functions.
type driver struct {
	mu      sync.Mutex
	program func(ctx context.Context, n int) error
	serve   func(ctx context.Context, job sandbox.Job)
	begin   func() // before every start
	refuse  error
	started int
	open    map[*capsule]bool
	closed  bool
	told    chan struct{} // after every start
}

func newDriver() *driver {
	return &driver{open: map[*capsule]bool{}, told: make(chan struct{}, 1000)}
}

func (d *driver) Open(context.Context) error { return nil }

func (*driver) Languages() []sandbox.Language { return sandbox.Languages() }

func (d *driver) Start(context.Context) (sandbox.Capsule, error) {
	d.mu.Lock()
	begin := d.begin
	d.mu.Unlock()
	if begin != nil {
		begin()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuse != nil {
		return nil, d.refuse
	}
	d.started++
	c := &capsule{driver: d, n: d.started}
	d.open[c] = true
	d.told <- struct{}{}
	return c, nil
}

func (d *driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if len(d.open) > 0 {
		return errors.New(strconv.Itoa(len(d.open)) + " capsules were left open")
	}
	return nil
}

type capsule struct {
	driver *driver
	n      int
	used   atomic.Bool
}

func (c *capsule) Run(ctx context.Context, job sandbox.Job) (sandbox.Result, error) {
	if c.used.Swap(true) {
		return sandbox.Result{}, errors.New("used twice")
	}
	c.driver.mu.Lock()
	program := c.driver.program
	c.driver.mu.Unlock()
	if program != nil {
		if err := program(ctx, c.n); err != nil {
			return sandbox.Result{}, err
		}
	}
	if c.driver.serve != nil {
		c.driver.serve(ctx, job)
	}
	return sandbox.Result{Stdout: job.Code, Status: sandbox.Completed}, nil
}

func (c *capsule) Close() error {
	c.driver.mu.Lock()
	defer c.driver.mu.Unlock()
	delete(c.driver.open, c)
	return nil
}

func start(t *testing.T, d *driver, deps sandbox.Deps) *sandbox.Engine {
	t.Helper()
	deps.Driver, deps.Logger = d, slog.New(slog.DiscardHandler)
	if deps.Queue.Timeout == 0 {
		deps.Queue.Timeout = time.Minute
	}
	e := sandbox.New(deps)
	require.NoError(t, e.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, e.Stop(context.Background())) })
	return e
}

func job() sandbox.Job { return sandbox.Job{Code: "x", Timeout: time.Second} }

func TestEngineFillsItsPoolAndRefillsIt(t *testing.T) {
	t.Parallel()
	d := newDriver()
	e := start(t, d, sandbox.Deps{Pool: sandbox.Pool{Min: 3}, MaxConcurrent: 2})
	for range 3 {
		<-d.told
	}
	for range 5 {
		r, err := e.Run(t.Context(), job())
		require.NoError(t, err)
		require.Equal(t, "x", r.Stdout)
		<-d.told
	}
	s := e.Stats()
	require.Equal(t, 5, s.Jobs)
	require.Zero(t, s.Cold)
}

func TestEngineStartsColdWithoutAPool(t *testing.T) {
	t.Parallel()
	e := start(t, newDriver(), sandbox.Deps{MaxConcurrent: 1})
	_, err := e.Run(t.Context(), job())
	require.NoError(t, err)
	require.Equal(t, 1, e.Stats().Cold)
}

func TestEngineLimitsAndRefuses(t *testing.T) {
	t.Parallel()
	d := newDriver()
	hold, began := make(chan struct{}), make(chan struct{}, 10)
	var running, most atomic.Int64
	d.program = func(context.Context, int) error {
		most.Store(max(most.Load(), running.Add(1)))
		began <- struct{}{}
		<-hold
		running.Add(-1)
		return nil
	}
	e := start(t, d, sandbox.Deps{MaxConcurrent: 2, MaxQueue: 2})
	results := make(chan error, 10)
	for range 4 {
		go func() {
			_, err := e.Run(t.Context(), job())
			results <- err
		}()
	}
	<-began
	<-began
	require.Eventually(t, func() bool { return e.Stats().Queued == 2 }, time.Minute, time.Millisecond)
	_, err := e.Run(t.Context(), job())
	require.ErrorIs(t, err, sandbox.ErrBusy)
	refused, ok := errors.AsType[*errs.Error](err)
	require.True(t, ok)
	require.Equal(t, 429, refused.Code.Status())
	require.Equal(t, time.Second, refused.RetryAfter)
	close(hold)
	for range 4 {
		require.NoError(t, <-results)
	}
	require.Equal(t, int64(2), most.Load())
	require.Equal(t, 1, e.Stats().Refused)
}

func TestEngineDoesNotQueueForever(t *testing.T) {
	t.Parallel()
	d := newDriver()
	began := make(chan struct{}, 1)
	d.program = func(ctx context.Context, _ int) error {
		began <- struct{}{}
		<-ctx.Done()
		return nil
	}
	e := start(t, d, sandbox.Deps{MaxConcurrent: 1, MaxQueue: 5, Queue: sandbox.Queue{Timeout: time.Millisecond}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := e.Run(ctx, job())
		done <- err
	}()
	<-began
	_, err := e.Run(t.Context(), job())
	require.ErrorIs(t, err, sandbox.ErrBusy)
	left, leave := context.WithCancel(t.Context())
	leave()
	_, err = e.Run(left, job())
	require.Error(t, err)
	cancel()
	require.NoError(t, <-done)
	require.Zero(t, e.Stats().Queued)
}

func TestEngineReplacesInterpretersThatDied(t *testing.T) {
	t.Parallel()
	d := newDriver()
	d.program = func(_ context.Context, n int) error {
		if n < 3 {
			return sandbox.ErrCapsuleGone.With(errors.New("died"))
		}
		return nil
	}
	e := start(t, d, sandbox.Deps{MaxConcurrent: 1})
	_, err := e.Run(t.Context(), job())
	require.NoError(t, err)

	// All that wait died together.
	const pool = 6
	full := newDriver()
	full.program = func(_ context.Context, n int) error {
		if n <= pool {
			return sandbox.ErrCapsuleGone.With(errors.New("died"))
		}
		return nil
	}
	waiting := start(t, full, sandbox.Deps{Pool: sandbox.Pool{Min: pool}, MaxConcurrent: 1})
	require.Eventually(t, func() bool { return waiting.Stats().Idle == pool }, time.Minute, time.Millisecond)
	for range 3 {
		_, err = waiting.Run(t.Context(), job())
		require.NoError(t, err)
	}

	d.program = func(context.Context, int) error { return sandbox.ErrCapsuleGone }
	_, err = e.Run(t.Context(), job())
	require.ErrorIs(t, err, sandbox.ErrUnavailable)
}

func TestEngineWithoutAWorkingDriver(t *testing.T) {
	t.Parallel()
	d := newDriver()
	d.refuse = errors.New("no namespaces here")
	e := start(t, d, sandbox.Deps{Pool: sandbox.Pool{Min: 1}, MaxConcurrent: 1})
	_, err := e.Run(t.Context(), job())
	require.ErrorIs(t, err, sandbox.ErrUnavailable)
	require.False(t, errs.IsPlanned(err))
	require.NotContains(t, err.Error(), "no namespaces here")
	require.ErrorContains(t, errors.Unwrap(err), "no namespaces here")
}

func TestEngineStopEndsJobs(t *testing.T) {
	t.Parallel()
	d := newDriver()
	began := make(chan struct{})
	d.program = func(ctx context.Context, _ int) error {
		close(began)
		<-ctx.Done()
		return nil
	}
	deps := sandbox.Deps{Driver: d, Pool: sandbox.Pool{Min: 2}, MaxConcurrent: 1, Logger: slog.New(slog.DiscardHandler), Queue: sandbox.Queue{Timeout: time.Minute}, MaxQueue: 1}
	e := sandbox.New(deps)
	_, err := e.Run(t.Context(), job())
	require.ErrorIs(t, err, sandbox.ErrUnavailable, "before Start")
	require.NoError(t, e.Stop(t.Context()), "before Start")
	require.NoError(t, e.Start(t.Context()))
	require.Error(t, e.Start(t.Context()))
	done := make(chan error, 1)
	go func() {
		_, err := e.Run(t.Context(), job())
		done <- err
	}()
	<-began
	require.NoError(t, e.Stop(t.Context()))
	require.NoError(t, <-done)
	require.True(t, d.closed)
	require.NoError(t, e.Stop(t.Context()))
	_, err = e.Run(t.Context(), job())
	require.ErrorIs(t, err, sandbox.ErrUnavailable)
	require.True(t, errs.IsPlanned(err), "nothing is wrong")
}

// What runs ends, and what comes afterwards does not.
func TestEngineAbandonsJobs(t *testing.T) {
	t.Parallel()
	d := newDriver()
	began, ended := make(chan struct{}, 1), make(chan error, 1)
	d.program = func(ctx context.Context, _ int) error {
		began <- struct{}{}
		<-ctx.Done()
		return sandbox.ErrCapsuleGone
	}
	sandbox.New(sandbox.Deps{Driver: d}).Abandon() // before Start
	e := start(t, d, sandbox.Deps{MaxConcurrent: 1, MaxQueue: 1})
	run := func() {
		_, err := e.Run(t.Context(), job())
		ended <- err
	}
	for range 2 {
		go run()
		<-began
		e.Abandon()
		require.ErrorIs(t, <-ended, sandbox.ErrLost)
	}
	// What waits for its turn has not begun, unless the turn comes at that moment.
	go run()
	<-began
	go run()
	require.Eventually(t, func() bool { return e.Stats().Queued == 1 }, time.Minute, time.Millisecond)
	e.Abandon()
	for range 2 {
		err := <-ended
		require.True(t, errors.Is(err, sandbox.ErrLost) || errors.Is(err, sandbox.ErrUnavailable), "%v", err)
	}
	d.mu.Lock()
	d.program = nil
	d.mu.Unlock()
	run()
	require.NoError(t, <-ended)
}

func TestJobsAreChecked(t *testing.T) {
	t.Parallel()
	e := start(t, newDriver(), sandbox.Deps{MaxConcurrent: 1})
	for name, change := range map[string]func(*sandbox.Job){
		"no timeout":       func(j *sandbox.Job) { j.Timeout = 0 },
		"not UTF-8":        func(j *sandbox.Job) { j.Code = "\xff" },
		"too long":         func(j *sandbox.Job) { j.Code = string(make([]byte, sandbox.MaxCode+1)) },
		"environment name": func(j *sandbox.Job) { j.Env = map[string]string{"A=B": "c"} },
		"environment NUL":  func(j *sandbox.Job) { j.Env = map[string]string{"A": "b\x00"} },
		"absolute file":    func(j *sandbox.Job) { j.Files = []sandbox.File{{Path: "/etc/passwd"}} },
		"file upwards":     func(j *sandbox.Job) { j.Files = []sandbox.File{{Path: "../x"}} },
		"file not clean":   func(j *sandbox.Job) { j.Files = []sandbox.File{{Path: "a/../../x"}} },
	} {
		j := job()
		change(&j)
		_, err := e.Run(t.Context(), j)
		require.ErrorIs(t, err, sandbox.ErrInvalidJob.Do(""), name)
	}
}

// A job that is paused gives its turn to another, and waits for one to go on.
func TestPausedJobsHoldNoTurn(t *testing.T) {
	t.Parallel()
	d := newDriver()
	hold, began := make(chan struct{}), make(chan struct{}, 10)
	d.program = func(_ context.Context, n int) error {
		began <- struct{}{}
		if n == 1 {
			<-hold
		}
		return nil
	}
	var release sync.Once
	t.Cleanup(func() { release.Do(func() { close(hold) }) })
	e := start(t, d, sandbox.Deps{MaxConcurrent: 1, MaxPaused: 1})
	x, err := e.Begin(t.Context(), job())
	require.NoError(t, err)
	<-began
	require.NoError(t, x.Pause())
	require.NoError(t, x.Pause())
	require.Equal(t, 1, e.Stats().Paused)
	_, err = e.Run(t.Context(), job())
	require.NoError(t, err)

	require.NoError(t, x.Resume(t.Context()))
	require.NoError(t, x.Resume(canceled(t)))
	require.Equal(t, 1, e.Stats().Running)
	require.NoError(t, x.Pause())
	release.Do(func() { close(hold) })
	_, err = x.Result()
	require.NoError(t, err)
	require.NoError(t, x.Resume(t.Context()))
	require.NoError(t, x.Pause())
	s := e.Stats()
	require.Zero(t, s.Paused+s.Running)
	_, err = e.Run(t.Context(), job())
	require.NoError(t, err)
}

func canceled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestPausesAreLimited(t *testing.T) {
	t.Parallel()
	d := newDriver()
	d.program = func(ctx context.Context, _ int) error {
		<-ctx.Done()
		return nil
	}
	e := start(t, d, sandbox.Deps{MaxConcurrent: 2, MaxPaused: 1})
	one, err := e.Begin(t.Context(), job())
	require.NoError(t, err)
	require.NoError(t, one.Pause())
	two, err := e.Begin(t.Context(), job())
	require.NoError(t, err)
	require.ErrorIs(t, two.Pause(), sandbox.ErrManyPaused.Do(""))
	three, err := e.Begin(t.Context(), job())
	require.NoError(t, err)
	require.ErrorIs(t, one.Resume(canceled(t)), context.Canceled)
	stats := e.Stats()
	require.Equal(t, []int{2, 1, 3}, []int{stats.Running, stats.Paused, stats.Jobs})
	require.NoError(t, three.Resume(canceled(t)), "it was not paused")
}
