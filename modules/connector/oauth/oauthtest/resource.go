package oauthtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/ory/fosite"
)

const resourcePath = "/.well-known/oauth-protected-resource/mcp"

// Document is the API's OpenAPI document.
func (s *Server) Document() string {
	return `openapi: 3.1.0
info: {title: Notes, version: "1"}
servers: [{url: ` + s.Server.URL + `/api}]
components:
  securitySchemes:
    account:
      type: oauth2
      flows:
        authorizationCode: {authorizationUrl: ` + s.Issuer + `/authorize, tokenUrl: ` + s.Issuer + `/token, scopes: {tools: Read, write: Write, offline_access: Stay}}
security: [{account: [tools, offline_access]}]
paths:
  /me: {get: {operationId: me, summary: Says who asks., responses: {"200": {description: You}}}}
  /notes: {post: {operationId: note, summary: Takes a note., responses: {"200": {description: Taken}}}}
`
}

// resource describes the MCP server to clients.
func (s *Server) resource(w http.ResponseWriter, r *http.Request) {
	if s.settings.NoMetadata {
		http.NotFound(w, r)
		return
	}
	answer(w, http.StatusOK, map[string]any{"resource": s.URL, "authorization_servers": []string{s.Issuer}, "scopes_supported": []string{"tools"}})
}

// verify finds whose token it is. The token must be for this resource.
func (s *Server) verify(ctx context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	s.tokens.Lock()
	defer s.tokens.Unlock()
	_, found, err := s.provider.IntrospectToken(ctx, token, fosite.AccessToken, session("", ""))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", auth.ErrInvalidToken, err)
	}
	who, ok := found.GetSession().(*fosite.DefaultSession)
	if !ok || who.Extra["resource"] != s.URL {
		return nil, fmt.Errorf("%w: of another resource", auth.ErrInvalidToken)
	}
	return &auth.TokenInfo{
		UserID: who.Subject, Scopes: found.GetGrantedScopes(), Expiration: time.Now().Add(time.Hour), // the introspection has checked it
	}, nil
}

// protected is an MCP server whose tools and answers differ between users: whoami,
// which says who asks, and one whose name has the user's.
func (s *Server) protected() http.Handler {
	servers := func(r *http.Request) *mcp.Server {
		of := mcp.NewServer(&mcp.Implementation{Name: "protected", Version: "1"}, nil)
		user := "nobody"
		if info := auth.TokenInfoFromContext(r.Context()); info != nil {
			user = info.UserID
		}
		of.AddTool(&mcp.Tool{Name: "whoami", Description: "Says who asks.", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: r.Extra.TokenInfo.UserID}}}, nil
		})
		of.AddTool(&mcp.Tool{Name: "of_" + strings.ReplaceAll(user, "-", "_"), InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{}, nil
		})
		return of
	}
	handler := mcp.NewStreamableHTTPHandler(servers, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	options := &auth.RequireBearerTokenOptions{Scopes: []string{"tools"}}
	if !s.settings.NoMetadata {
		options.ResourceMetadataURL = s.Server.URL + resourcePath
	}
	return counted{s, auth.RequireBearerToken(s.verify, options)(s.stepUp(handler))}
}

// stepUp wants the scope write for the tool that needs it.
func (s *Server) stepUp(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info := auth.TokenInfoFromContext(r.Context())
		if r.Header.Get("X-Needs") == "write" && !strings.Contains(strings.Join(info.Scopes, " "), "write") {
			w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="write"`)
			w.WriteHeader(http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// api says who asks, and takes notes from those with the scope write.
func (s *Server) api() http.Handler {
	mux := http.NewServeMux()
	says := func(w http.ResponseWriter, r *http.Request) {
		info := auth.TokenInfoFromContext(r.Context())
		answer(w, http.StatusOK, map[string]any{"user": info.UserID, "scopes": info.Scopes})
	}
	mux.HandleFunc("GET /api/me", says)
	mux.HandleFunc("POST /api/notes", func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("X-Needs", "write")
		s.stepUp(http.HandlerFunc(says)).ServeHTTP(w, r)
	})
	return counted{s, auth.RequireBearerToken(s.verify, nil)(mux)}
}

type counted struct {
	server *Server
	next   http.Handler
}

// ServeHTTP implements http.Handler.
func (c counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	recorder := &status{ResponseWriter: w}
	c.next.ServeHTTP(recorder, r)
	c.server.count(fmt.Sprint(recorder.code))
}

type status struct {
	http.ResponseWriter

	code int
}

// WriteHeader implements http.ResponseWriter.
func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// Flush implements http.Flusher.
func (s *status) Flush() {
	if f, ok := s.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}
