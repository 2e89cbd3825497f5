package hub_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/budget"
	"github.com/portico-run/portico/internal/egress"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/connector/mcp/hub"
	"github.com/portico-run/portico/modules/connector/mcp/hubtest"
	"github.com/portico-run/portico/modules/connector/mcp/listing"
	"github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/connector/mcp/stdio"
	"github.com/portico-run/portico/modules/sandbox/guest"
)

func TestMain(m *testing.M) {
	hubtest.Main()
	os.Exit(m.Run())
}

// fixture is a hub at work.
type fixture struct {
	*hub.Hub
	t         *testing.T
	directory *hubtest.Directory
	dir       string

	mu      sync.Mutex
	changes []listing.Change
	said    []string
}

func anna() actor.Actor { return actor.Actor{UID: "u-anna"} }

func open(t *testing.T, change func(*hub.Settings)) *fixture {
	t.Helper()
	return openWithin(t, 2<<30, change) // the servers are this program: the race detector takes many times the memory
}

// openWithin is open with another bound on the memory of a process.
func openWithin(t *testing.T, memory int64, change func(*hub.Settings)) *fixture {
	t.Helper()
	f := &fixture{t: t, directory: &hubtest.Directory{}, dir: t.TempDir()}
	processes, err := stdio.New(stdio.Settings{
		Dir: f.dir, Path: os.Getenv("PATH"), Memory: memory, Processes: 64, Files: 256,
		Guest: guest.Config{Root: guest.DefaultRoot(map[string]string{"HOME": os.Getenv("HOME"), "XDG_DATA_HOME": os.Getenv("XDG_DATA_HOME")})},
	})
	require.NoError(t, err)
	web := egress.New(egress.Config{})
	t.Cleanup(web.Close)
	s := hub.Settings{Connect: 20 * time.Second, List: 20 * time.Second, Call: time.Minute, ResponseCap: 4 << 20}
	if change != nil {
		change(&s)
	}
	f.Hub = hub.New(hub.Deps{
		Directory: f.directory, Client: web, Processes: processes, Settings: s, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Changed: func(_ context.Context, _ actor.Actor, _ server.Server, c listing.Change) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.changes = append(f.changes, c)
		},
	})
	require.NoError(t, f.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		require.NoError(t, f.Stop(ctx))
	})
	return f
}

// call makes a call and returns its answer, or its failure.
func (f *fixture) call(s server.Server, tool, arguments string) (hub.Answer, *upstream.Failure) {
	f.t.Helper()
	got, err := f.Call(f.t.Context(), anna(), s, hub.Call{Tool: tool, Arguments: json.RawMessage(arguments), Report: func(_ context.Context, text string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.said = append(f.said, text)
	}})
	if err != nil {
		failure := &upstream.Failure{}
		require.ErrorAs(f.t, err, &failure)
		return got, failure
	}
	return got, nil
}

func (f *fixture) names(s server.Server) []string {
	f.t.Helper()
	list, err := f.Tools(f.t.Context(), anna(), s)
	require.NoError(f.t, err)
	var names []string
	for _, t := range list.Tools {
		names = append(names, t.Name)
	}
	return names
}

// everywhere runs a test with servers of both eras and both transports.
func everywhere(t *testing.T, test func(t *testing.T, s server.Server)) {
	for name, make := range map[string]func(t *testing.T) server.Server{
		"http":        func(t *testing.T) server.Server { return hubtest.Listen(t, "test", hubtest.New().Handler()) },
		"http-legacy": func(t *testing.T) server.Server { return hubtest.Listen(t, "test", hubtest.New().Legacy()) },
		"stdio":       func(t *testing.T) server.Server { return hubtest.Process(t, "test", hubtest.Good) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, make(t))
		})
	}
}

// A program gets the value of what is structured, exact and in its order; else
// of its JSON, else its words.
func TestAnswersAreValues(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, s server.Server) {
		f := open(t, nil)
		for tool, want := range map[string]string{
			"structured": `{"zeta":9007199254740993,"alpha":[1]}`,
			"echo":       `{"zeta":"ü","alpha":9007199254740993}`,
			"text":       `"first\nsecond"`,
		} {
			got, failure := f.call(s, tool, `{"zeta":"ü","alpha":9007199254740993}`)
			require.Nil(t, failure, "%s: %v", tool, failure)
			require.Equal(t, want, string(got.Data), tool)
		}
		_, failure := f.call(s, "fail", `{}`)
		require.Equal(t, &upstream.Failure{Code: hub.CodeTool, Message: "the disk is full"}, failure)
		require.Equal(t, server.Ready, f.Health(anna(), s).State)
	})
}

// Servers that write all members have null where they have nothing.
func TestNullIsNoAnswer(t *testing.T) {
	t.Parallel()
	s := hubtest.Listen(t, "test", raw(func(method string) string {
		if method == "tools/call" {
			return `{"content":[{"type":"text","text":"the answer"}],"structuredContent": null ,"isError":false}`
		}
		return ""
	}))
	got, failure := open(t, nil).call(s, "any", `{}`)
	require.Nil(t, failure, "%v", failure)
	require.Equal(t, `"the answer"`, string(got.Data))
	require.False(t, got.Structured)
}

