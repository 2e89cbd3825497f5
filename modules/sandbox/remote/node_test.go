package remote_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/remote"
	"github.com/portico-run/portico/modules/sandbox/remote/machine"
	"github.com/portico-run/portico/modules/sandbox/remote/registry"
	"github.com/portico-run/portico/modules/sandbox/remote/wire"
)

// scripted is a driver whose programs are functions.
type scripted func(ctx context.Context, job sandbox.Job) (sandbox.Result, error)

func (scripted) Open(context.Context) error                       { return nil }
func (s scripted) Start(context.Context) (sandbox.Capsule, error) { return s, nil }
func (scripted) Languages() []sandbox.Language {
	return []sandbox.Language{sandbox.Python, sandbox.Bash}
}
func (scripted) Close() error { return nil }

func (s scripted) Run(ctx context.Context, job sandbox.Job) (sandbox.Result, error) {
	job.Clock.Start()
	return s(ctx, job)
}

// settle starts a node whose programs are functions.
func settle(t *testing.T, program scripted, change func(d *machine.Deps)) *machine.Machine {
	t.Helper()
	engine := sandbox.New(sandbox.Deps{Driver: program, MaxConcurrent: most, MaxPaused: most, Logger: quiet()})
	require.NoError(t, engine.Start(t.Context()))
	d := machine.Deps{Engine: engine, Listen: "127.0.0.1:0", Room: machine.Room{Running: most, Paused: most}, Logger: quiet()}
	if change != nil {
		change(&d)
	}
	m := machine.New(d)
	require.NoError(t, m.Start(t.Context()))
	t.Cleanup(func() {
		require.NoError(t, m.Stop(context.Background()))
		require.NoError(t, engine.Stop(context.Background()))
	})
	return m
}

