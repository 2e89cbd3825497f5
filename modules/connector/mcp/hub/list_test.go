package hub_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/connector/mcp/hub"
	"github.com/portico-run/portico/modules/connector/mcp/hubtest"
	"github.com/portico-run/portico/modules/connector/mcp/listing"
	"github.com/portico-run/portico/modules/connector/mcp/server"
)

const anyObject = `{"type":"object"}`

func words(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return hubtest.Words("ok"), nil
}

// What a server says of its list arrives at once, whichever era it speaks, and is
// told.
func TestAChangedListIsKnownAndTold(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]func(*hubtest.Server) http.Handler{"modern": (*hubtest.Server).Handler, "legacy": (*hubtest.Server).Legacy} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, of := open(t, nil), hubtest.New()
			s := hubtest.Listen(t, "test", handler(of))
			require.NotContains(t, f.names(s), "later")
			of.Add("later", anyObject, words)
			of.Add("echo", `{"type":"object","properties":{"other":{"type":"string"}}}`, words)
			require.Eventually(t, func() bool {
				f.mu.Lock()
				defer f.mu.Unlock()
				c := listing.Change{}
				for _, one := range f.changes {
					c.Added, c.Changed = append(c.Added, one.Added...), append(c.Changed, one.Changed...)
				}
				return fmt.Sprint(c.Added, c.Changed) == "[later] [echo]"
			}, time.Minute, 20*time.Millisecond)
			require.Contains(t, f.names(s), "later")
		})
	}
}

// A change that cannot be asked about at once is not forgotten.
func TestAChangeIsAskedForAgain(t *testing.T) {
	t.Parallel()
	f, of := open(t, nil), hubtest.New()
	var broken atomic.Bool
	refused := make(chan struct{}, 100)
	of.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if method == "tools/list" && broken.Load() {
				refused <- struct{}{}
				return nil, errors.New("busy")
			}
			return next(ctx, method, r)
		}
	})
	s := hubtest.Listen(t, "test", of.Legacy())
	require.NotContains(t, f.names(s), "later")
	broken.Store(true)
	of.Add("later", anyObject, words)
	<-refused
	_, err := f.Refresh(t.Context(), anna(), s)
	require.Error(t, err)
	broken.Store(false)
	require.Contains(t, f.names(s), "later")
}

// A server that says nothing of its changes is asked again: on its interval, and
// where it does not know a tool any more.
func TestAListIsRenewedWithoutAWord(t *testing.T) {
	t.Parallel()
	of := hubtest.New()
	quiet := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server {
		one := mcp.NewServer(&mcp.Implementation{Name: "quiet", Version: "1"}, &mcp.ServerOptions{
			SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.TTLMs = 3_600_000 },
		})
		name := "before"
		if of.Calls.Load() > 0 {
			name = "after"
		}
		one.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(anyObject)}, words)
		return one
	}, &mcp.StreamableHTTPOptions{Stateless: true})
	s := hubtest.Listen(t, "test", quiet)
	s.Refresh = 50 * time.Millisecond
	f := open(t, nil)
	require.Equal(t, []string{"before"}, f.names(s))
	of.Calls.Add(1)
	require.Eventually(t, func() bool { return f.names(s)[0] == "after" }, time.Minute, 20*time.Millisecond)

	of.Calls.Store(0)
	s.Version, s.Refresh = "2", time.Hour
	require.Eventually(t, func() bool {
		_, err := f.Refresh(t.Context(), anna(), s)
		return err == nil && f.names(s)[0] == "before"
	}, time.Minute, 20*time.Millisecond)
	of.Calls.Add(1)
	_, failure := f.call(s, "before", `{}`)
	require.Equal(t, hub.CodeProtocol, failure.Code, failure.Message)
	require.Eventually(t, func() bool { return f.names(s)[0] == "after" }, time.Minute, 20*time.Millisecond)
}

