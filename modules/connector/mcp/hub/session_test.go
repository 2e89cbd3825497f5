package hub_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"
	"golang.org/x/sys/unix"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/egress"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/connector/mcp/hub"
	"github.com/portico-run/portico/modules/connector/mcp/hubtest"
	"github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/connector/oauth"
	"github.com/portico-run/portico/modules/sandbox/guest"
)

// A server that does not know a session any more has done nothing of the call.
func TestAForgottenSessionHasNoEffect(t *testing.T) {
	t.Parallel()
	f, of := open(t, nil), hubtest.New()
	var handler atomic.Pointer[http.Handler]
	restart := func() { handler.Store(new(of.Legacy())) }
	restart()
	s := hubtest.Listen(t, "test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*handler.Load()).ServeHTTP(w, r) }))
	_, failure := f.call(s, "echo", `{}`)
	require.Nil(t, failure)
	restart()
	_, failure = f.call(s, "echo", `{}`)
	require.NotNil(t, failure)
	require.NotContains(t, failure.Message, "effect", "%v", failure)
	require.EqualValues(t, 1, of.Calls.Load())
	require.Eventually(t, func() bool {
		_, failure := f.call(s, "echo", `{}`)
		return failure == nil
	}, time.Minute, 5*time.Millisecond)
}

// What a server has done whose answer breaks off, nobody knows.
func TestAnAnswerThatBreaksOffMayHaveHadAnEffect(t *testing.T) {
	t.Parallel()
	legacy := hubtest.New().Legacy()
	s := hubtest.Listen(t, "test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil && strings.Contains(string(body), `"tools/call"`) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, ": working\n\n")
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		legacy.ServeHTTP(w, r)
	}))
	_, failure := open(t, nil).call(s, "echo", `{}`)
	require.NotNil(t, failure)
	require.Contains(t, failure.Message, "may have had an effect", "%v", failure)
}

// A process that says nothing to the question of the newer era is started again
// for the one before; the era is remembered.
func TestASilentProcessIsAskedInTheEraBefore(t *testing.T) {
	t.Parallel()
	f := open(t, func(s *hub.Settings) { s.Connect = time.Second })
	s := hubtest.Process(t, "test", hubtest.Silent)
	list, err := f.Tools(t.Context(), anna(), s)
	require.NoError(t, err)
	require.Equal(t, "2025-11-25", list.Protocol)
	require.Contains(t, f.names(s), "echo")
}

func TestAProcessMayPrintWhatIsNoMessage(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	s := hubtest.Process(t, "test", hubtest.Careless)
	require.Contains(t, f.names(s), "echo")
	require.Contains(t, f.Health(anna(), s).Stderr, "Welcome to the server!")
}

// A process that died is started again by a later call, after a wait that grows;
// until then callers are told.
func TestADeadProcessIsStartedAgain(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	s := hubtest.Process(t, "test", hubtest.Good)
	require.Contains(t, f.names(s), "die")
	_, failure := f.call(s, "die", `{}`)
	require.NotNil(t, failure)
	require.Contains(t, failure.Message, "may have had an effect")
	require.Eventually(t, func() bool { return f.Health(anna(), s).State == server.Degraded }, time.Minute, 5*time.Millisecond)
	require.Contains(t, f.Health(anna(), s).Stderr, "last words")
	_, failure = f.call(s, "echo", `{}`)
	require.NotNil(t, failure)
	require.Contains(t, failure.Message, "It is tried again in ")
	require.Contains(t, f.names(s), "echo", "the list stays")
	require.Eventually(t, func() bool {
		_, failure := f.call(s, "echo", `{}`)
		return failure == nil
	}, time.Minute, 50*time.Millisecond)
	require.Equal(t, server.Ready, f.Health(anna(), s).State)
}

