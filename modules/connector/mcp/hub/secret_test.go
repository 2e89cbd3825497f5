package hub_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/egress"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/connector/mcp/hub"
	"github.com/portico-run/portico/modules/connector/mcp/hubtest"
	"github.com/portico-run/portico/modules/connector/mcp/server"
)

// holds is an authorizer of a user who has connected.
type holds struct{ auth.OAuthHandler }

func (holds) Authorizer(context.Context, actor.Actor, server.Server) (auth.OAuthHandler, error) {
	return holds{}, nil
}

func (holds) TokenSource(context.Context) (oauth2.TokenSource, error) {
	return oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "token-of-anna", TokenType: "Bearer"}), nil
}

// The token of a user is a secret as the headers of the server are.
func TestAnAnswerRepeatsNoToken(t *testing.T) {
	t.Parallel()
	web := egress.New(egress.Config{})
	t.Cleanup(web.Close)
	h := hub.New(hub.Deps{Directory: &hubtest.Directory{}, Client: web, Authorizer: holds{}})
	require.NoError(t, h.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, h.Stop(context.Background())) })
	for name, handler := range map[string]func(*hubtest.Server) http.Handler{"modern": (*hubtest.Server).Handler, "legacy": (*hubtest.Server).Legacy} {
		of := hubtest.New()
		of.Add("headers", anyObject, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return hubtest.Words(r.Extra.Header.Get("Authorization")), nil
		})
		got, err := h.Call(t.Context(), anna(), hubtest.Listen(t, name, handler(of)), hub.Call{Tool: "headers", Arguments: json.RawMessage(`{}`)})
		require.NoError(t, err)
		require.Equal(t, `"Bearer [redacted]"`, string(got.Data))
	}
}

const key = "key-of-the-operator"

// repeats is a server with a tool that gives back the key that it was sent.
func repeats(t *testing.T, tool func(r *mcp.CallToolRequest, said string) (*mcp.CallToolResult, error)) server.Server {
	of := hubtest.New()
	of.Add("repeat", anyObject, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return tool(r, "with "+r.Extra.Header.Get("X-Key"))
	})
	s := hubtest.Listen(t, "test", of.Legacy())
	s.Headers = map[string]string{"X-Key": key}
	return s
}

func TestProgressRepeatsNoSecret(t *testing.T) {
	t.Parallel()
	f, shown, watched := open(t, nil), make(chan string, 1), make(chan struct{})
	s := repeats(t, func(r *mcp.CallToolRequest, said string) (*mcp.CallToolResult, error) {
		err := r.Session.NotifyProgress(t.Context(), &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1, Message: said})
		<-watched
		return hubtest.Words("done"), err
	})
	_, err := f.Call(t.Context(), anna(), s, hub.Call{Tool: "repeat", Arguments: json.RawMessage(`{}`), Report: func(_ context.Context, text string) {
		shown <- text
		close(watched)
	}})
	require.NoError(t, err)
	require.Equal(t, "with [redacted]", <-shown)
}

// A question that nobody answers is in the failure of its call, and is told.
func TestQuestionsThatAreToldRepeatNoSecret(t *testing.T) {
	t.Parallel()
	f := open(t, nil)
	s := repeats(t, func(r *mcp.CallToolRequest, said string) (*mcp.CallToolResult, error) {
		_, err := r.Session.Elicit(t.Context(), &mcp.ElicitParams{Message: said, RequestedSchema: json.RawMessage(anyObject)})
		return nil, err
	})
	_, failure := f.call(s, "repeat", `{}`)
	require.Equal(t, hub.CodeQuestion, failure.Code)
	require.Contains(t, failure.Message, "with [redacted]")
	require.Contains(t, strings.Join(f.said, " "), "with [redacted]")
	require.NotContains(t, failure.Message+strings.Join(f.said, " "), key)
}

// What is cut has no part of a secret at its end either.
func TestFailuresRepeatNoSecret(t *testing.T) {
	t.Parallel()
	cut := func(most int) string { return strings.Repeat("x", most-len("with ")-10) }
	_, failure := open(t, nil).call(repeats(t, func(_ *mcp.CallToolRequest, said string) (*mcp.CallToolResult, error) {
		return nil, &jsonrpc.Error{Code: -32000, Message: cut(upstream.MaxReason) + said}
	}), "repeat", `{}`)
	require.Equal(t, hub.CodeProtocol, failure.Code)
	require.NotContains(t, failure.Message, key[:8])
	_, failure = open(t, nil).call(repeats(t, func(_ *mcp.CallToolRequest, said string) (*mcp.CallToolResult, error) {
		out := hubtest.Words(cut(8<<10) + said)
		out.IsError = true
		return out, nil
	}), "repeat", `{}`)
	require.Equal(t, hub.CodeTool, failure.Code)
	require.NotContains(t, failure.Message, key[:8])
}

// The SDK takes an error with this code for an answer that is none.
func TestAnErrorOfHTTPRepeatsNoSecret(t *testing.T) {
	t.Parallel()
	legacy := hubtest.New().Legacy()
	s := hubtest.Listen(t, "test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Session-Id") == "" {
			legacy.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":2,"error":{"code":-32005,"message":"with %s"}}`, r.Header.Get("X-Key"))
	}))
	s.Headers = map[string]string{"X-Key": key}
	_, failure := open(t, nil).call(s, "echo", `{}`)
	require.Contains(t, failure.Message, "with [redacted]")
}

// Texts in files have no secret; what is no text stays as it is.
func TestFilesRepeatNoSecret(t *testing.T) {
	t.Parallel()
	s := repeats(t, func(_ *mcp.CallToolRequest, said string) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "test://a.txt", Text: said}},
			&mcp.ImageContent{MIMEType: "image/png", Data: []byte("\xff" + said)},
		}}, nil
	})
	got, failure := open(t, nil).call(s, "repeat", `{}`)
	require.Nil(t, failure)
	require.Equal(t, "with [redacted]", string(got.Files[0].Content))
	require.Equal(t, "\xffwith "+key, string(got.Files[1].Content))
}
