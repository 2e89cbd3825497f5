package machine

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/remote/wire"
)

// job is one program of another process, which is asked for all that it needs.
type job struct {
	machine *Machine
	place   *place
	ask     http.RoundTripper // the process
	ctx     context.Context   //nolint:containedctx // ends with the stream
	stop    context.CancelFunc
	signals chan byte // pauses and resumes, in their order
	ended   chan struct{}
	lines   *lines
}

func newJob(m *Machine, p *place) *job {
	return &job{machine: m, place: p, signals: make(chan byte), ended: make(chan struct{})}
}

// leaving sends what is written at once. The answer that it writes to must not be
// written to when its handler has returned.
type leaving struct {
	to    io.Writer
	flush func() error

	mu     sync.Mutex
	closed bool
}

// Write implements io.Writer.
func (l *leaving) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, io.ErrClosedPipe
	}
	n, err := l.to.Write(p)
	if err == nil {
		err = l.flush()
	}
	return n, err
}

func (l *leaving) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// serve runs the program. ctx ends with the stream.
func (j *job) serve(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	leaves := &leaving{to: w, flush: http.NewResponseController(w).Flush}
	w.WriteHeader(http.StatusOK)
	if err := leaves.flush(); err != nil {
		return err
	}
	conn := &wire.Conn{Reader: r.Body, Writer: leaves, End: func() {
		_ = r.Body.Close()
		leaves.close()
	}}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{
		Protocols: &protocols, DisableCompression: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: window, MaxReadFrameSize: frame},
	}
	asks, err := transport.NewClientConn(ctx, "http", "job:80")
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	j.ask = asks
	// The stream goes with its handler, and what reads it must be gone before.
	defer func() {
		_ = conn.Close()
		_ = asks.Close()
	}()
	var work sync.WaitGroup
	defer work.Wait()
	j.ctx, j.stop = context.WithCancel(ctx)
	defer j.stop()
	run, cancel := context.WithCancel(j.ctx)
	defer cancel()
	work.Go(func() { j.hear(cancel) })
	return j.run(run) //nolint:contextcheck // made of ctx
}

// hear hears what the process says, while the job is asked for already. When it says
// nothing any more, the program ends.
func (j *job) hear(cancel context.CancelFunc) {
	defer cancel()
	answer, err := j.get(j.ctx, wire.PathSignals, nil)
	if err != nil {
		return
	}
	defer answer.Body.Close()
	for {
		var b [1]byte
		if _, err := io.ReadFull(answer.Body, b[:]); err != nil {
			return
		}
		if b[0] == wire.Cancel {
			cancel()
			continue
		}
		select {
		case j.signals <- b[0]:
		case <-j.ended:
		case <-j.ctx.Done():
			return
		}
	}
}

// get asks the process for something.
func (j *job) get(ctx context.Context, path string, query url.Values) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+wire.Control+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	answer, err := j.ask.RoundTrip(r)
	if err == nil && answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusNotFound {
		err = errors.Join(fmt.Errorf("%s is answered %s", path, answer.Status), answer.Body.Close())
	}
	return answer, err
}

