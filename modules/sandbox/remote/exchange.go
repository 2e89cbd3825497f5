package remote

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portico-run/portico/internal/lifecycle"
	"github.com/portico-run/portico/modules/sandbox"
)

// exchange is one job at a node: it answers what the node asks for it, and nothing else.
type exchange struct {
	job    sandbox.Job
	limit  int64 // of each output
	times  Times
	logger *slog.Logger
	base   context.Context //nolint:containedctx // that of the gateway's calls
	cancel context.CancelFunc

	mu       sync.Mutex
	phase    phase
	closed   bool  // nothing is answered any more
	used     bool  // a call or a line came, so that code ran
	inputs   []int // how often each was read
	asked    []int // and how often it was asked for
	printing bool  // output came, and has not ended
	paused   bool  // what the node is told
	ended    bool
	answers  sync.WaitGroup
	output   sync.WaitGroup

	touched atomic.Int64
	poke    chan struct{} // there is something to tell the node
	change  chan struct{} // the phase changed
	over    chan outcome  // how it ended; the first counts
}

type phase int

// The phases of an exchange.
const (
	offered phase = iota // the node has nothing of the job
	given                // the node has the job, not all of its inputs
	running
	ending // the result arrives
)

// outcome is how an exchange ended.
type outcome struct {
	result sandbox.Result
	err    error
	broken string // why the node is given up; empty when it did what it should
}

func newExchange(ctx context.Context, d Deps, job sandbox.Job) *exchange {
	x := &exchange{
		job: job, limit: d.Output, times: d.Client.config.Times, logger: d.Logger, inputs: make([]int, len(job.Inputs)), asked: make([]int, len(job.Inputs)),
		poke: make(chan struct{}, 1), change: make(chan struct{}, 1), over: make(chan outcome, 1),
	}
	x.base, x.cancel = context.WithCancel(context.WithoutCancel(ctx))
	x.touch()
	return x
}

const (
	// maxStreams is how many requests of a node there may be at once: the calls that a
	// program may have under way in each of its three ways, and those of the node itself.
	maxStreams = 256
	maxHeader  = 128 << 10
	// wholeWindow is how much of all streams of a job may be under way.
	wholeWindow = 1 << 20
	// settleTimeout bounds the wait for gateway calls that do not end when their context
	// does.
	settleTimeout = 5 * time.Second
)

// run answers the node until the job is over there. It returns when no call of it is
// left. closing breaks it off.
func (x *exchange) run(ctx context.Context, conn net.Conn, closing <-chan struct{}) outcome {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	broke := make(chan struct{})
	server := &http.Server{
		Handler: http.HandlerFunc(x.serve), Protocols: &protocols, BaseContext: func(net.Listener) context.Context { return x.base }, MaxHeaderBytes: maxHeader, ReadHeaderTimeout: x.times.Idle,
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: maxStreams, MaxReadFrameSize: frame, MaxReceiveBufferPerStream: window, MaxReceiveBufferPerConnection: wholeWindow},
		ErrorLog: slog.NewLogLogger(x.logger.Handler(), slog.LevelDebug),
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed {
				close(broke)
			}
		},
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listen(conn)) // until it is closed
	}()
	out := x.await(ctx, broke, closing)
	x.mu.Lock()
	x.closed = true
	x.mu.Unlock()
	x.cancel()
	_ = server.Close()
	_ = conn.Close() // the server may not have taken it
	<-served
	x.output.Wait()
	settled, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	_ = lifecycle.Wait(settled, &x.answers)
	return out
}

// await returns how the job ended.
func (x *exchange) await(ctx context.Context, broke, closing <-chan struct{}) outcome {
	timer := time.NewTimer(x.times.Idle)
	defer timer.Stop()
	cancelled := ctx.Done()
	var told time.Time // when the node was told to end the job
	for {
		select {
		case out := <-x.over:
			return x.judge(ctx, out)
		case <-broke:
			select {
			case out := <-x.over: // its last words
				return x.judge(ctx, out)
			default:
				return x.lost("the connection to it broke")
			}
		case <-closing:
			return x.lost("the sandbox was closed here")
		case <-cancelled:
			cancelled, told = nil, time.Now()
			x.tell(func() { x.ended = true })
		case <-x.job.Clock.Changed():
			_, paused := x.job.Clock.Elapsed()
			x.tell(func() { x.paused = paused })
		case <-x.change:
		case <-timer.C:
		}
		left, out := x.due(told)
		if left <= 0 {
			return out
		}
		timer.Reset(left)
	}
}

// judge keeps a node from ending what nobody ended.
func (x *exchange) judge(ctx context.Context, out outcome) outcome {
	if out.err == nil && out.result.Status == sandbox.Cancelled && ctx.Err() == nil {
		return x.lost("it ended the program")
	}
	return out
}

// tell changes what the node is told.
func (x *exchange) tell(change func()) {
	x.mu.Lock()
	change()
	x.mu.Unlock()
	wake(x.poke)
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it will look anyway
	}
}

// touch notes that the node did something of what it was given.
func (x *exchange) touch() { x.touched.Store(time.Now().UnixNano()) }

func (x *exchange) quiet() time.Duration {
	return time.Duration(time.Now().UnixNano() - x.touched.Load())
}

// paused jobs are ended by who paused them.
const longest = time.Hour

// due is how long the node has left for what it does, and how the job ends when that is
// nothing.
func (x *exchange) due(told time.Time) (time.Duration, outcome) {
	x.mu.Lock()
	now := x.phase
	x.mu.Unlock()
	took, paused := x.job.Clock.Elapsed()
	switch {
	case now == offered || now == ending || now == given && told.IsZero():
		return x.times.Idle - x.quiet(), x.lost("it does nothing of what it was given")
	case !told.IsZero():
		return 2*x.times.Accept - time.Since(told), outcome{result: sandbox.Result{Status: sandbox.Cancelled, ExitCode: sandbox.ExitKilled, Duration: took}, broken: "it does not end a program"}
	case paused:
		return longest, outcome{}
	}
	return x.times.Late + max(x.job.Timeout-took, -x.quiet()), outcome{
		result: sandbox.Result{Status: sandbox.TimedOut, ExitCode: sandbox.ExitTimedOut, Duration: took}, broken: "it does not end a program at its time limit",
	}
}

// lost is the outcome of a job that the node will say no more of. Only one that the node
// was not given may run again.
func (x *exchange) lost(why string) outcome {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.phase == offered {
		return outcome{err: sandbox.ErrCapsuleGone.With(errors.New(why)), broken: why}
	}
	took, _ := x.job.Clock.Elapsed()
	return outcome{broken: why, result: sandbox.Result{
		Status: sandbox.Killed, ExitCode: sandbox.ExitKilled, Duration: took,
		Stderr: sandbox.Note("", "The program was lost: the sandbox node that ran it is gone ("+why+"). Its output is not whole, and what it had done is not undone."),
	}}
}

// finish ends the exchange, unless it has ended.
func (x *exchange) finish(out outcome) {
	select {
	case x.over <- out:
	default:
	}
}
