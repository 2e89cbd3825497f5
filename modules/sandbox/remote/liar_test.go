package remote_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/remote"
	"github.com/portico-run/portico/modules/sandbox/remote/wire"
)

// fixed is a node that is always there.
type fixed struct {
	node     remote.Node
	released atomic.Int64
	failed   atomic.Int64
}

// Acquire implements remote.Nodes.
func (f *fixed) Acquire(context.Context, string) (remote.Node, error) { return f.node, nil }

// Release implements remote.Nodes.
func (f *fixed) Release(_ remote.Node, failed bool) {
	f.released.Add(1)
	if failed {
		f.failed.Add(1)
	}
}

// liar is a node that does what a test says instead of running programs.
type liar struct {
	t    *testing.T
	asks *http.ClientConn
	conn net.Conn
	gone context.Context //nolint:containedctx // ends with the stream

	leaves  bool            // it ends the stream itself
	resets  bool            // and says that it failed
	printed <-chan struct{} // tells of lines that arrived
}

// ask makes a request to the process, and returns its status; 0 when it is cut off.
func (l *liar) ask(method, host, path string, body io.Reader) (int, []byte) {
	r, err := http.NewRequestWithContext(l.gone, method, "http://"+host+path, body)
	if err != nil {
		l.t.Error(err)
		return 0, nil
	}
	answer, err := l.asks.RoundTrip(r)
	if err != nil {
		return 0, nil
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, text
}

// job takes the job, as an honest node does.
func (l *liar) job() { l.ask(http.MethodGet, wire.Control, wire.PathJob, nil) }

// result sends a result with what follows it.
func (l *liar) result(r wire.Result, rest string) {
	var b bytes.Buffer
	_ = wire.WriteHead(&b, r)
	b.WriteString(rest)
	l.ask(http.MethodPost, wire.Control, wire.PathResult, &b)
}

// lie starts a liar, and returns a driver that believes it is a node.
func lie(t *testing.T, times remote.Times, do func(l *liar)) (*remote.Driver, *fixed) {
	t.Helper()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		flush := http.NewResponseController(w).Flush
		_ = flush()
		var mu sync.Mutex
		over := false
		conn := &wire.Conn{Reader: r.Body, Writer: writer(func(p []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			if over {
				return 0, io.ErrClosedPipe
			}
			n, err := w.Write(p)
			_ = flush()
			return n, err
		}), End: func() { _ = r.Body.Close() }}
		inner := &http.Transport{Protocols: &protocols, DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}
		asks, err := inner.NewClientConn(r.Context(), "http", "job:80")
		l := &liar{t: t, asks: asks, conn: conn, gone: r.Context()}
		if err == nil {
			do(l)
			_ = asks.Close()
		}
		mu.Lock()
		over = true
		mu.Unlock()
		if l.resets {
			panic(http.ErrAbortHandler)
		}
	}))
	server.Config.Protocols = &protocols
	server.Start()
	t.Cleanup(server.Close)
	private, _ := key(t)
	nodes := &fixed{node: remote.Node{Address: server.Listener.Addr().String(), Nonce: "n"}}
	client := remote.NewClient(remote.ClientConfig{Keys: pair(private), Times: times})
	d := remote.New(remote.Deps{Nodes: nodes, Client: client, Output: 4 << 10, Logger: quiet()})
	require.NoError(t, d.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d, nodes
}

type writer func(p []byte) (int, error)

// Write implements io.Writer.
func (w writer) Write(p []byte) (int, error) { return w(p) }