// reach is a driver that finds these nodes.
func reach(t *testing.T, c remote.ClientConfig, nodes ...*machine.Machine) *remote.Driver {
	t.Helper()
	d := find(t, c, nodes...)
	require.NoError(t, d.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// find is reach without opening the driver.
func find(t *testing.T, c remote.ClientConfig, nodes ...*machine.Machine) *remote.Driver {
	t.Helper()
	if c.Keys == nil {
		private, _ := key(t)
		c.Keys = pair(private)
	}
	client := remote.NewClient(c)
	var addresses []string
	for _, n := range nodes {
		addresses = append(addresses, n.Addr().String())
	}
	return remote.New(remote.Deps{Nodes: registry.New(registry.Deps{Addresses: addresses, Asker: client, Every: 20 * time.Millisecond, Logger: quiet()}), Client: client, Logger: quiet()})
}

func done(text string) sandbox.Result {
	return sandbox.Result{Status: sandbox.Completed, Stdout: text}
}

func says(text string) scripted {
	return func(context.Context, sandbox.Job) (sandbox.Result, error) { return done(text), nil }
}

// waits is a program that runs until it is ended.
func waits(began chan<- struct{}) scripted {
	return func(ctx context.Context, _ sandbox.Job) (sandbox.Result, error) {
		began <- struct{}{}
		<-ctx.Done()
		return sandbox.Result{Status: sandbox.Cancelled, ExitCode: sandbox.ExitKilled}, nil
	}
}

func try(t *testing.T, d sandbox.Driver, owner string) (sandbox.Result, error) {
	t.Helper()
	return start(t, d).Run(t.Context(), sandbox.Job{Owner: owner, Code: "x", Timeout: time.Minute})
}

// All that a job holds arrives, and all that comes of it comes back.
func TestAJobTravelsWhole(t *testing.T) {
	t.Parallel()
	var got sandbox.Job
	long := strings.Repeat("0123456789", 1<<20)
	m := settle(t, func(ctx context.Context, job sandbox.Job) (sandbox.Result, error) {
		got = job
		r, size, err := job.Inputs[0].Reader(ctx)
		if err != nil {
			return sandbox.Result{}, err
		}
		content, err := io.ReadAll(r)
		if err != nil || int64(len(content)) != size {
			return sandbox.Result{}, fmt.Errorf("%d bytes: %w", len(content), err)
		}
		for n := range 3 {
			job.Output(sandbox.Stderr, fmt.Sprint("line ", n))
		}
		size, _, known := job.Collect.Known("in.txt")
		return sandbox.Result{
			Status: sandbox.Failed, ExitCode: 3, Stdout: string(content[:10]), Stderr: "err", StdoutDropped: 1, StderrDropped: 2, OutputsDropped: 4, Duration: time.Second,
			Outputs: []sandbox.File{{Path: "a/b", Content: content}, {Path: "c", Content: []byte{}}, {Path: "in.txt", Unchanged: known && size == 5}},
		}, nil
	}, nil)
	var lines []string
	job := sandbox.Job{
		Owner: "u", Code: "code", Language: sandbox.Bash, Args: []string{"a", "ä"}, Env: map[string]string{"A": "b"}, Loopback: true, Timeout: time.Minute,
		Stubs:   []sandbox.Stub{{Identifier: "f", Name: "f", Parameters: []sandbox.Parameter{{Name: "x", Default: []byte(`{"a":1}`)}}}},
		Files:   []sandbox.File{{Path: "sdk/a.py", Content: []byte("sdk")}, {Path: "empty", Content: []byte{}}},
		Inputs:  []sandbox.File{{Path: "in.txt", Size: int64(len(long)), ReadOnly: true, Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(long)), nil }}},
		Collect: sandbox.Collect{MaxFiles: 9, MaxBytes: 20 << 20, Known: func(path string) (int64, [32]byte, bool) { return 5, [32]byte{1}, path == "in.txt" }},
		Gateway: http.NotFoundHandler(), Output: func(s sandbox.Stream, line string) { lines = append(lines, string(s)+" "+line) },
	}
	r, err := start(t, reach(t, remote.ClientConfig{}, m)).Run(t.Context(), job)
	require.NoError(t, err)
	require.Equal(t, sandbox.Result{
		Status: sandbox.Failed, ExitCode: 3, Stdout: "0123456789", Stderr: "err", StdoutDropped: 1, StderrDropped: 2, OutputsDropped: 4, Duration: time.Second,
		Outputs: []sandbox.File{{Path: "a/b", Content: []byte(long)}, {Path: "c", Content: []byte{}}, {Path: "in.txt", Unchanged: true}},
	}, r)
	require.Equal(t, []string{"stderr line 0", "stderr line 1", "stderr line 2"}, lines)
	require.Equal(t, []any{job.Code, job.Language, job.Args, job.Env, job.Loopback, job.Timeout, job.Stubs, job.Files}, []any{got.Code, got.Language, got.Args, got.Env, got.Loopback, got.Timeout, got.Stubs, got.Files})
	require.Equal(t, "in.txt", got.Inputs[0].Path)
	require.True(t, got.Inputs[0].ReadOnly)
	require.Empty(t, got.Owner, "a node knows nobody's id")
}

// An error of who gives an input is the job's, not the node's.
func TestAnInputThatCannotBeRead(t *testing.T) {
	t.Parallel()
	m := settle(t, func(ctx context.Context, job sandbox.Job) (sandbox.Result, error) {
		_, _, err := job.Inputs[0].Reader(ctx)
		return sandbox.Result{}, err
	}, nil)
	gone := errs.New(errs.NotFound, "The file is gone.")
	_, err := start(t, reach(t, remote.ClientConfig{}, m)).Run(t.Context(), sandbox.Job{
		Code: "x", Timeout: time.Minute, Inputs: []sandbox.File{{Path: "in", Open: func(context.Context) (io.ReadCloser, error) { return nil, gone }}},
	})
	require.ErrorIs(t, err, gone)
}

// Large answers of the gateway, and large requests, go through in pieces.
func TestLargeCallsAreStreamed(t *testing.T) {
	t.Parallel()
	const size = 8 << 20
	m := settle(t, func(ctx context.Context, job sandbox.Job) (sandbox.Result, error) {
		from, to := io.Pipe()
		w := &pieces{header: http.Header{}, to: to}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://program.test/large?a=1;b=2", io.LimitReader(zeros{}, size))
		if err != nil {
			return sandbox.Result{}, err
		}
		r.ContentLength = size
		go func() {
			job.Gateway.ServeHTTP(w, r)
			_ = to.Close()
		}()
		n, err := io.Copy(io.Discard, from)
		return done(fmt.Sprintf("%d %s", n, w.header.Get("Content-Length"))), err
	}, nil)
	r, err := start(t, reach(t, remote.ClientConfig{}, m)).Run(t.Context(), sandbox.Job{Code: "x", Timeout: time.Minute, Gateway: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		if r.Host != "program.test" || r.RequestURI != "/large?a=1;b=2" {
			t.Error(r.Host, r.RequestURI)
		}
		w.Header().Set("Content-Length", fmt.Sprint(n))
		_, _ = io.Copy(w, io.LimitReader(zeros{}, n))
	})})
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("%d %d", size, size), r.Stdout)
}

