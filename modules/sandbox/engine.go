package sandbox

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/errs"
)

// Deps is what an engine needs.
type Deps struct {
	Driver Driver
	Pool   Pool
	// MaxConcurrent is how many jobs run at once, and MaxQueue how many more may
	// wait for their turn.
	MaxConcurrent int
	MaxQueue      int
	Queue         Queue
	// MaxPaused is how many jobs may be paused besides those that run. Jobs that
	// will pause may wait for their first turn in what is left of it, too, and as
	// long as they may run.
	MaxPaused int
	// PerOwner is how many jobs of one owner may run, wait and be paused; what
	// is zero is a quarter of what all may, rounded up.
	PerOwner Counts
	Logger   *slog.Logger
}

// Queue bounds the wait for a first turn.
type Queue struct {
	Timeout time.Duration
	// MaxBytes is how much memory all jobs that wait may hold, and one owner's a
	// quarter of it; 64 MiB when it is zero. One job may always wait.
	MaxBytes int64
	// Admit, if set, counts a job of an owner in among those of all processes, of
	// which there may be so many, or returns why not. It calls leave when it has ended.
	Admit func(ctx context.Context, owner string, most int) (leave func(), err error)
}

// maxQueueBytes is how much memory jobs that wait hold where nothing else is said.
const maxQueueBytes = 64 << 20

// Pool is how many interpreters wait, ready, for the next jobs: Min at least.
// When a job finds none ready although the pool was full before, it grows, to
// Max at most. Each ShrinkEvery, 2 s when it is zero, it loses those that were
// not needed since.
type Pool struct {
	Min, Max    int
	ShrinkEvery time.Duration
}

// Engine runs jobs in interpreters that are ready before they are needed. It
// is safe for concurrent use.
type Engine struct {
	deps  Deps
	turns *turns
	idle  chan Capsule
	taken chan struct{} // told when an idle capsule was taken

	mu      sync.Mutex
	started bool
	ctx     context.Context //nolint:containedctx // ends when the engine stops
	jobs    context.Context //nolint:containedctx // ends when the engine stops, or all jobs are given up
	abandon context.CancelFunc
	stop    context.CancelFunc
	work    sync.WaitGroup // jobs, closings and the refiller
	stats   Stats
	filled  bool // the pool was full since it last grew
	spare   int  // idle capsules that no job needed since the pool was last shrunk
}

// Stats is what an engine does at a moment, and has done.
type Stats struct {
	Counts

	Idle    int // interpreters that wait
	Pool    int // interpreters that are to wait, for the demand there is
	Jobs    int // that have run
	Cold    int // of them, jobs that found no interpreter ready
	Refused int // jobs that found no place in the queue, or waited too long
}

// New returns an engine that does nothing until Start.
func New(d Deps) *Engine {
	d.Pool.Min, d.MaxConcurrent = max(d.Pool.Min, 0), max(d.MaxConcurrent, 1)
	d.Pool.Max = max(d.Pool.Max, d.Pool.Min)
	d.Pool.ShrinkEvery, d.Queue.MaxBytes = cmp.Or(d.Pool.ShrinkEvery, shrinkEvery), cmp.Or(d.Queue.MaxBytes, maxQueueBytes)
	whole := Counts{Running: d.MaxConcurrent, Queued: d.MaxQueue, Paused: d.MaxPaused}
	return &Engine{
		deps: d, turns: newTurns(whole, d.PerOwner, d.Queue.MaxBytes), idle: make(chan Capsule, d.Pool.Max), taken: make(chan struct{}, 1),
		stats: Stats{Pool: d.Pool.Min},
	}
}

// Start prepares the driver and begins to fill the pool in the background.
func (e *Engine) Start(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.started {
		return errors.New("the sandbox engine was started before")
	}
	if err := e.deps.Driver.Open(ctx); err != nil {
		return err
	}
	e.ctx, e.stop = context.WithCancel(context.WithoutCancel(ctx))
	e.jobs, e.abandon = context.WithCancel(e.ctx)
	e.started = true
	e.work.Go(func() { e.refill(e.ctx) })
	return nil
}

// Abandon ends every job, which is lost. Others may begin.
func (e *Engine) Abandon() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stop != nil {
		e.abandon()
		e.jobs, e.abandon = context.WithCancel(e.ctx)
	}
}

// Stop ends every job, which answers Cancelled, and every interpreter, and
// returns when nothing of them is left.
func (e *Engine) Stop(context.Context) error {
	e.mu.Lock()
	stop := e.stop
	e.stop = nil
	e.mu.Unlock()
	if stop == nil {
		return nil
	}
	stop()
	e.work.Wait()
	var failed []error
	for {
		select {
		case c := <-e.idle:
			failed = append(failed, c.Close())
		default:
			return errors.Join(append(failed, e.deps.Driver.Close())...)
		}
	}
}

// Languages are those that programs may be written in here; none when the
// sandbox is not set up.
func (e *Engine) Languages() []Language { return e.deps.Driver.Languages() }

// Stats returns what the engine does now.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.Counts, s.Idle = e.turns.counts(), len(e.idle)
	return s
}