func TestFilesOfAnswers(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, s server.Server) {
		f := open(t, nil)
		got, failure := f.call(s, "files", `{}`)
		require.Nil(t, failure)
		require.Equal(t, `"two of them"`, string(got.Data))
		require.Len(t, got.Files, 2)
		require.Equal(t, "image/png", got.Files[0].Type)
		require.Equal(t, "notes.txt", got.Files[1].Name)
		require.Equal(t, "notes", string(got.Files[1].Content))
		got, failure = f.call(s, "link", `{}`)
		require.Nil(t, failure)
		require.Len(t, got.Files, 1)
		require.Equal(t, "report.csv", got.Files[0].Name)
		require.Equal(t, "a,b\n1,2\n", string(got.Files[0].Content))
	})
}

// There is room for what is behind links before it is read.
func TestWhatIsBehindLinksWaitsForRoom(t *testing.T) {
	t.Parallel()
	b, of := budget.New(4<<20, 4<<20), hubtest.New()
	var free atomic.Bool
	of.AddResource(&mcp.Resource{URI: "test://report.csv", Name: "report.csv"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		ctx, hold := b.Open(t.Context(), "ben")
		defer hold.Release()
		ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		free.Store(budget.Take(ctx, 1) == nil)
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "test://report.csv", Text: "a"}}}, nil
	})
	ctx, hold := b.Open(t.Context(), "anna")
	defer hold.Release()
	got, err := open(t, nil).Call(ctx, anna(), hubtest.Listen(t, "test", of.Handler()), hub.Call{Tool: "link", Arguments: json.RawMessage(`{}`)})
	require.NoError(t, err)
	require.Len(t, got.Files, 1)
	require.False(t, free.Load())
}

// A link that is never answered keeps no call.
func TestALinkThatIsNeverAnswered(t *testing.T) {
	t.Parallel()
	f, of := open(t, func(s *hub.Settings) { s.Call = 500 * time.Millisecond }), hubtest.New()
	var asked atomic.Int64
	of.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if method == "resources/read" {
				asked.Add(1)
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return next(ctx, method, r)
		}
	})
	of.Add("links", anyObject, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.ResourceLink{URI: "test://a.csv", Name: "a"}, &mcp.ResourceLink{URI: "test://b.csv", Name: "b"}}}, nil
	})
	got, failure := f.call(hubtest.Listen(t, "test", of.Legacy()), "links", `{}`)
	require.Nil(t, failure)
	require.Equal(t, `"Resources that were not fetched: test://a.csv test://b.csv"`, string(got.Data))
	require.EqualValues(t, 1, asked.Load())
}

// A list has all pages, and schemas in the order of the server.
func TestListsAreWhole(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, s server.Server) {
		f := open(t, nil)
		list, err := f.Tools(t.Context(), anna(), s)
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(list.Tools), 12)
		require.Empty(t, list.Left)
		for _, tool := range list.Tools {
			if tool.Name == "echo" {
				require.Equal(t, `{"type":"object","properties":{"zeta":{"type":"string"},"alpha":{"type":"integer"}}}`, string(tool.Input))
			}
			require.Len(t, tool.Hash, 32)
		}
	})
}

func TestAnAnswerOverTheLimitIsAFailureOfItsCallAlone(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, s server.Server) {
		f := open(t, nil)
		_, failure := f.call(s, "big", `{}`)
		require.NotNil(t, failure)
		require.Equal(t, upstream.CodeTooLarge, failure.Code, failure.Message)
		before := f.Connections()
		_, failure = f.call(s, "echo", `{}`)
		require.Nil(t, failure)
		require.Equal(t, before, f.Connections())
		require.Equal(t, server.Ready, f.Health(anna(), s).State)
	})
}

// Progress is shown, and keeps a call alive for longer than a server may be
// silent.
func TestProgressIsShownAndExtendsTheWait(t *testing.T) {
	testenv.Slow(t, "calls that outlast their time")
	t.Parallel()
	everywhere(t, func(t *testing.T, s server.Server) {
		f := open(t, func(s *hub.Settings) { s.Call = 3 * time.Second })
		got, failure := f.call(s, "slow", `{"alpha":40}`)
		require.Nil(t, failure)
		require.Equal(t, `"done"`, string(got.Data))
		f.mu.Lock()
		said := strings.Join(f.said, "\n")
		f.mu.Unlock()
		require.Contains(t, said, "of 40 steps")
		require.LessOrEqual(t, len(f.said), 10, "each is an event")
		_, failure = f.call(s, "hang", `{}`)
		require.Equal(t, upstream.CodeTimeout, failure.Code)
	})
}

func TestAQuestionIsDeclinedAndTold(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	s := hubtest.Listen(t, "test", hubtest.New().Handler())
	_, failure := f.call(s, "ask", `{}`)
	require.Equal(t, hub.CodeQuestion, failure.Code)
	require.Contains(t, failure.Message, "Really delete all?")
	require.Contains(t, strings.Join(f.said, "\n"), "Really delete all?")
}

// The end of the caller is the end of the call, at the server, too.
func TestACallThatEndsIsCancelledAtTheServer(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]func(*hubtest.Server) http.Handler{"modern": (*hubtest.Server).Handler, "legacy": (*hubtest.Server).Legacy} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, of := open(t, nil), hubtest.New()
			s := hubtest.Listen(t, "test", handler(of))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				_, err := f.Call(ctx, anna(), s, hub.Call{Tool: "hang", Arguments: json.RawMessage(`{}`)})
				ended <- err
			}()
			require.Eventually(t, func() bool { return of.Calls.Load() == 1 }, time.Minute, time.Millisecond)
			cancel()
			require.Error(t, <-ended)
			require.Eventually(t, func() bool { return of.Cancelled.Load() == 1 }, time.Minute, 10*time.Millisecond)
			require.EqualValues(t, 1, of.Calls.Load(), "a call is sent once")
		})
	}
}