type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// pieces is an answer that is read as it comes.
type pieces struct {
	header http.Header
	to     io.Writer
}

func (p *pieces) Header() http.Header         { return p.header }
func (p *pieces) WriteHeader(int)             {}
func (p *pieces) Write(b []byte) (int, error) { return p.to.Write(b) }

// A node takes programs of those whom it trusts, once for each token, and those alone
// that are meant for it since it started.
func TestANodeTakesProgramsOfThoseWhomItTrusts(t *testing.T) {
	t.Parallel()
	private, public := key(t)
	newer, _ := key(t)
	stranger, _ := key(t)
	m := settle(t, says("ran"), func(d *machine.Deps) { d.Trust.Keys = []ed25519.PublicKey{public} })
	for name, c := range map[string]struct {
		keys []ed25519.PrivateKey
		runs bool
	}{
		"the key":        {pair(private), true},
		"an old one":     {[]ed25519.PrivateKey{newer, private}, true},
		"another":        {pair(stranger), false},
		"none at all":    {[]ed25519.PrivateKey{}, false},
		"another newest": {[]ed25519.PrivateKey{stranger, newer}, false},
	} {
		_, err := try(t, reach(t, remote.ClientConfig{Keys: c.keys}, m), "u")
		if c.runs {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorIs(t, err, sandbox.ErrCapsuleGone, name)
		require.ErrorContains(t, fmt.Errorf("%w", errorCause(err)), "SANDBOX_NODE_TRUST", name)
	}
	// A clock that is an hour off does not matter: the node says what its own shows.
	_, err := try(t, reach(t, remote.ClientConfig{Keys: pair(private), Now: func() time.Time { return time.Now().Add(-time.Hour) }}, m), "u")
	require.NoError(t, err)

	send := func(nonce string, now time.Time, token string) (status int, refused string) {
		t.Helper()
		if token == "" {
			token, err = wire.Sign(pair(private), nonce, remote.OwnerHash("u"), now)
			require.NoError(t, err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+m.Addr().String()+wire.PathJobs, nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode, answer.Header.Get(wire.HeaderRefusal)
	}
	_, refused := send("the nonce before", time.Now(), "")
	require.Equal(t, wire.OtherNode, refused)
	_, refused = send(m.Nonce(), time.Now().Add(-time.Hour), "")
	require.Equal(t, wire.Untrusted, refused)
	_, refused = send(m.Nonce(), time.Now().Add(time.Hour), "") // one that would count for long
	require.Equal(t, wire.Untrusted, refused)
	token, err := wire.Sign(pair(private), m.Nonce(), remote.OwnerHash("u"), time.Now())
	require.NoError(t, err)
	status, refused := send("", time.Time{}, token)
	require.Equal(t, http.StatusHTTPVersionNotSupported, status, refused)
	_, refused = send("", time.Time{}, token)
	require.Equal(t, wire.Untrusted, refused, "it was used")
}

func errorCause(err error) error {
	for {
		inner, ok := err.(interface{ Unwrap() error })
		if !ok || inner.Unwrap() == nil {
			return err
		}
		err = inner.Unwrap()
	}
}

// Without a key that it trusts, a node listens to nobody from elsewhere.
func TestANodeThatTrustsNobodyListensHere(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{":0", "0.0.0.0:0", "[::]:0"} {
		m := machine.New(machine.Deps{Listen: listen, Logger: quiet()})
		require.ErrorContains(t, m.Start(t.Context()), "SANDBOX_NODE_TRUST", listen)
		require.NoError(t, m.Stop(t.Context()))
	}
}

// A node of one tenant serves whoever came first, and the others go elsewhere.
func TestANodeOfOneTenant(t *testing.T) {
	t.Parallel()
	one := func(d *machine.Deps) { d.Trust.One = true }
	first, second := settle(t, says("first"), one), settle(t, says("second"), one)
	d := reach(t, remote.ClientConfig{Times: remote.Times{Busy: 300 * time.Millisecond}}, first, second)
	anna, err := try(t, d, "anna")
	require.NoError(t, err)
	bert, err := try(t, d, "bert")
	require.NoError(t, err)
	require.NotEqual(t, anna.Stdout, bert.Stdout)
	for range 5 {
		again, err := try(t, d, "anna")
		require.NoError(t, err)
		require.Equal(t, anna.Stdout, again.Stdout)
	}
	_, err = try(t, d, "carl")
	require.ErrorIs(t, err, remote.ErrNoNode)
	// The node itself refuses, whoever sends a program there.
	private, _ := key(t)
	client := remote.NewClient(remote.ClientConfig{Keys: pair(private), Times: remote.Times{Busy: 200 * time.Millisecond}})
	careless := remote.New(remote.Deps{Nodes: &fixed{node: remote.Node{Address: first.Addr().String(), Nonce: first.Nonce()}}, Client: client, Logger: quiet()})
	require.NoError(t, careless.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, careless.Close()) })
	_, err = try(t, careless, "carl")
	require.ErrorIs(t, err, sandbox.ErrBusy)
	require.Equal(t, remote.OwnerHash("anna"), map[string]string{"first": first.Status().Owner, "second": second.Status().Owner}[anna.Stdout])
}

// A program that is paused gives its turn at the node away, and keeps its place.
func TestAPausedProgramTakesNoTurn(t *testing.T) {
	t.Parallel()
	m := settle(t, func(ctx context.Context, job sandbox.Job) (sandbox.Result, error) {
		if job.Gateway == nil {
			return done("other"), nil
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://x/", nil)
		job.Gateway.ServeHTTP(&pieces{http.Header{}, io.Discard}, r)
		_, paused := job.Clock.Elapsed()
		return done(fmt.Sprint("paused: ", paused)), err
	}, func(d *machine.Deps) { d.Room = machine.Room{Running: 1, Paused: 1} })
	d := find(t, remote.ClientConfig{}, m)
	api := sandbox.New(sandbox.Deps{Driver: d, MaxConcurrent: 1, MaxPaused: 9, Logger: quiet()})
	engine := engineOf(t, api)
	called, goesOn := make(chan struct{}), make(chan struct{})
	x, err := engine.Begin(t.Context(), sandbox.Job{Code: "x", Timeout: time.Minute, Gateway: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(called)
		<-goesOn
	})})
	require.NoError(t, err)
	<-called
	require.NoError(t, x.Pause())
	require.Eventually(t, func() bool { s := m.Status(); return s.Running == 0 && s.Paused == 1 }, time.Minute, time.Millisecond)
	for range 2 {
		r, err := engine.Run(t.Context(), sandbox.Job{Code: "x", Timeout: time.Minute})
		require.NoError(t, err)
		require.Equal(t, "other", r.Stdout)
	}
	require.NoError(t, x.Resume(t.Context()))
	require.Eventually(t, func() bool { s := m.Status(); return s.Running == 1 && s.Paused == 0 }, time.Minute, time.Millisecond)
	close(goesOn)
	r, err := x.Result()
	require.NoError(t, err)
	require.Equal(t, "paused: false", r.Stdout)
	require.Eventually(t, func() bool { return m.Working() == 0 }, time.Minute, time.Millisecond)
}

