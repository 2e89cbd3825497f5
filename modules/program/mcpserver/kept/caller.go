package kept

import (
	"context"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portico-run/portico/internal/actor"
)

// Caller is who sent a request.
type Caller struct {
	Who actor.Actor
	// Gone is closed when the client has gone. Requests of the older era are not
	// cancelled with their connection, since other servers let them come back to it.
	Gone <-chan struct{}

	value func(key any) any // what the request's context knows
}

// callerKey is where a request's facts have their caller.
const callerKey = "caller"

// Bring hands a request on with its caller, and without its credential.
func Bring(w http.ResponseWriter, r *http.Request, who actor.Actor, next http.HandlerFunc) {
	c := Caller{Who: who, Gone: r.Context().Done(), value: r.Context().Value}
	r = r.Clone(r.Context())
	for _, name := range []string{"X-Api-Key", "Cookie"} {
		r.Header.Del(name)
	}
	// The SDK hands on what belongs to one request of a session with its token, which it
	// wants to see.
	r.Header.Set("Authorization", "Bearer checked")
	known := func(context.Context, string, *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: who.UID, Extra: map[string]any{callerKey: c}}, nil
	}
	auth.RequireBearerToken(known, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(next).ServeHTTP(w, r)
}

// CallerOf is who sent the request that a handler answers, and the context of that
// answer, which knows what the request's knows. There is none where nobody was brought.
func CallerOf(ctx context.Context, of *mcp.RequestExtra) (context.Context, Caller, bool) {
	if of == nil || of.TokenInfo == nil {
		return ctx, Caller{}, false
	}
	c, ok := of.TokenInfo.Extra[callerKey].(Caller)
	return known{ctx, c.value}, c, ok
}

// known is a context that knows what another one knows, too.
type known struct {
	context.Context //nolint:containedctx // it is one

	value func(key any) any
}

// Value implements context.Context.
func (k known) Value(key any) any {
	if v := k.value(key); v != nil {
		return v
	}
	return k.Context.Value(key)
}