// Of returns the jobs that an owner has in this process, and how many of each
// there may be.
func (e *Engine) Of(owner string) (held, most Counts) { return e.turns.held(owner), e.turns.share }

// Most is how many jobs of all owners there may be.
func (e *Engine) Most() Counts { return e.turns.whole }

func (e *Engine) count(change func(s *Stats)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(&e.stats)
}

// Run runs a job and returns when nothing of it runs any more. It returns
// ErrBusy when too many jobs wait, ErrOwnerBusy when too many of its owner do,
// ErrUnavailable when no interpreter can be started, and ErrInvalidJob.
func (e *Engine) Run(ctx context.Context, job Job) (Result, error) {
	x, err := e.Begin(ctx, job)
	if err != nil {
		return Result{}, err
	}
	<-x.Done()
	return x.Result()
}

// Begin starts a job as soon as it is its turn, and returns then. The job ends
// when ctx does. Its errors are those of Run, except ErrUnavailable, which may
// also come from Result.
func (e *Engine) Begin(ctx context.Context, job Job) (Execution, error) {
	if err := job.Validate(); err != nil {
		return nil, err
	}
	engine, ok := e.enter()
	if !ok {
		return nil, ErrUnavailable.Do("The server is stopping; send the program again.").AsPlanned()
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(engine, cancel) //nolint:contextcheck // the engine may end before the caller
	out, err := e.admit(ctx, job.Owner)
	leave := func() {
		out()
		stop()
		cancel()
		e.work.Done()
	}
	if err != nil {
		leave()
		return nil, err
	}
	if err := e.turns.take(ctx, e.wish(job)); err != nil {
		switch {
		case ctx.Err() == nil:
			e.count(func(s *Stats) { s.Refused++ })
		case engine.Err() != nil:
			err = ErrUnavailable.Do("It had not begun; send the program again.").AsPlanned()
		}
		leave()
		return nil, err
	}
	e.count(func(s *Stats) { s.Jobs++ })
	job.Clock = NewClock()
	x := &execution{turns: e.turns, owner: job.Owner, clock: job.Clock, done: make(chan struct{})}
	go func() {
		defer leave()
		x.result, x.err = e.run(ctx, job)
		if x.err == nil && x.result.Status == Cancelled && engine.Err() != nil && e.ctx.Err() == nil {
			x.err = lost(errors.New("this process gave up what it ran"))
		}
		x.end()
	}()
	return x, nil
}

// admit counts a job in among those that its owner has in all processes: as many as
// may run, wait and be paused in one.
func (e *Engine) admit(ctx context.Context, owner string) (leave func(), err error) {
	if owner == "" || e.deps.Queue.Admit == nil {
		return func() {}, nil
	}
	share := e.turns.share
	leave, err = e.deps.Queue.Admit(ctx, owner, share.Running+share.Queued+share.Paused)
	if err != nil {
		if ctx.Err() == nil {
			e.count(func(s *Stats) { s.Refused++ })
		}
		return func() {}, err
	}
	return leave, nil
}

// wish is what a job asks for before its first turn.
func (e *Engine) wish(job Job) wish {
	w := wish{owner: job.Owner, bytes: job.held(), patience: e.deps.Queue.Timeout}
	if job.Pauses {
		w.starting = job.Timeout
	}
	return w
}

// enter counts a job in, unless the engine does not run.
func (e *Engine) enter() (context.Context, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stop == nil {
		return nil, false
	}
	e.work.Add(1)
	return e.jobs, true
}

// maxAttempts is how many interpreters a job tries that die before they took
// it. The last one is started for it: those that wait may all have died together.
const maxAttempts = 3

func (e *Engine) run(ctx context.Context, job Job) (Result, error) {
	var gone error
	for attempt := range maxAttempts {
		if ctx.Err() != nil {
			break // no code of a job that was ended runs
		}
		c, err := e.capsule(ctx, attempt == maxAttempts-1)
		if err != nil && ctx.Err() != nil {
			break
		}
		if err != nil {
			return Result{}, unavailable(err)
		}
		result, err := c.Run(ctx, job)
		e.discard(c)
		if err == nil && result.Status == TimedOut {
			// Nothing else that the program printed says why it stops there.
			result.Stderr = Note(result.Stderr, result.Sentence())
		}
		if !errors.Is(err, ErrCapsuleGone) {
			return result, lost(err)
		}
		gone = err
		e.deps.Logger.WarnContext(ctx, "an interpreter died before it took its program", "error", errors.Unwrap(err))
	}
	if ctx.Err() != nil {
		return Result{Status: Cancelled, ExitCode: ExitKilled}, nil //nolint:nilerr // the caller ended it
	}
	return Result{}, unavailable(gone)
}

// lost makes a fault of a driver an answer. What refuses a job keeps its words.
func lost(err error) error {
	if _, known := errors.AsType[*errs.Error](err); err == nil || known {
		return err
	}
	return ErrLost.Do("Find out what it had done before you run it again.").With(err)
}

func unavailable(err error) error {
	return ErrUnavailable.Do("The operator finds out why with: portico doctor").With(err)
}
