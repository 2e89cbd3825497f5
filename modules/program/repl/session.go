package repl

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/drive"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/sandbox"
)

// session is one interpreter while it lives. It is the gateway of its job.
type session struct {
	place place
	ctx   context.Context //nolint:containedctx // ends with the interpreter
	stop  context.CancelCauseFunc
	turn  chan struct{} // held by who runs code in it
	idle  *time.Timer

	begun   chan struct{} // closed when execution is set
	job     sandbox.Execution
	failed  error // why it did not begin
	ended   chan struct{}
	cells   chan sent
	reports chan told

	// What the interpreter has. live uses it until begun is closed, whoever holds
	// turn afterwards.
	known   map[string][sha256.Size]byte // digests of its files that the canvas has or gets, by name
	has     map[string]time.Time         // files of the canvas, by id: when they were changed
	stubs   []sandbox.Stub
	cellsIn int // cells that it took

	mu      sync.Mutex
	gateway http.Handler // of the code that runs; nil between two
	used    time.Time
}

// sent is a cell on its way; taken is closed when the interpreter has it.
type sent struct {
	sandbox.Cell

	taken chan struct{}
}

// told is the report of a cell, and whether the interpreter ends with it.
type told struct {
	sandbox.Report

	last bool
}

// errGone says that an interpreter ended before it took the code.
var errGone = errors.New("the interpreter is gone")

func newSession(ctx context.Context, p place) *session {
	x := &session{
		place: p, turn: make(chan struct{}, 1), begun: make(chan struct{}), ended: make(chan struct{}), cells: make(chan sent),
		reports: make(chan told, 1), known: map[string][sha256.Size]byte{}, has: map[string]time.Time{}, used: time.Now(),
	}
	// It outlives the request that it begins with.
	x.ctx, x.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	x.idle = time.AfterFunc(time.Hour, func() { x.end(errIdle) })
	x.idle.Stop()
	return x
}

func (x *session) end(cause error) { x.stop(cause) }

// life is how long an interpreter may compute in all; its code has limits of
// its own.
const life = 24 * time.Hour

// live runs the interpreter from its beginning to its end.
func (x *session) live(s Sandbox, first *program.Opened) {
	defer x.idle.Stop() // after the end of ctx: release looks at it
	defer x.stop(nil)
	defer close(x.ended)
	if x.failed = x.load(x.ctx, first); x.failed == nil {
		job := first.Job
		x.job, x.failed = s.Begin(x.ctx, sandbox.Job{
			Owner: x.place.uid, Code: sandbox.Interpreter, Language: sandbox.Python, Env: job.Env, Files: job.Files, Inputs: job.Inputs, Gateway: x, Loopback: job.Loopback, Timeout: life,
		})
		x.holds(first)
	}
	close(x.begun)
	if x.failed == nil {
		<-x.job.Done()
	}
}

// load reads the files of the canvas that the interpreter does not have as they
// are now.
func (x *session) load(ctx context.Context, o *program.Opened) error {
	return o.Load(ctx, func(f drive.File) bool { return x.has[f.FileID].Equal(f.UpdatedAt) })
}

// holds remembers that the interpreter was given what was loaded, and forgets what
// the canvas no longer has.
func (x *session) holds(o *program.Opened) {
	names := map[string]bool{}
	clear(x.has)
	for _, f := range o.Files() {
		x.has[f.FileID], names[f.Name] = f.UpdatedAt, true
	}
	maps.DeleteFunc(x.known, func(name string, _ [sha256.Size]byte) bool { return !names[name] })
	for _, f := range o.Job.Inputs {
		x.known[f.Path] = sha256.Sum256(f.Content)
	}
}

// ServeHTTP answers the interpreter, and the calls of the code that runs in it.
func (x *session) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == sandbox.CellPath {
		x.next(w, r)
		return
	}
	x.mu.Lock()
	g := x.gateway
	x.mu.Unlock()
	if g == nil {
		httpapi.Fail(w, errs.New(errs.Conflict, "The code that makes this call has ended.").Do("Make calls while code runs."))
		return
	}
	g.ServeHTTP(w, r)
}

// maxReport is the largest report, in bytes: two outputs and files, escaped.
const maxReport = 60 << 20

// next takes the report of the cell before and waits for the next one. What
// waits holds nobody up: the job is paused.
func (x *session) next(w http.ResponseWriter, r *http.Request) {
	var report *sandbox.Report
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxReport)).Decode(&report); err != nil {
		x.end(err)
		return
	}
	<-x.begun
	refused := x.job.Pause() // too many wait
	if report != nil {
		select {
		case x.reports <- told{*report, refused != nil}:
		default: // nobody asked for it
		}
	}
	if refused != nil {
		x.end(ErrBusy)
		return
	}
	select {
	case cell := <-x.cells:
		if x.job.Resume(r.Context()) != nil {
			return
		}
		close(cell.taken)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(cell.Cell) // an interpreter that is gone
	case <-r.Context().Done():
	}
}

// grace is how long code may take to notice that its time is up.
const grace = 5 * time.Second

