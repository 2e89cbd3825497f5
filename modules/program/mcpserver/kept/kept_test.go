package kept_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/program/mcpserver/kept"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// keys are what callers send, and who they are.
func keys() map[string]actor.Actor {
	return map[string]actor.Actor{
		"anna":         {UID: "u-anna", KeyID: "key-1"},
		"anna, too":    {UID: "u-anna", KeyID: "key-2"},
		"anna, runs":   {UID: "u-anna", KeyID: "key-3", Rights: actor.Run},
		"anna, an app": {UID: "u-anna", KeyID: "key-4", Scope: actor.MCP},
		"ben":          {UID: "u-ben", KeyID: "key-5"},
	}
}

func told(who actor.Actor) string { return fmt.Sprint(who.UID, who.KeyID, who.Scope, who.Rights) }

// server is a keeper over HTTP. Its tool whoami says who calls; asking asks the person
// in front of the client.
type server struct {
	*kept.Keeper

	t     testing.TB
	url   string
	mu    sync.Mutex
	now   time.Time
	built int
	// asking is how many calls ask somebody.
	asking int
}

func serve(t testing.TB, s kept.Settings) *server {
	t.Helper()
	f := &server{t: t, now: time.Now()}
	s.Now = func() time.Time {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.now
	}
	s.Build = func(kept.Kind) *mcp.Server {
		f.mu.Lock()
		f.built++
		f.mu.Unlock()
		m := mcp.NewServer(&mcp.Implementation{Name: "test"}, nil)
		mcp.AddTool(m, &mcp.Tool{Name: "whoami"}, func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			ctx, c, ok := kept.CallerOf(ctx, req.Extra)
			if known, _ := actor.From(ctx); !ok || known != c.Who {
				return nil, nil, fmt.Errorf("%v, but %v", known, c.Who)
			}
			if req.Extra.Header.Get("X-Api-Key") != "" || strings.Contains(req.Extra.Header.Get("Authorization"), "key") {
				return nil, nil, fmt.Errorf("it sees a credential: %v", req.Extra.Header)
			}
			return text(told(c.Who)), nil, nil
		})
		mcp.AddTool(m, &mcp.Tool{Name: "asking"}, func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			_, c, _ := kept.CallerOf(ctx, req.Extra)
			said, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "who?"})
			if err != nil {
				return nil, nil, err
			}
			return text(told(c.Who) + said.Action), nil, nil
		})
		return m
	}
	f.Keeper = kept.New(s)
	require.NoError(t, f.Start(t.Context()))
	ts := httptest.NewServer(http.HandlerFunc(f.answer))
	f.url = ts.URL
	t.Cleanup(func() {
		ts.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, f.Stop(ctx))
		servers, sessions := f.Kept()
		require.Zero(t, servers+sessions)
	})
	return f
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

func (f *server) answer(w http.ResponseWriter, r *http.Request) {
	who, ok := keys()[r.Header.Get("X-Api-Key")]
	if !ok {
		who = actor.Actor{UID: r.Header.Get("X-Api-Key")}
	}
	r = r.WithContext(actor.With(r.Context(), who))
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	kept.Bring(w, r, who, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodDelete:
			err = f.End(r.Header.Get(kept.Header), who)
		case r.Header.Get(kept.Header) != "":
			err = f.Continue(w, r, who)
		case bytes.Contains(body, []byte(`"initialize"`)) && bytes.Contains(body, []byte("elicitation")):
			err = f.Open(w, r, who)
		default:
			f.Serve(w, r, who)
		}
	})
	if err != nil {
		http.Error(w, err.Error(), errs.CodeOf(err).Status())
	}
}

// later lets time pass, once every request is over that was answered: one may be under
// way, in which somebody is asked, with the answer to come.
func (f *server) later(d time.Duration) {
	f.t.Helper()
	require.Eventually(f.t, func() bool { return f.Busy() <= f.asking }, time.Minute, time.Millisecond)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

// keyed sends a key with every request.
type keyed struct{ key string }

// RoundTrip implements http.RoundTripper.
func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Api-Key", k.key)
	return http.DefaultTransport.RoundTrip(r)
}