// engineOf starts an engine whose driver was opened before.
func engineOf(t *testing.T, e *sandbox.Engine) *sandbox.Engine {
	t.Helper()
	require.NoError(t, e.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, e.Stop(context.Background())) })
	return e
}

// Where all nodes are full, a program waits for a place, and then is refused as by a full
// queue.
func TestAFullNode(t *testing.T) {
	t.Parallel()
	began := make(chan struct{}, 1)
	m := settle(t, waits(began), func(d *machine.Deps) { d.Room = machine.Room{Running: 1, Paused: 1} })
	d := reach(t, remote.ClientConfig{Times: remote.Times{Busy: 200 * time.Millisecond}}, m)
	ctx, cancel := context.WithCancel(t.Context())
	var first sync.WaitGroup
	first.Go(func() { _, _ = start(t, d).Run(ctx, sandbox.Job{Code: "x", Timeout: time.Minute}) })
	<-began
	_, err := try(t, d, "")
	require.ErrorIs(t, err, sandbox.ErrBusy)
	cancel()
	first.Wait()
	require.Eventually(t, func() bool { return m.Working() == 0 }, time.Minute, time.Millisecond)
}

// A node that is about to end finishes what it runs and takes nothing more; one that ends
// says so to whoever waits, and the next program runs elsewhere.
func TestANodeThatEnds(t *testing.T) {
	t.Parallel()
	began := make(chan struct{}, 1)
	goesOn := make(chan struct{})
	ends := settle(t, func(context.Context, sandbox.Job) (sandbox.Result, error) {
		began <- struct{}{}
		<-goesOn
		return done("whole"), nil
	}, nil)
	d := reach(t, remote.ClientConfig{}, ends)
	result := make(chan sandbox.Result, 1)
	go func() {
		r, _ := try(t, d, "")
		result <- r
	}()
	<-began
	ends.Drain()
	require.True(t, ends.Status().Draining)
	other := settle(t, says("other"), nil)
	r, err := try(t, reach(t, remote.ClientConfig{}, ends, other), "")
	require.NoError(t, err)
	require.Equal(t, "other", r.Stdout)
	close(goesOn)
	require.Equal(t, "whole", (<-result).Stdout)

	dies := settle(t, waits(began), nil)
	d = reach(t, remote.ClientConfig{}, dies)
	go func() {
		r, _ := try(t, d, "")
		result <- r
	}()
	<-began
	require.NoError(t, dies.Stop(t.Context()))
	r = <-result
	require.Equal(t, sandbox.Killed, r.Status)
	require.Contains(t, r.Stderr, "The program was lost: the sandbox node that ran it is gone")
}

