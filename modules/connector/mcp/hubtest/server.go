package hubtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portico-run/portico/modules/connector/mcp/server"
)

// Server is an MCP server with tools that do what servers do, good and bad.
type Server struct {
	*mcp.Server
	// Calls is how often a tool was called.
	Calls atomic.Int64
	// Cancelled is how often a call was told to end.
	Cancelled atomic.Int64
}

// New returns a server that is reachable nowhere yet.
func New() *Server {
	s := &Server{Server: mcp.NewServer(&mcp.Implementation{Name: "hubtest", Version: "1"}, &mcp.ServerOptions{PageSize: 4})}
	for name, run := range map[string]mcp.ToolHandler{
		"echo": s.echo, "fail": fail, "files": files, "link": link, "text": text, "slow": s.slow, "hang": s.hang, "ask": ask, "big": big,
		"die": die, "mute": mute, "flood": flood, "structured": structured,
	} {
		s.Add(name, `{"type":"object","properties":{"zeta":{"type":"string"},"alpha":{"type":"integer"}}}`, run)
	}
	s.AddResource(&mcp.Resource{URI: "test://report.csv", Name: "report.csv", MIMEType: "text/csv"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "test://report.csv", MIMEType: "text/csv", Text: "a,b\n1,2\n"}}}, nil
	})
	return s
}

// Add adds a tool, or replaces one; whoever is connected hears of it.
func (s *Server) Add(name, schema string, run mcp.ToolHandler) {
	s.AddTool(&mcp.Tool{Name: name, Description: "Does " + name + ".", InputSchema: json.RawMessage(schema)}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s.Calls.Add(1)
		return run(ctx, r)
	})
}

// Words is a result of texts.
func Words(texts ...string) *mcp.CallToolResult {
	out := &mcp.CallToolResult{}
	for _, t := range texts {
		out.Content = append(out.Content, &mcp.TextContent{Text: t})
	}
	return out
}

func (s *Server) echo(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return Words(string(r.Params.Arguments)), nil
}

func text(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return Words("first", "second"), nil
}

func fail(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	out := Words("the disk is full")
	out.IsError = true
	return out, nil
}

// structured has a number that no double holds.
func structured(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	out := Words("for people")
	out.StructuredContent = json.RawMessage(`{"zeta":9007199254740993,"alpha":[1]}`)
	return out, nil
}

func files(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{
		&mcp.TextContent{Text: "two of them"},
		&mcp.ImageContent{MIMEType: "image/png", Data: []byte("\x89PNG\r\n\x1a\nimage")},
		&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "test://notes.txt", MIMEType: "text/plain", Text: "notes"}},
	}}, nil
}

func link(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.ResourceLink{URI: "test://report.csv", Name: "report.csv"}}}, nil
}

// slow takes as many steps of 100 ms as alpha says, and tells of each.
func (s *Server) slow(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var in struct{ Alpha int }
	if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
		return nil, err
	}
	for i := range in.Alpha {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			s.Cancelled.Add(1)
			return nil, ctx.Err()
		}
		_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: float64(in.Alpha), Message: "steps",
		})
	}
	return Words("done"), nil
}

func (s *Server) hang(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	<-ctx.Done()
	s.Cancelled.Add(1)
	return nil, ctx.Err()
}

// ask asks a question, and returns the answer.
func ask(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if len(r.Params.InputResponses) > 0 {
		text, err := json.Marshal(r.Params.InputResponses["q"])
		return Words(string(text)), err
	}
	return &mcp.CallToolResult{RequestState: "state", InputRequests: mcp.InputRequestMap{
		"q": &mcp.ElicitParams{Message: "Really delete all?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"yes":{"type":"boolean"}}}`)},
	}}, nil
}

// big answers with 20 MiB.
func big(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return Words(strings.Repeat("x", 20<<20)), nil
}

func die(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	fmt.Fprintln(os.Stderr, "last words")
	os.Exit(3)
	return nil, errors.New("not reached")
}

// mute closes its output, and says why when its input has ended too.
func mute(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	_ = os.Stdout.Close()
	_, _ = io.Copy(io.Discard, os.Stdin)
	fmt.Fprintln(os.Stderr, "last words")
	os.Exit(3)
	return nil, errors.New("not reached")
}

// flood writes 200 KiB to stderr.
func flood(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	for i := range 20_000 {
		fmt.Fprintf(os.Stderr, "line %d\n", i)
	}
	return Words("flooded"), nil
}

// Handler serves both eras of the protocol on one address.
func (s *Server) Handler() http.Handler {
	get := func(*http.Request) *mcp.Server { return s.Server }
	modern := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true})
	legacy := mcp.NewStreamableHTTPHandler(get, nil)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Protocol-Version") >= "2026-07-28" {
			modern.ServeHTTP(w, r)
			return
		}
		legacy.ServeHTTP(w, r)
	})
}

// Legacy serves the era before only.
func (s *Server) Legacy() http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.Server }, &mcp.StreamableHTTPOptions{})
}

// Loopback is where servers of tests are.
func Loopback() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }

// Listen makes handlers reachable until the test ends.
func Listen(t testing.TB, name string, h http.Handler) server.Server {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = web.Serve(l) // it ends with Close
	}()
	t.Cleanup(func() {
		_ = web.Close() // without waiting for calls that hang
		<-ended
	})
	return server.Server{Name: name, Transport: server.HTTP, URL: "http://" + l.Addr().String(), Egress: Loopback(), Version: "1"}
}

// variable makes a test's binary a server.
const variable = "HUBTEST_SERVER"

// Process is the test's own binary as a server of stdio. Its TestMain calls Main.
func Process(t testing.TB, name, mode string) server.Server {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return server.Server{Name: name, Transport: server.Stdio, Command: self, Env: map[string]string{variable: mode}, Version: "1"}
}

// The modes of a Process.
const (
	Good     = "good"
	Careless = "careless" // prints what is no message
	Silent   = "silent"   // says nothing to what it does not know
	Dead     = "dead"     // ends at once
	Deaf     = "deaf"     // never says anything
)

// Main is the server where this process was started as one; otherwise it returns.
func Main() {
	mode := os.Getenv(variable)
	switch mode {
	case "":
		return
	case Dead:
		fmt.Fprintln(os.Stderr, "cannot read the configuration")
		os.Exit(1)
	case Deaf:
		select {}
	case Careless:
		fmt.Fprintln(os.Stdout, "Welcome to the server!")
	}
	s := New()
	s.Add("where", `{"type":"object"}`, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		dir, err := os.Getwd()
		if err != nil {
			return nil, err
		}
		out, err := json.Marshal(map[string]any{"dir": dir, "env": os.Environ(), "pid": os.Getpid()})
		return Words(string(out)), err
	})
	var t mcp.Transport = &mcp.StdioTransport{}
	if mode == Silent {
		t = silent{t}
	}
	_ = s.Run(context.Background(), t)
	os.Exit(0)
}