func start(t *testing.T, d sandbox.Driver) sandbox.Capsule {
	t.Helper()
	c, err := d.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// What a node cannot have been told, or no sandbox could have said, loses the job of that
// node, and nothing of it is believed.
func TestANodeThatLiesLosesItsJob(t *testing.T) {
	t.Parallel()
	line := func(n int) io.Reader {
		var b bytes.Buffer
		for range n {
			_ = wire.WriteLine(&b, sandbox.Stdout, strings.Repeat("x", 1<<10))
		}
		return &b
	}
	post := func(path, body string) func(l *liar) {
		return func(l *liar) { l.ask(http.MethodPost, wire.Control, path, strings.NewReader(body)) }
	}
	sends := func(r wire.Result, rest string) func(l *liar) { return func(l *liar) { l.result(r, rest) } }
	files := func(list ...wire.File) wire.Result { return wire.Result{Status: sandbox.Completed, Files: list} }
	long := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		do  func(l *liar)
		why string
	}{
		"another path":  {func(l *liar) { l.ask(http.MethodGet, wire.Control, "/v1/other", nil) }, "it asks for"},
		"the job twice": {func(l *liar) { l.job() }, "out of their order"},
		"no such input": {func(l *liar) { l.ask(http.MethodGet, wire.Control, wire.PathInput+"?n=1", nil) }, "an input that the job has not"},
		"input too often": {func(l *liar) {
			for range 4 {
				l.ask(http.MethodGet, wire.Control, wire.PathInput+"?n=0", nil)
			}
		}, "an input out of its order"},
		"too much output":    {func(l *liar) { l.ask(http.MethodPost, wire.Control, wire.PathOutput, line(100)) }, "more output than SANDBOX_OUTPUT"},
		"output that is not": {post(wire.PathOutput, "\x00\x00\x00\x00\x01\xff"), "output that is no text"},
		"a huge line":        {post(wire.PathOutput, "\x00\xff\xff\xff\xff"), "a line of 4294967295 bytes"},
		"a huge head":        {post(wire.PathResult, "\xff\xff\xff\xff{"), "a head of 4294967295 bytes"},
		"no head":            {post(wire.PathResult, ""), "EOF"},
		"no status":          {sends(wire.Result{}, ""), "a result that cannot be"},
		"exit code":          {sends(wire.Result{Status: sandbox.Completed, ExitCode: 1}, ""), "a result that cannot be"},
		"cancelled":          {sends(wire.Result{Status: sandbox.Cancelled, ExitCode: sandbox.ExitKilled}, ""), "it ended the program"},
		"long stdout":        {sends(wire.Result{Status: sandbox.Completed, Stdout: 1 << 20}, long), "more output than SANDBOX_OUTPUT"},
		"short stdout":       {sends(wire.Result{Status: sandbox.Completed, Stdout: 10}, "x"), "EOF"},
		"no text":            {sends(wire.Result{Status: sandbox.Completed, Stdout: 1}, "\xff"), "output that is no text"},
		"too many files":     {sends(files(wire.File{Path: "a"}, wire.File{Path: "b"}, wire.File{Path: "c"}), ""), "more files than it may"},
		"large files":        {sends(files(wire.File{Path: "a", Size: 1 << 20}), long), "larger files than it may"},
		"a path that leaves": {sends(files(wire.File{Path: "../a"}), ""), "a path that cannot be"},
		"a file twice":       {sends(files(wire.File{Path: "a"}, wire.File{Path: "a"}), ""), "a path that cannot be"},
		"known to nobody":    {sends(files(wire.File{Path: "a", Unchanged: true}), ""), "that it is known"},
		"nothing ran": {func(l *liar) {
			l.ask(http.MethodPost, wire.Gateway, "/x", nil)
			l.result(wire.Result{NotBegun: true}, "")
		}, "a result that cannot be"},
		"the end before that of the output": {func(l *liar) {
			from, to := io.Pipe()
			go func() { l.ask(http.MethodPost, wire.Control, wire.PathOutput, from) }()
			_ = wire.WriteLine(to, sandbox.Stdout, "line")
			<-l.printed
			l.result(wire.Result{Status: sandbox.Completed}, "")
			_ = to.Close()
		}, "before the end of the output"},
		"leaves":        {func(l *liar) { l.leaves = true }, "the connection to it broke"},
		"resets":        {func(l *liar) { l.leaves, l.resets = true, true }, "the connection to it broke"},
		"garbage":       {func(l *liar) { _, _ = l.conn.Write(bytes.Repeat([]byte{0xff}, 1<<20)) }, "the connection to it broke"},
		"a huge header": {func(l *liar) { l.ask(http.MethodGet, wire.Control, "/"+long, nil); l.leaves = true }, "the connection to it broke"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			printed := make(chan struct{}, 100)
			d, nodes := lie(t, remote.Times{}, func(l *liar) {
				l.printed = printed
				l.job()
				if c.do(l); !l.leaves {
					<-l.gone.Done() // it is cut off
				}
			})
			r, err := start(t, d).Run(t.Context(), sandbox.Job{
				Code: "x", Timeout: time.Minute, Gateway: http.NotFoundHandler(), Output: func(sandbox.Stream, string) { printed <- struct{}{} }, Inputs: []sandbox.File{{Path: "in", Content: []byte("in")}},
				Collect: sandbox.Collect{MaxFiles: 2, MaxBytes: 1 << 10},
			})
			require.NoError(t, err)
			require.Equal(t, sandbox.Killed, r.Status, "%+v", r)
			require.Equal(t, sandbox.ExitKilled, r.ExitCode)
			require.Contains(t, r.Stderr, "The program was lost: the sandbox node that ran it is gone (")
			require.Contains(t, r.Stderr, c.why)
			require.Empty(t, r.Outputs)
			require.Equal(t, int64(1), nodes.failed.Load(), "the node is given up")
			require.Equal(t, int64(1), nodes.released.Load())
		})
	}
}