// post sends the process something, and waits until it has it.
func (j *job) post(path string, body io.Reader) error {
	r, err := http.NewRequestWithContext(j.ctx, http.MethodPost, "http://"+wire.Control+path, body)
	if err != nil {
		return err
	}
	answer, err := j.ask.RoundTrip(r)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// maxSpec is the largest job without its files, and maxFiles how much these may be.
const (
	maxSpec  = 64 << 20
	maxFiles = 256 << 20
)

// read asks for the job.
func (j *job) read(ctx context.Context) (wire.Spec, []sandbox.File, error) {
	var spec wire.Spec
	answer, err := j.get(ctx, wire.PathJob, nil)
	if err != nil {
		return spec, nil, err
	}
	defer answer.Body.Close()
	if err := wire.ReadHead(answer.Body, &spec, maxSpec); err != nil {
		return spec, nil, err
	}
	var files []sandbox.File
	room := int64(maxFiles)
	for _, f := range spec.Files {
		if room -= f.Size; room < 0 || f.Size < 0 {
			return spec, nil, errors.New("the files of a program are too large")
		}
		content, err := wire.ReadBytes(answer.Body, f.Size)
		if err != nil {
			return spec, nil, err
		}
		files = append(files, sandbox.File{Path: f.Path, Content: content})
	}
	return spec, files, nil
}

// run runs the program until it has ended, or ctx does, and sends what came of it.
func (j *job) run(ctx context.Context) error {
	spec, files, err := j.read(ctx)
	if err != nil {
		return err
	}
	x, err := j.machine.deps.Engine.Begin(ctx, j.job(spec, files))
	if err != nil {
		j.close()
		return j.sendError(err)
	}
	paused := false
	for over := false; !over; {
		select {
		case <-x.Done():
			over = true
		case signal := <-j.signals:
			if now := signal == wire.Pause; now != paused {
				paused = now
				if err := j.pause(ctx, x, paused); err != nil {
					j.machine.deps.Logger.ErrorContext(ctx, "a program could not be paused, or go on", "error", err)
				}
			}
		}
	}
	close(j.ended)
	result, err := x.Result()
	if result.Status == sandbox.TimedOut { // the engine of the process says so
		result.Stderr = strings.TrimSuffix(result.Stderr, sandbox.Note("", result.Sentence()))
	}
	j.close()
	if err != nil {
		return j.sendError(err)
	}
	return j.send(result)
}

func (j *job) pause(ctx context.Context, x sandbox.Execution, paused bool) error {
	j.place.pause(paused)
	if paused {
		return x.Pause()
	}
	return x.Resume(ctx)
}

// close sends the last lines, and gives the place back before whoever waits for the
// result sends the next program.
func (j *job) close() {
	if j.lines != nil {
		j.lines.close()
	}
	j.place.leave()
}

// job is what the engine is given.
func (j *job) job(spec wire.Spec, files []sandbox.File) sandbox.Job {
	made := sandbox.Job{
		Code: spec.Code, Language: spec.Language, Args: spec.Args, Env: spec.Env, Timeout: spec.Timeout, Stubs: spec.Stubs, Files: files, Loopback: spec.Loopback,
		Collect: sandbox.Collect{MaxFiles: spec.MaxFiles, MaxBytes: spec.MaxBytes},
	}
	for n, f := range spec.Inputs {
		made.Inputs = append(made.Inputs, sandbox.File{Path: f.Path, Size: f.Size, ReadOnly: f.ReadOnly, Open: func(ctx context.Context) (io.ReadCloser, error) {
			answer, err := j.get(ctx, wire.PathInput, url.Values{"n": {strconv.Itoa(n)}})
			if err != nil {
				return nil, err
			}
			return answer.Body, nil
		}})
	}
	if spec.Known {
		made.Collect.Known = j.known
	}
	if spec.Gateway {
		made.Gateway = &httputil.ReverseProxy{
			Transport: j.ask, FlushInterval: -1, ErrorLog: slog.NewLogLogger(j.machine.deps.Logger.Handler(), slog.LevelDebug),
			Rewrite: func(r *httputil.ProxyRequest) {
				r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", wire.Gateway, wire.Gateway
				r.Out.URL.RawQuery = r.In.URL.RawQuery
				r.Out.Header.Set(wire.HeaderHost, r.In.Host)
			},
		}
	}
	if spec.Output {
		j.lines = newLines(func(body io.Reader) error { return j.post(wire.PathOutput, body) })
		made.Output = j.lines.add
	}
	return made
}

// known is what the process knows of a file.
func (j *job) known(path string) (size int64, digest [sha256.Size]byte, known bool) {
	answer, err := j.get(j.ctx, wire.PathKnown, url.Values{"path": {path}})
	if err != nil {
		return 0, digest, false
	}
	defer answer.Body.Close()
	var k wire.Known
	if answer.StatusCode != http.StatusOK || json.NewDecoder(answer.Body).Decode(&k) != nil || len(k.Digest) != sha256.Size {
		return 0, digest, false
	}
	return k.Size, [sha256.Size]byte(k.Digest), true
}

// sendError says why nothing came of the program.
func (j *job) sendError(err error) error {
	var r wire.Result
	switch {
	case errors.Is(err, sandbox.ErrUnavailable):
		r = wire.Result{NotBegun: true, Lost: words(err)}
	case errs.CodeOf(err) == errs.Invalid:
		e, _ := errors.AsType[*errs.Error](err)
		r.Invalid = e.Detail
	default:
		r.Lost = words(err)
	}
	level := slog.LevelError
	if errs.IsPlanned(err) {
		level = slog.LevelInfo
	}
	j.machine.deps.Logger.Log(j.ctx, level, "a program did not run to its end", "error", err, "cause", errors.Unwrap(err))
	return j.sendResult(r, nil)
}

// words are what an operator is told.
func words(err error) string {
	text := err.Error()
	if cause := errors.Unwrap(err); cause != nil {
		text += " (" + cause.Error() + ")"
	}
	const most = 1000
	return text[:min(len(text), most)]
}

func (j *job) send(r sandbox.Result) error {
	head := wire.Result{
		Stdout: int64(len(r.Stdout)), Stderr: int64(len(r.Stderr)), StdoutDropped: r.StdoutDropped, StderrDropped: r.StderrDropped,
		ExitCode: r.ExitCode, Status: r.Status, Duration: r.Duration, OutputsDropped: r.OutputsDropped,
	}
	body := [][]byte{[]byte(r.Stdout), []byte(r.Stderr)}
	for _, f := range r.Outputs {
		head.Files = append(head.Files, wire.File{Path: f.Path, Size: int64(len(f.Content)), Unchanged: f.Unchanged})
		body = append(body, f.Content)
	}
	return j.sendResult(head, body)
}

func (j *job) sendResult(head wire.Result, body [][]byte) error {
	from, to := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := wire.WriteHead(to, head)
		for _, part := range body {
			if err == nil {
				_, err = to.Write(part)
			}
		}
		_ = to.CloseWithError(err)
	}()
	err := j.post(wire.PathResult, from)
	_ = from.Close()
	<-done
	return err
}