// client connects in an era; with ask, it can ask a person.
func (f *server) client(key, era string, ask func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error)) (*mcp.ClientSession, error) {
	c := mcp.NewClient(&mcp.Implementation{Name: "test"}, &mcp.ClientOptions{ElicitationHandler: ask})
	return c.Connect(f.t.Context(), &mcp.StreamableClientTransport{
		Endpoint: f.url, HTTPClient: &http.Client{Transport: keyed{key}}, DisableStandaloneSSE: true, MaxRetries: -1,
	}, &mcp.ClientSessionOptions{ProtocolVersion: era})
}

func (f *server) connect(key, era string, ask func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error)) *mcp.ClientSession {
	f.t.Helper()
	session, err := f.client(key, era, ask)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = session.Close() }) // it may have ended
	return session
}

func call(ctx context.Context, session *mcp.ClientSession, tool string) (string, error) {
	got, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool})
	if err != nil {
		return "", err
	}
	said := got.Content[0].(*mcp.TextContent).Text
	if got.IsError {
		return "", fmt.Errorf("%s", said)
	}
	return said, nil
}

func accept(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	return &mcp.ElicitResult{Action: "accept"}, nil
}

// Requests of users and of several keys of one user, in both eras, with sessions and
// without, a hundred at once: each is answered for whoever sent it.
func TestRequestsAreAnsweredForTheirCaller(t *testing.T) {
	t.Parallel()
	f := serve(t, kept.Settings{})
	clients := map[*mcp.ClientSession]string{}
	for key := range keys() {
		clients[f.connect(key, "2026-07-28", nil)] = key
		clients[f.connect(key, "2025-11-25", nil)] = key
		clients[f.connect(key, "2025-11-25", accept)] = key
	}
	var all sync.WaitGroup
	for session, key := range clients {
		for range 7 {
			all.Go(func() {
				for range 200 / 7 {
					said, err := call(t.Context(), session, "whoami")
					if err != nil || said != told(keys()[key]) {
						t.Errorf("%s is told %q, %v", key, said, err)
					}
				}
			})
		}
	}
	all.Wait()
	servers, sessions := f.Kept()
	require.Equal(t, len(keys()), servers, "one for each key")
	require.Equal(t, len(keys()), sessions)
	require.Less(t, f.built, 3*len(keys()), "they are not made for each request")
}