// What a process writes after its output has ended is kept too: it may be why.
func TestTheLastWordsOfAProcessAreKept(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	s := hubtest.Process(t, "test", hubtest.Good)
	_, failure := f.call(s, "mute", `{}`)
	require.NotNil(t, failure)
	require.Eventually(t, func() bool { return f.Health(anna(), s).State == server.Degraded }, time.Minute, 5*time.Millisecond)
	require.Contains(t, f.Health(anna(), s).Stderr, "last words")
}

func TestAProcessThatDoesNotStartIsToldFast(t *testing.T) {
	t.Parallel()
	f := open(t, func(s *hub.Settings) { s.Connect = 500 * time.Millisecond })
	for _, mode := range []string{hubtest.Dead, hubtest.Deaf} {
		s := hubtest.Process(t, mode, mode)
		_, err := f.Tools(t.Context(), anna(), s)
		failure := &upstream.Failure{}
		require.ErrorAs(t, err, &failure, mode)
		require.NotContains(t, failure.Message, "effect", "nothing was called")
		_, err = f.Tools(t.Context(), anna(), s)
		require.Same(t, failure, err, "it keeps nobody waiting twice")
	}
	require.Contains(t, f.Health(anna(), hubtest.Process(t, hubtest.Dead, hubtest.Dead)).Stderr, "cannot read the configuration")
	s := server.Server{Name: "none", Transport: server.Stdio, Command: "no-such-program", Version: "1"}
	_, err := f.Tools(t.Context(), anna(), s)
	require.ErrorContains(t, err, "does not start")
}

// The end of what a process writes to stderr is kept, and no more.
func TestAFloodOfStderrIsBounded(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	s := hubtest.Process(t, "test", hubtest.Good)
	_, failure := f.call(s, "flood", `{}`)
	require.Nil(t, failure)
	require.Eventually(t, func() bool { return strings.HasSuffix(f.Health(anna(), s).Stderr, "line 19999\n") }, time.Minute, 10*time.Millisecond)
	require.LessOrEqual(t, len(f.Health(anna(), s).Stderr), 65<<10)
}

// where is what a process says of itself.
type where struct {
	Dir string
	Env []string
	PID int
}

func (f *fixture) where(s server.Server) (w where) {
	f.t.Helper()
	got, failure := f.call(s, "where", `{}`)
	require.Nil(f.t, failure, "%v", failure)
	require.NoError(f.t, json.Unmarshal(got.Data, &w))
	return w
}

// A process has a folder of its own, the environment that is listed, and ends
// with all that it started.
func TestAProcessHasWhatIsListed(t *testing.T) {
	t.Setenv("PORTICO_SECRET_OF_THE_SERVER", "x")
	f := open(t, nil)
	s := hubtest.Process(t, "test", hubtest.Good)
	s.Env["API_KEY"] = "of-the-user"
	w := f.where(s)
	dir := filepath.Join(f.dir, "everybody", "test")
	require.Equal(t, dir, w.Dir)
	require.ElementsMatch(t, []string{"API_KEY=[redacted]", "HUBTEST_SERVER=good", "PATH=" + os.Getenv("PATH"), "HOME=" + dir}, w.Env)
	group, err := unix.Getpgid(w.PID)
	require.NoError(t, err)
	require.Equal(t, w.PID, group)
	own := s
	own.UID = anna().UID
	require.NotEqual(t, dir, f.where(own).Dir)
	require.NoError(t, f.Stop(t.Context()))
	require.ErrorIs(t, unix.Kill(w.PID, 0), unix.ESRCH)
}

// What a process started ends with it.
func TestTheWholeGroupEnds(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	s := hubtest.Process(t, "test", hubtest.Good)
	child := filepath.Join(t.TempDir(), "pid")
	s.Command, s.Args = "sh", []string{"-c", `sleep 1000 & echo $! >"$0"; exec "$1"`, child, s.Command}
	f.where(s)
	text, err := os.ReadFile(child)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	require.NoError(t, unix.Kill(pid, 0))
	require.NoError(t, f.Stop(t.Context()))
	require.Eventually(t, func() bool {
		status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat") // a killed one may wait for whoever adopted it
		return err != nil || strings.Contains(string(status), ") Z ")
	}, time.Minute, 10*time.Millisecond)
}

