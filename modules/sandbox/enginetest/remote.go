package enginetest

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"testing"

	"github.com/portico-run/portico/modules/sandbox"
)

// Remote puts a sandbox behind a TCP connection: nothing of a job but bytes
// passes between whoever begins it and the sandbox that runs it.
func Remote(t *testing.T, inner Sandbox) Sandbox {
	t.Helper()
	n := &node{inner: inner, jobs: map[string]*remoteJob{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /begin", n.begin)
	mux.HandleFunc("POST /end/{id}", n.with(func(j *remoteJob, _ *http.Request) error { j.cancel(); return nil }))
	mux.HandleFunc("POST /pause/{id}", n.with(func(j *remoteJob, _ *http.Request) error { return j.Pause() }))
	mux.HandleFunc("POST /resume/{id}", n.with(func(j *remoteJob, r *http.Request) error { return j.Resume(r.Context()) }))
	mux.HandleFunc("POST /result/{id}", n.result)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &remote{inner: inner, client: server.Client(), url: server.URL}
}

// node is the side of the sandbox.
type node struct {
	inner Sandbox

	mu   sync.Mutex
	jobs map[string]*remoteJob
}

type remoteJob struct {
	sandbox.Execution

	cancel context.CancelFunc
}

// begun answers a beginning.
type begun struct {
	ID     string
	Failed *wireError
}

func (n *node) begin(w http.ResponseWriter, r *http.Request) {
	var in wireJob
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	job := in.job()
	if in.Back != "" {
		back, err := url.Parse(in.Back)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		job.Gateway = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(back) }, FlushInterval: -1, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	if in.Lines != "" {
		job.Output = func(s sandbox.Stream, line string) {
			_ = post(ctx, http.DefaultClient, in.Lines+"?stream="+string(s), line, nil) // nobody listens any more
		}
	}
	stop := context.AfterFunc(r.Context(), cancel) // until it has begun
	x, err := n.inner.Begin(ctx, job)
	stop()
	if err != nil {
		cancel()
		write(w, begun{Failed: toWireError(err)})
		return
	}
	n.mu.Lock()
	id := strconv.Itoa(len(n.jobs))
	n.jobs[id] = &remoteJob{x, cancel}
	n.mu.Unlock()
	write(w, begun{ID: id})
}

func (n *node) find(r *http.Request) *remoteJob {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.jobs[r.PathValue("id")]
}

func (n *node) with(do func(j *remoteJob, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { write(w, toWireError(do(n.find(r), r))) }
}

func (n *node) result(w http.ResponseWriter, r *http.Request) {
	j := n.find(r)
	result, err := j.Result()
	j.cancel()
	out := wireResult{Result: result, Failed: toWireError(err)}
	out.Outputs, err = sent(r.Context(), result.Outputs)
	if err != nil {
		out.Failed = toWireError(err)
	}
	out.Result.Outputs = nil
	write(w, out)
}

func write(w http.ResponseWriter, body any) {
	_ = json.NewEncoder(w).Encode(body) // whoever asked is gone
}

// post sends a body as JSON and reads the answer.
func post(ctx context.Context, c *http.Client, to string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(text))
	if err != nil {
		return err
	}
	answer, err := c.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if into == nil {
		return nil
	}
	return json.NewDecoder(answer.Body).Decode(into)
}

// remote is the side of whoever begins jobs.
type remote struct {
	inner  Sandbox
	client *http.Client
	url    string
}

// Languages implements Sandbox.
func (s *remote) Languages() []sandbox.Language { return s.inner.Languages() }

// Run implements Sandbox.
func (s *remote) Run(ctx context.Context, job sandbox.Job) (sandbox.Result, error) {
	x, err := s.Begin(ctx, job)
	if err != nil {
		return sandbox.Result{}, err
	}
	return x.Result()
}

// Begin implements Sandbox.
func (s *remote) Begin(ctx context.Context, job sandbox.Job) (sandbox.Execution, error) {
	w, err := toWire(ctx, job)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	back := httptest.NewServer(mux)
	if job.Gateway != nil {
		mux.Handle("/", job.Gateway)
		w.Back = back.URL
	}
	if job.Output != nil {
		w.Lines = back.URL + "/lines"
		mux.HandleFunc("POST /lines", func(_ http.ResponseWriter, r *http.Request) {
			var line string
			if json.NewDecoder(r.Body).Decode(&line) == nil {
				job.Output(sandbox.Stream(r.URL.Query().Get("stream")), line)
			}
		})
	}
	var answer begun
	if err = post(ctx, s.client, s.url+"/begin", w, &answer); err == nil {
		err = answer.Failed.err()
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		back.Close()
		return nil, err
	}
	x := &remoteExecution{remote: s, id: answer.ID, done: make(chan struct{})}
	go x.follow(ctx, back)
	return x, nil
}

// remoteExecution is a job that runs on the other side. It implements
// sandbox.Execution.
type remoteExecution struct {
	*remote

	id     string
	done   chan struct{}
	result sandbox.Result
	err    error
}

// follow waits for the end of the job, and ends it with its context.
func (x *remoteExecution) follow(ctx context.Context, back *httptest.Server) {
	defer close(x.done)
	defer back.Close()
	free := context.WithoutCancel(ctx)
	stop := context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(free, stopTimeout)
		defer cancel()
		_ = post(ctx, x.client, x.url+"/end/"+x.id, nil, nil) // it may be over
	})
	defer stop()
	var w wireResult
	if x.err = post(free, x.client, x.url+"/result/"+x.id, nil, &w); x.err == nil {
		x.err = w.Failed.err()
	}
	x.result = w.Result
	x.result.Outputs = received(w.Outputs)
}

// Done implements sandbox.Execution.
func (x *remoteExecution) Done() <-chan struct{} { return x.done }

// Result implements sandbox.Execution.
func (x *remoteExecution) Result() (sandbox.Result, error) {
	<-x.done
	return x.result, x.err
}

// Pause implements sandbox.Execution.
func (x *remoteExecution) Pause() error { return x.ask(context.Background(), "/pause/") }

// Resume implements sandbox.Execution.
func (x *remoteExecution) Resume(ctx context.Context) error { return x.ask(ctx, "/resume/") }

func (x *remoteExecution) ask(ctx context.Context, path string) error {
	var failed *wireError
	if err := post(ctx, x.client, x.url+path+x.id, nil, &failed); err != nil {
		return err
	}
	return failed.err()
}