// A session is of a user, and of what the credential that began it may do. A request in
// it is its own credential's; one of another kind finds no session.
func TestSessionsAreOfOneUserAndKind(t *testing.T) {
	t.Parallel()
	f := serve(t, kept.Settings{})
	session := f.connect("anna", "2025-11-25", accept)
	said, err := call(t.Context(), session, "asking")
	require.NoError(t, err)
	require.Equal(t, told(keys()["anna"])+"accept", said)
	for key, want := range map[string]int{"anna": 200, "anna, too": 200, "anna, runs": 404, "anna, an app": 404, "ben": 404} {
		status, body := f.post(key, session.ID(), `{"jsonrpc":"2.0","id":99,"method":"tools/call","params":{"name":"whoami","arguments":{}}}`)
		require.Equal(t, want, status, "%s: %s", key, body)
		if want == 200 {
			require.Contains(t, body, told(keys()[key]), "not of who began it")
		}
	}
	// An answer to nothing is no harm.
	status, _ := f.post("anna", session.ID(), `{"jsonrpc":"2.0","id":"4711","result":{"action":"accept"}}`)
	require.Equal(t, 202, status)
	_, err = call(t.Context(), session, "whoami")
	require.NoError(t, err)
	require.ErrorIs(t, f.End(session.ID(), keys()["ben"]), kept.ErrNoSession)
	require.NoError(t, f.End(session.ID(), keys()["anna"]))
	status, _ = f.post("anna", session.ID(), `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	require.Equal(t, 404, status)
}

func (f *server) post(key, session, body string) (int, string) {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.url, strings.NewReader(body))
	require.NoError(f.t, err)
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "X-Api-Key": {key}}
	if session != "" {
		r.Header.Set(kept.Header, session)
	}
	answer, err := http.DefaultClient.Do(r)
	require.NoError(f.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(f.t, err)
	return answer.StatusCode, string(text)
}

// A user, and all of them, have so many sessions: another one takes the place of the
// one that is idle for the longest time, never of one at work, nor of another user's
// where this one has too many. What is idle for long ends.
func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	f := serve(t, kept.Settings{Sessions: 4, PerUser: 3, SessionIdle: time.Hour})
	asked, said := make(chan struct{}), make(chan struct{})
	answer := sync.OnceFunc(func() { close(said) })
	busy := f.connect("anna", "2025-11-25", func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		close(asked)
		<-said
		return accept(ctx, nil)
	})
	t.Cleanup(answer)
	ended := make(chan error, 1)
	go func() {
		_, err := call(t.Context(), busy, "asking")
		ended <- err
	}()
	<-asked
	f.asking = 1
	bens := f.connect("ben", "2025-11-25", accept)
	f.later(time.Second)
	var hers []*mcp.ClientSession
	for range 4 { // beside the one at work
		hers = append(hers, f.connect("anna", "2025-11-25", accept))
		f.later(time.Second)
	}
	for i, session := range hers {
		_, err := call(t.Context(), session, "whoami")
		require.Equal(t, i >= 2, err == nil, "%d: %v", i, err)
		f.later(time.Second)
	}
	_, err := call(t.Context(), bens, "whoami")
	require.NoError(t, err)
	f.later(time.Second)
	_, sessions := f.Kept()
	require.Equal(t, 4, sessions)
	f.connect("cleo", "2025-11-25", accept) // in the place of hers
	_, sessions = f.Kept()
	require.Equal(t, 4, sessions)
	_, err = call(t.Context(), hers[2], "whoami")
	require.Error(t, err)

	f.later(58 * time.Minute)
	_, err = call(t.Context(), bens, "whoami")
	require.NoError(t, err)
	f.later(2 * time.Minute)
	f.Sweep()
	_, sessions = f.Kept()
	require.Equal(t, 2, sessions, "the one at work, and the one that was used")
	answer()
	require.NoError(t, <-ended)
	f.asking = 0
	f.later(time.Hour)
	f.Sweep()
	_, sessions = f.Kept()
	require.Zero(t, sessions)

	// Where all are at work, there is no room.
	one := serve(t, kept.Settings{Sessions: 1})
	hold, let := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(let) })
	first := one.connect("anna", "2025-11-25", func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		close(hold)
		<-let
		return accept(ctx, nil)
	})
	t.Cleanup(release)
	go func() {
		_, err := call(t.Context(), first, "asking")
		ended <- err
	}()
	<-hold
	_, err = one.client("ben", "2025-11-25", accept)
	require.ErrorContains(t, err, "Too Many Requests")
	release()
	require.NoError(t, <-ended)
	one.connect("ben", "2025-11-25", accept)
	one.Quiesce()
	_, err = one.client("ben", "2025-11-25", accept)
	require.Error(t, err, "a server that stops begins none")
}

// There are so many server objects, those that were used last; one that nobody uses
// ends. Where none can go, a request is answered all the same.
func TestServerObjectsAreBounded(t *testing.T) {
	t.Parallel()
	f := serve(t, kept.Settings{Servers: 2, Idle: time.Minute})
	ask := func(key string) {
		t.Helper()
		status, body := f.post(key, "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"whoami","arguments":{}}}`)
		require.Equal(t, 200, status)
		require.Contains(t, body, key)
		f.later(time.Second)
	}
	for _, key := range []string{"u-1", "u-2", "u-1", "u-3", "u-1"} {
		ask(key)
	}
	require.Equal(t, 3, f.built, "u-1 is there still: it was used after u-2")
	f.later(time.Minute)
	f.Sweep()
	servers, _ := f.Kept()
	require.Zero(t, servers)
	for _, key := range []string{"u-1", "u-2"} {
		f.connect(key, "2025-11-25", accept)
	}
	f.later(time.Hour)
	f.Sweep()
	servers, _ = f.Kept()
	require.Equal(t, 2, servers, "sessions use them")
	for range 2 {
		ask("u-3")
	}
	require.Equal(t, 7, f.built, "those for u-3 are not kept")
	servers, _ = f.Kept()
	require.Equal(t, 2, servers)
}