// Servers that do not notice the end of their input end together.
func TestTheHubStopsInTime(t *testing.T) {
	t.Parallel()
	const servers = 8
	f := open(t, nil)
	for i := range servers {
		s := hubtest.Process(t, "test"+strconv.Itoa(i), hubtest.Good)
		s.Command, s.Args = "sh", []string{"-c", `"$0"; sleep 1000`, s.Command}
		f.where(s)
	}
	began := time.Now()
	require.NoError(t, f.Stop(t.Context()))
	require.Less(t, time.Since(began), servers*time.Second, "each has a second")
}

// An isolated process sees the sandbox's root and its own folder, and no network.
func TestAnIsolatedProcessReachesNothing(t *testing.T) {
	testenv.Sandbox(t, guest.DefaultRoot(map[string]string{"HOME": os.Getenv("HOME"), "XDG_DATA_HOME": os.Getenv("XDG_DATA_HOME")}))
	t.Parallel()
	f := open(t, nil)
	for dir := f.dir; dir != os.TempDir(); dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o711)) // isolated servers have users of their own
	}
	const program = `
import json, os, socket, sys
def tried(f):
    try: f(); return "yes"
    except OSError as e: return "no"
def connect(): socket.create_connection(("1.1.1.1", 80), 1)
open("note", "a").write("x")
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    r = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "i", "version": "1"}}
    if m["method"] == "server/discover":
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "no"}}), flush=True); continue
    if m["method"] == "tools/list": r = {"tools": [{"name": "look", "inputSchema": {"type": "object"}}]}
    if m["method"] == "tools/call":
        r = {"content": [], "structuredContent": {"network": tried(connect), "root": tried(lambda: open("/etc/x", "w")), "home": os.environ.get("HOME"),
             "key": os.environ.get("KEY"), "host": tried(lambda: os.listdir("/work")), "dir": os.getcwd()}}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
`
	s := server.Server{Name: "test", Transport: server.Stdio, Sandbox: true, Command: "/usr/bin/python3", Args: []string{"-c", program}, Env: map[string]string{"KEY": "k"}, Version: "1"}
	got, failure := f.call(s, "look", `{}`)
	require.Nil(t, failure, "%v %s", failure, f.Health(anna(), s).Stderr)
	require.JSONEq(t, `{"network":"no","root":"no","home":"/mnt/data","key":"k","host":"no","dir":"/mnt/data"}`, string(got.Data))
	note, err := os.ReadFile(filepath.Join(f.dir, "everybody", "test", "note"))
	require.NoError(t, err)
	require.Equal(t, "x", string(note), "its folder stays")
}

// Connections belong to a user and a version: nobody's calls go through those of
// others, whatever the address.
func TestConnectionsAreNotShared(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var keys []string
	of := hubtest.New()
	handler := of.Legacy()
	s := hubtest.Listen(t, "test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		keys = append(keys, r.Header.Get("X-Key"))
		mu.Unlock()
		handler.ServeHTTP(w, r)
	}))
	f := open(t, nil)
	for i, key := range []string{"anna-1", "anna-2", "ben-1"} {
		own := s
		own.Headers, own.Version = map[string]string{"X-Key": key, "Mcp-Session-Id": "stolen"}, key
		who := actor.Actor{UID: strings.Split(key, "-")[0]}
		_, err := f.Call(t.Context(), who, own, hub.Call{Tool: "echo", Arguments: json.RawMessage(`{}`)})
		require.NoError(t, err)
		require.Equal(t, i+1, f.Connections())
	}
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []string{"anna-1", "anna-2", "ben-1"}, slices.Compact(slices.DeleteFunc(keys, func(k string) bool { return k == "" })))
}

