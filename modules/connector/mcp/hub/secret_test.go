package hub_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/egress"
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