// run runs one piece of code. The caller holds the turn.
func (x *session) run(ctx context.Context, opened *program.Opened, out *Answer) (sandbox.Result, error) {
	select {
	case <-x.begun:
	case <-ctx.Done():
		return sandbox.Result{}, ctx.Err()
	}
	if x.failed != nil {
		return sandbox.Result{}, x.failed
	}
	if err := x.load(ctx, opened); err != nil {
		return sandbox.Result{}, err
	}
	job := opened.Job
	cell := sent{x.cell(job), make(chan struct{})}
	begin := time.Now()
	x.serve(job.Gateway) // before the code has a chance to call anything
	defer x.serve(nil)
	select {
	case x.cells <- cell:
	case <-x.ended:
		return x.lost(out, begin, x.cellsIn == 0)
	case <-ctx.Done():
		return sandbox.Result{}, ctx.Err()
	}
	out.Fresh = x.cellsIn == 0
	x.cellsIn++
	x.stubs = job.Stubs
	x.holds(opened)
	select { // its time begins when it has a turn of the sandbox
	case <-cell.taken:
	case <-x.ended:
	case <-ctx.Done():
	}
	begin = time.Now()
	timer := time.NewTimer(job.Timeout + grace)
	defer timer.Stop()
	select {
	case report := <-x.reports:
		return x.conclude(opened, report, begin, out), nil
	case <-timer.C:
		x.end(errOverTime)
	case <-ctx.Done():
		x.end(context.Cause(ctx))
	case <-x.ended:
	}
	<-x.ended
	select {
	case report := <-x.reports: // it came before the end
		return x.conclude(opened, report, begin, out), nil
	default:
		return x.lost(out, begin, true)
	}
}

// serve sends calls to a handler.
func (x *session) serve(h http.Handler) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.gateway, x.used = h, time.Now()
}

// cell is a job as the interpreter takes it: with the files and the tools that
// it does not have yet.
func (x *session) cell(job sandbox.Job) sandbox.Cell {
	c := sandbox.Cell{Code: job.Code, Timeout: job.Timeout.Seconds()}
	for _, f := range job.Inputs {
		if x.known[f.Path] != sha256.Sum256(f.Content) {
			c.Files = append(c.Files, sandbox.CellFile{Path: f.Path, Content: f.Content})
		}
	}
	if x.cellsIn == 0 || !reflect.DeepEqual(x.stubs, job.Stubs) {
		c.Stubs = append([]sandbox.Stub{}, job.Stubs...)
	}
	return c
}

// conclude makes a result of a report.
func (x *session) conclude(opened *program.Opened, report told, begin time.Time, out *Answer) sandbox.Result {
	job := opened.Job
	x.misses(opened, report.Missing)
	result := sandbox.Result{
		Stdout: plain(report.Stdout), Stderr: plain(report.Stderr), ExitCode: report.Exit, Status: sandbox.Failed, Duration: time.Since(begin),
		OutputsDropped: report.Dropped,
	}
	switch report.Status {
	case "completed":
		result.Status = sandbox.Completed
	case "timed_out":
		result.Status = sandbox.TimedOut
		result.Stderr = sandbox.Note(result.Stderr, result.Sentence())
	case "exited":
		if report.Exit == 0 {
			result.Status = sandbox.Completed
		}
		out.Gone = true
		x.end(errReset)
	}
	out.Gone = out.Gone || report.last || x.ctx.Err() != nil
	for _, f := range report.Files {
		delete(x.known, f.Path) // as it was
		if job.Collect.MaxFiles > len(result.Outputs) {
			x.known[f.Path] = sha256.Sum256(f.Content)
			result.Outputs = append(result.Outputs, sandbox.File{Path: f.Path, Content: f.Content})
		} else if job.Collect.MaxFiles > 0 {
			result.OutputsDropped++
		}
	}
	if job.Collect.MaxFiles == 0 {
		result.OutputsDropped = 0
	}
	for stream, text := range map[sandbox.Stream]string{sandbox.Stdout: result.Stdout, sandbox.Stderr: result.Stderr} {
		for line := range strings.Lines(text) {
			job.Output(stream, strings.TrimSuffix(line, "\n"))
		}
	}
	return result
}

// misses says which files of the canvas could not be written, and remembers that the
// interpreter does not have them: they are sent again.
func (x *session) misses(o *program.Opened, paths []string) {
	for _, f := range o.Files() {
		if slices.Contains(paths, f.Name) {
			delete(x.has, f.FileID)
			delete(x.known, f.Name)
			o.Warn(f.Name + " is not as it is in the canvas: it could not be written. Remove what has its name, or make room.")
		}
	}
}

// plain makes text that every JSON reader and database takes.
func plain(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// lost is the result of code whose interpreter ended, with all that it held.
func (x *session) lost(out *Answer, begin time.Time, took bool) (sandbox.Result, error) {
	if !took {
		return sandbox.Result{}, errGone
	}
	result, err := x.job.Result()
	if err != nil {
		return sandbox.Result{}, err
	}
	out.Gone = true
	result.Duration = time.Since(begin)
	switch cause := context.Cause(x.ctx); {
	case errors.Is(cause, ErrBusy):
		return sandbox.Result{}, ErrBusy
	case errors.Is(cause, errOverTime):
		result.Status, result.ExitCode = sandbox.TimedOut, sandbox.ExitTimedOut
		result.Stderr = sandbox.Note(result.Stderr, result.Sentence())
	case result.Status == sandbox.Completed:
		result.Status, result.ExitCode = sandbox.Killed, sandbox.ExitKilled // it left without a report
	}
	return result, nil
}

// release gives the turn back and lets the interpreter rest.
func (x *session) release(idle time.Duration) {
	x.mu.Lock()
	x.used = time.Now()
	x.mu.Unlock()
	x.idle.Reset(idle)
	if x.ctx.Err() != nil {
		x.idle.Stop() // it may have ended since, and nobody else would
	}
	<-x.turn
}

func (x *session) last() time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.used
}

// resting reports whether nobody runs code in it.
func (x *session) resting() bool { return len(x.turn) == 0 }