func TestConnectionsAreBoundedAndIdleOnesClosed(t *testing.T) {
	t.Parallel()
	f := open(t, func(s *hub.Settings) { s.PerUser, s.Idle = 2, time.Second })
	of := hubtest.New()
	for _, name := range []string{"a", "b", "c", "d"} {
		_, failure := f.call(hubtest.Listen(t, name, of.Handler()), "echo", `{}`)
		require.Nil(t, failure)
		require.LessOrEqual(t, f.Connections(), 2)
	}
	require.Eventually(t, func() bool { return f.Connections() == 0 }, time.Minute, 20*time.Millisecond)
}

// The rules of egress hold: a private address is refused unless it was opened.
func TestPrivateAddressesAreRefused(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	s := hubtest.Listen(t, "test", hubtest.New().Handler())
	s.Egress = nil
	_, failure := f.call(s, "echo", `{}`)
	require.Equal(t, "EGRESS_REFUSED", failure.Code)
	require.NotContains(t, failure.Message, "127.0.0.1")
}

func TestACredentialThatIsRefusedIsTold(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	s := hubtest.Listen(t, "test", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	_, failure := f.call(s, "echo", `{}`)
	require.Equal(t, hub.CodeAuthNeeded, failure.Code)
	require.Equal(t, server.AuthNeeded, f.Health(anna(), s).State)
}

// needs is an authorizer of a user who has not connected.
type needs struct{ auth.OAuthHandler }

func (needs) Authorizer(context.Context, actor.Actor, server.Server) (auth.OAuthHandler, error) {
	return needs{}, nil
}

func (needs) TokenSource(context.Context) (oauth2.TokenSource, error) {
	return nil, nil //nolint:nilnil // there is no token, as the interface allows
}

func (needs) Authorize(_ context.Context, _ *http.Request, r *http.Response) error {
	_ = r.Body.Close()
	return oauth.Needed{URL: "https://portico.example/connect/test"}
}

// Where a person is needed, the failure has the address, and no call waits for it.
func TestAuthorizationIsAskedForWithItsAddress(t *testing.T) {
	t.Parallel()
	web := egress.New(egress.Config{})
	t.Cleanup(web.Close)
	h := hub.New(hub.Deps{Directory: &hubtest.Directory{}, Client: web, Authorizer: needs{}})
	require.NoError(t, h.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, h.Stop(context.Background())) })
	s := hubtest.Listen(t, "test", auth.RequireBearerToken(func(context.Context, string, *http.Request) (*auth.TokenInfo, error) {
		return nil, auth.ErrInvalidToken
	}, nil)(hubtest.New().Handler()))
	_, err := h.Call(t.Context(), anna(), s, hub.Call{Tool: "echo", Arguments: json.RawMessage(`{}`)})
	failure := &upstream.Failure{}
	require.ErrorAs(t, err, &failure)
	require.Equal(t, hub.CodeAuthNeeded, failure.Code)
	require.JSONEq(t, `{"url":"https://portico.example/connect/test"}`, string(failure.Data))
	require.Equal(t, "https://portico.example/connect/test", h.Health(anna(), s).ConnectURL)
}

// A question of a server of the era before is told to the call that it is about.
func TestAQuestionOverASessionIsTold(t *testing.T) {
	t.Parallel()
	f, of := open(t, nil), hubtest.New()
	of.Add("confirm", anyObject, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		_, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Which account?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)})
		if err == nil {
			return hubtest.Words("answered"), nil
		}
		out := hubtest.Words(err.Error())
		out.IsError = true
		return out, nil
	})
	_, failure := f.call(hubtest.Listen(t, "test", of.Legacy()), "confirm", `{}`)
	require.NotNil(t, failure)
	require.Contains(t, []string{hub.CodeQuestion, hub.CodeTool}, failure.Code, "the server sees that nobody is there, or asks all the same")
}