// The programs of a process that is gone end with its connection.
func TestProgramsEndWithTheirProcess(t *testing.T) {
	t.Parallel()
	began, ended := make(chan struct{}), make(chan struct{})
	m := settle(t, func(ctx context.Context, _ sandbox.Job) (sandbox.Result, error) {
		close(began)
		<-ctx.Done()
		close(ended)
		return sandbox.Result{Status: sandbox.Cancelled, ExitCode: sandbox.ExitKilled}, nil
	}, nil)
	d := reach(t, remote.ClientConfig{}, m)
	var run sync.WaitGroup
	run.Go(func() { _, _ = try(t, d, "") })
	<-began
	require.NoError(t, d.Close())
	run.Wait()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("the program runs without its process")
	}
	require.Eventually(t, func() bool { return m.Working() == 0 }, time.Minute, time.Millisecond)
}

// Output that nobody takes slows the program down.
func TestSlowOutputSlowsTheProgram(t *testing.T) {
	t.Parallel()
	const lines, size = 1000, 8 << 10
	var mu sync.Mutex
	sent, taken := 0, 0
	ahead := 0
	m := settle(t, func(_ context.Context, job sandbox.Job) (sandbox.Result, error) {
		for range lines {
			job.Output(sandbox.Stdout, strings.Repeat("x", size))
			mu.Lock()
			sent++
			ahead = max(ahead, sent-taken)
			mu.Unlock()
		}
		return done(""), nil
	}, nil)
	client := remote.NewClient(remote.ClientConfig{Keys: []ed25519.PrivateKey{}})
	d := remote.New(remote.Deps{Nodes: &fixed{node: remote.Node{Address: m.Addr().String(), Nonce: m.Nonce()}}, Client: client, Output: 8 << 20, Logger: quiet()})
	require.NoError(t, d.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	_, err := start(t, d).Run(t.Context(), sandbox.Job{Code: "x", Timeout: time.Minute, Output: func(sandbox.Stream, string) {
		mu.Lock()
		taken++
		mu.Unlock()
		if taken < 3 {
			time.Sleep(50 * time.Millisecond) //nolint:forbidigo // it is slow
		}
	}})
	require.NoError(t, err)
	require.Equal(t, lines, taken)
	require.Less(t, ahead*size, 3<<20, "what was under way")
}