// The last good list stays where a server cannot be asked, in this process and in
// the next.
func TestTheLastGoodListStays(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	handler := hubtest.New().Handler()
	s := hubtest.Listen(t, "test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			http.Error(w, "out of order", http.StatusServiceUnavailable)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	f := open(t, nil)
	before := f.names(s)
	down.Store(true)
	_, err := f.Refresh(t.Context(), anna(), s)
	require.Error(t, err)
	require.Equal(t, before, f.names(s))
	require.Equal(t, server.Degraded, f.Health(anna(), s).State)

	next := open(t, nil)
	kept, err := f.directory.Last(t.Context(), s)
	require.NoError(t, err)
	require.NoError(t, next.directory.Keep(t.Context(), s, kept))
	require.Equal(t, before, next.names(s), "what was kept is known without a connection")
	require.Zero(t, next.Connections())
}

// Who asks for it does not wait until a server is tried again.
func TestAServerThatFailedIsTriedAtOnce(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	down.Store(true)
	handler := hubtest.New().Legacy()
	s := hubtest.Listen(t, "test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			http.Error(w, "out of order", http.StatusServiceUnavailable)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	f := open(t, nil)
	for range 7 { // the last one is for a minute
		_, err := f.Refresh(t.Context(), anna(), s)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "tried again")
	}
	_, failure := f.call(s, "echo", `{}`)
	require.Contains(t, failure.Message, "It is tried again in ")
	down.Store(false)
	_, err := f.Refresh(t.Context(), anna(), s)
	require.NoError(t, err)
	_, failure = f.call(s, "echo", `{}`)
	require.Nil(t, failure)
}

// What nobody can call is left out, with the reason; the others are there.
func TestWhatCannotBeCalledIsLeftOut(t *testing.T) {
	t.Parallel()
	page := func(tools ...string) http.HandlerFunc {
		return raw(func(method string) string {
			if method == "tools/list" {
				return `{"tools":[` + strings.Join(tools, ",") + `]}`
			}
			return ""
		})
	}
	deep := strings.Repeat(`{"type":"object","properties":{"a":`, 3) + "{}" + strings.Repeat("}}", 3)
	s := hubtest.Listen(t, "test", page(
		`{"name":"good","inputSchema":`+deep+`}`,
		`{"name":"good","inputSchema":`+anyObject+`}`,
		`{"name":"tab\there","inputSchema":`+anyObject+`}`,
		`{"name":"list","inputSchema":{"type":"array"}}`,
		`{"name":"broken","inputSchema":{"type":"object","properties":{"a":{"type":"nothing"}}}}`,
		`{"name":"elsewhere","inputSchema":{"type":"object","properties":{"a":{"$ref":"https://example.com/a.json"}}}}`,
		`{"name":"thief","inputSchema":{"type":"object","properties":{"a":{"type":"string","isResource":true}}}}`,
		`{"name":"huge","inputSchema":{"type":"object","description":"`+strings.Repeat("x", 300<<10)+`"}}`,
	))
	f := open(t, nil)
	list, err := f.Tools(t.Context(), anna(), s)
	require.NoError(t, err)
	require.Len(t, list.Tools, 1)
	require.Equal(t, deep, string(list.Tools[0].Input))
	require.Len(t, list.Left, 7, "%v", list.Left)
	require.Contains(t, list.Left["thief"], "isResource")
	require.Contains(t, list.Left["huge"], "bytes")
}

func TestAServerHasABoundOfTools(t *testing.T) {
	t.Parallel()
	var tools []string
	for i := range 2102 {
		tools = append(tools, fmt.Sprintf(`{"name":"t%d","inputSchema":%s}`, i, anyObject))
	}
	s := hubtest.Listen(t, "test", raw(func(method string) string {
		if method == "tools/list" {
			return `{"tools":[` + strings.Join(tools, ",") + `]}`
		}
		return ""
	}))
	list, err := open(t, nil).Tools(t.Context(), anna(), s)
	require.NoError(t, err)
	require.Len(t, list.Tools, 2000)
	require.Len(t, list.Left, 101)
	require.Contains(t, list.Left, "t2099")
	require.Contains(t, list.Left, "and 2 more")
}

func TestAListWithoutAnEndIsRefused(t *testing.T) {
	t.Parallel()
	s := hubtest.Listen(t, "test", raw(func(method string) string {
		if method == "tools/list" {
			return `{"tools":[],"nextCursor":"again"}`
		}
		return ""
	}))
	_, err := open(t, nil).Tools(t.Context(), anna(), s)
	require.ErrorContains(t, err, "same cursor")
}

// raw is a server of the era before that answers with what it is given, by the
// method that is called.
func raw(result func(method string) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			ID     json.RawMessage
			Method string
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&asked) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		answer := result(asked.Method)
		switch {
		case asked.Method == "initialize":
			answer = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`
		case len(asked.ID) == 0:
			w.WriteHeader(http.StatusAccepted)
			return
		case answer == "":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, asked.ID)
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, asked.ID, answer)
	}
}