// A node that was not given the job has run nothing of it; every other node may.
func TestAJobThatWasNotGivenMayRunElsewhere(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(l *liar){
		"leaves": func(*liar) {},
		"lies":   func(l *liar) { l.result(wire.Result{Status: sandbox.Completed}, "") },
		"calls":  func(l *liar) { l.ask(http.MethodPost, wire.Gateway, "/x", nil) },
		"honest": func(l *liar) { l.job(); l.result(wire.Result{NotBegun: true, Lost: "no bwrap"}, "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, _ := lie(t, remote.Times{}, do)
			_, err := start(t, d).Run(t.Context(), sandbox.Job{Code: "x", Timeout: time.Minute, Gateway: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the gateway was reached") })})
			require.ErrorIs(t, err, sandbox.ErrCapsuleGone)
		})
	}
}

// A node that does nothing of what it should is not waited for without end.
func TestANodeThatIsSilentLosesItsJob(t *testing.T) {
	t.Parallel()
	short := remote.Times{Idle: 300 * time.Millisecond, Late: 300 * time.Millisecond, Accept: time.Second}
	waits := func(l *liar) { <-l.gone.Done() }
	for name, c := range map[string]struct {
		do     func(l *liar)
		status sandbox.Status
	}{
		"before the inputs": {func(l *liar) { l.job(); waits(l) }, sandbox.Killed},
		"while it runs": {func(l *liar) {
			l.job()
			l.ask(http.MethodGet, wire.Control, wire.PathInput+"?n=0", nil)
			waits(l)
		}, sandbox.TimedOut},
		"in its result": {func(l *liar) {
			l.job()
			from, _ := io.Pipe()
			l.ask(http.MethodPost, wire.Control, wire.PathResult, from)
		}, sandbox.Killed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, _ := lie(t, short, c.do)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			r, err := start(t, d).Run(ctx, sandbox.Job{Code: "x", Timeout: 100 * time.Millisecond, Inputs: []sandbox.File{{Path: "in"}}})
			require.NoError(t, err)
			require.Equal(t, c.status, r.Status, r.Stderr)
		})
	}
	t.Run("when it is to end the job", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		d, nodes := lie(t, short, func(l *liar) { l.job(); cancel(); waits(l) })
		r, err := start(t, d).Run(ctx, sandbox.Job{Code: "x", Timeout: time.Minute})
		require.NoError(t, err)
		require.Equal(t, sandbox.Cancelled, r.Status)
		require.Equal(t, int64(1), nodes.failed.Load())
	})
}

// The gateway of a job answers its node while the program runs, and never after.
func TestNoCallComesAfterTheEnd(t *testing.T) {
	t.Parallel()
	refused := false
	done := make(chan struct{})
	d, nodes := lie(t, remote.Times{}, func(l *liar) {
		defer close(done)
		l.job()
		if status, _ := l.ask(http.MethodPost, wire.Gateway, "/first", nil); status != http.StatusTeapot {
			l.t.Errorf("the gateway answers %d", status)
		}
		from, to := io.Pipe() // the result is long under way
		go func() {
			_ = wire.WriteHead(to, wire.Result{Status: sandbox.Completed, Stdout: 2})
			for n := 0; n < 1000 && !refused; n++ {
				status, _ := l.ask(http.MethodPost, wire.Gateway, "/second", nil)
				refused = status == 0
			}
			_, _ = to.Write([]byte("ok"))
			_ = to.Close()
		}()
		l.ask(http.MethodPost, wire.Control, wire.PathResult, from)
	})
	r, err := start(t, d).Run(t.Context(), sandbox.Job{Code: "x", Timeout: time.Minute, Gateway: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, r.URL.Path)
	})})
	require.NoError(t, err)
	require.Equal(t, "ok", r.Stdout)
	<-done
	require.True(t, refused)
	require.Zero(t, nodes.failed.Load())
}
