// Package oauthtest is an MCP server and an API that want tokens, and the
// authorization server that issues them: Ory Fosite, with what the protocol of MCP
// adds.
package oauthtest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ory/fosite"
	"github.com/ory/fosite/compose"
	"github.com/ory/fosite/storage"
)

// Settings say what a server does otherwise than usual.
type Settings struct {
	// Path is that of the issuer; Well the well-known document that describes it.
	Path, Well string
	// Documents returns the documents that are client ids; nil does not support
	// them.
	Documents func(url string) []byte
	// NoRegistration takes only clients that it knows, NoMetadata says nothing of
	// the resource, NoIssuer promises to name itself and does not.
	NoRegistration, NoMetadata, NoIssuer bool
	// LongID gives clients ids of 4 KiB.
	LongID bool
	// Methods are the ways in which clients show who they are; none for public
	// ones.
	Methods []string
	// Life is how long tokens are good.
	Life time.Duration
	// Issuer is what answers name in place of the issuer.
	Issuer string
	// API issues tokens for the API, which has no resource parameter.
	API bool
	// Slow is closed when token requests may be answered; nil answers at once.
	Slow chan struct{}
}

// Server is both servers.
type Server struct {
	*httptest.Server

	// URL is that of the MCP server.
	URL string
	// Issuer is the authorization server.
	Issuer string

	settings Settings
	provider fosite.OAuth2Provider

	tokens   sync.Mutex // held where the store is used: it writes what it has locked for reading
	mu       sync.Mutex
	store    *storage.MemoryStore
	granted  []string // ids of grants
	clients  map[string]fosite.Client
	requests map[string]int // by what was asked
	bodies   []map[string]any
	forms    []url.Values
	down     bool
}

// Start starts both; they end with the test.
func Start(t testing.TB, s Settings) *Server {
	t.Helper()
	if s.Life == 0 {
		s.Life = time.Hour
	}
	if s.Well == "" {
		s.Well = "/.well-known/oauth-authorization-server" + s.Path
	}
	config := &fosite.Config{
		AccessTokenLifespan: s.Life, GlobalSecret: []byte(strings.Repeat("s", 32)), EnforcePKCE: true, RefreshTokenScopes: []string{}, RefreshTokenLifespan: -1,
		ScopeStrategy: fosite.ExactScopeStrategy, SendDebugMessagesToClients: true,
	}
	o := &Server{settings: s, store: storage.NewMemoryStore(), clients: map[string]fosite.Client{}, requests: map[string]int{}}
	o.provider = compose.Compose(config, known{o.store, o}, &compose.CommonStrategy{CoreStrategy: compose.NewOAuth2HMACStrategy(config)},
		compose.OAuth2AuthorizeExplicitFactory, compose.OAuth2RefreshTokenGrantFactory, compose.OAuth2TokenIntrospectionFactory,
		compose.OAuth2TokenRevocationFactory, compose.OAuth2PKCEFactory)
	mux := http.NewServeMux()
	o.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		o.CloseClientConnections() // those that wait for what changes
		o.Server.Close()
	})
	o.URL, o.Issuer = o.Server.URL+"/mcp", o.Server.URL+s.Path
	if s.Issuer == "" {
		o.settings.Issuer = o.Issuer
	}
	mux.HandleFunc("GET "+s.Well, o.metadata)
	mux.HandleFunc("GET "+s.Path+"/authorize", o.authorize)
	mux.HandleFunc("POST "+s.Path+"/token", o.token)
	mux.HandleFunc("POST "+s.Path+"/register", o.register)
	mux.HandleFunc("POST "+s.Path+"/revoke", o.revoke)
	mux.HandleFunc("GET "+resourcePath, o.resource)
	mux.Handle("/mcp", o.protected())
	mux.Handle("/api/", o.api())
	return o
}

// known finds clients: those that are registered, and documents.
type known struct {
	*storage.MemoryStore

	server *Server
}

// GetClient implements fosite.ClientManager.
func (k known) GetClient(_ context.Context, id string) (fosite.Client, error) {
	if k.server.settings.Documents == nil || !strings.HasPrefix(id, "https://") {
		k.server.mu.Lock()
		defer k.server.mu.Unlock()
		if c, ok := k.server.clients[id]; ok {
			return c, nil
		}
		return nil, fosite.ErrNotFound
	}
	var d struct {
		ID        string   `json:"client_id"`
		Redirects []string `json:"redirect_uris"`
		Grants    []string `json:"grant_types"`
	}
	if err := json.Unmarshal(k.server.settings.Documents(id), &d); err != nil || d.ID != id {
		return nil, fosite.ErrInvalidClient
	}
	return client(id, d.Redirects), nil
}

var scopes = []string{"tools", "write", "offline_access"}

func client(id string, redirects []string) *fosite.DefaultClient {
	return &fosite.DefaultClient{
		ID: id, RedirectURIs: redirects, GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"}, Scopes: scopes, Public: true,
	}
}

// Know adds a client with a secret.
func (s *Server) Know(t testing.TB, id, secret, redirect string) {
	t.Helper()
	c := client(id, []string{redirect})
	hash, err := (&fosite.BCrypt{Config: &fosite.Config{HashCost: 4}}).Hash(t.Context(), []byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	c.Secret, c.Public = hash, false
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients[id] = c
	if len(s.settings.Methods) == 1 {
		s.clients[id] = &fosite.DefaultOpenIDConnectClient{DefaultClient: c, TokenEndpointAuthMethod: s.settings.Methods[0]}
	}
}

// meant reports whether a request for tokens is about what this server issues them
// for.
func (s *Server) meant(form url.Values) bool {
	if s.settings.API {
		return !form.Has("resource")
	}
	return form.Get("resource") == s.URL
}

func (s *Server) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[what]++
}

// Count is how often something was asked: register, authorize, code, refresh,
// revoke, metadata, and the statuses of the MCP server.
func (s *Server) Count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[what]
}

// Registrations are the bodies that clients were registered with.
func (s *Server) Registrations() []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bodies)
}

// Forms are the requests for tokens.
func (s *Server) Forms() []url.Values {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.forms)
}

// Break makes token requests fail, or work again.
func (s *Server) Break(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (s *Server) metadata(w http.ResponseWriter, _ *http.Request) {
	s.count("metadata")
	m := map[string]any{
		"issuer": s.Issuer, "authorization_endpoint": s.Issuer + "/authorize", "token_endpoint": s.Issuer + "/token", "revocation_endpoint": s.Issuer + "/revoke",
		"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true,
		"client_id_metadata_document_supported": s.settings.Documents != nil, "scopes_supported": scopes,
	}
	if !s.settings.NoRegistration {
		m["registration_endpoint"] = s.Issuer + "/register"
	}
	if s.settings.Methods != nil {
		m["token_endpoint_auth_methods_supported"] = s.settings.Methods
	}
	answer(w, http.StatusOK, m)
}

func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	s.count("register")
	text, _ := io.ReadAll(r.Body)
	var d struct {
		Redirects []string `json:"redirect_uris"`
	}
	var body map[string]any
	if json.Unmarshal(text, &body) != nil || json.Unmarshal(text, &d) != nil || body["application_type"] != "web" {
		answer(w, http.StatusBadRequest, map[string]string{"error": "invalid_client_metadata"})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies = append(s.bodies, body)
	id := "client-" + string(rune('a'+len(s.bodies)))
	if s.settings.LongID {
		id += strings.Repeat("x", 4<<10)
	}
	s.clients[id] = client(id, d.Redirects)
	answer(w, http.StatusCreated, map[string]any{"client_id": id, "token_endpoint_auth_method": "none", "redirect_uris": d.Redirects})
}

// Forget makes the server forget every client.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.clients)
}

// session is what fosite keeps of a grant: whose it is, and for which resource.
func session(user, resource string) *fosite.DefaultSession {
	return &fosite.DefaultSession{Subject: user, Username: user, Extra: map[string]any{"resource": resource}}
}

// authorize gives what is asked for to the user whom the header names, without
// asking.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	s.count("authorize")
	ctx := r.Context()
	ar, err := s.provider.NewAuthorizeRequest(ctx, r)
	if err != nil {
		s.provider.WriteAuthorizeError(ctx, w, ar, err)
		return
	}
	if !s.meant(r.URL.Query()) {
		s.provider.WriteAuthorizeError(ctx, w, ar, fosite.ErrInvalidRequest.WithHint("The resource is not this one."))
		return
	}
	for _, scope := range ar.GetRequestedScopes() {
		ar.GrantScope(scope)
	}
	response, err := s.provider.NewAuthorizeResponse(ctx, ar, session(r.Header.Get("X-User"), s.URL))
	if err != nil {
		s.provider.WriteAuthorizeError(ctx, w, ar, err)
		return
	}
	if !s.settings.NoIssuer {
		response.AddParameter("iss", s.settings.Issuer)
	}
	s.provider.WriteAuthorizeResponse(ctx, w, ar, response)
}

func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	_ = r.ParseForm()
	s.count(map[string]string{"authorization_code": "code", "refresh_token": "refresh"}[r.PostForm.Get("grant_type")])
	if s.settings.Slow != nil {
		<-s.settings.Slow
	}
	s.mu.Lock()
	s.forms = append(s.forms, r.PostForm)
	down := s.down
	s.mu.Unlock()
	if down {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	s.tokens.Lock()
	defer s.tokens.Unlock()
	request, err := s.provider.NewAccessRequest(ctx, r, session("", ""))
	if err == nil && !s.meant(r.PostForm) {
		err = fosite.ErrInvalidRequest.WithHint("The resource is not this one.")
	}
	if err != nil {
		s.provider.WriteAccessError(ctx, w, request, err)
		return
	}
	response, err := s.provider.NewAccessResponse(ctx, request)
	if err != nil {
		s.provider.WriteAccessError(ctx, w, request, err)
		return
	}
	s.mu.Lock()
	s.granted = append(s.granted, request.GetID())
	s.mu.Unlock()
	s.provider.WriteAccessResponse(ctx, w, request, response)
}

func (s *Server) revoke(w http.ResponseWriter, r *http.Request) {
	s.count("revoke")
	s.tokens.Lock()
	defer s.tokens.Unlock()
	err := s.provider.NewRevocationRequest(r.Context(), r)
	s.provider.WriteRevocationResponse(r.Context(), w, err)
}

// Agree is a browser that opens an address as a user, who agrees. It returns what
// it is sent back with.
func (s *Server) Agree(t testing.TB, user, address string) url.Values {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-User", user)
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	to, err := resp.Location()
	if err != nil {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s: %s", resp.Status, body)
	}
	return to.Query()
}

// RevokeAll ends every grant, as an administrator there would.
func (s *Server) RevokeAll(t testing.TB) {
	t.Helper()
	s.tokens.Lock()
	defer s.tokens.Unlock()
	for _, id := range s.grants() {
		if err := errors.Join(s.store.RevokeAccessToken(t.Context(), id), s.store.RevokeRefreshToken(t.Context(), id)); err != nil {
			t.Fatal(err)
		}
	}
}

// EndTokens ends every token that is presented; those that refresh them stay.
func (s *Server) EndTokens(t testing.TB) {
	t.Helper()
	s.tokens.Lock()
	defer s.tokens.Unlock()
	for _, id := range s.grants() {
		if err := s.store.RevokeAccessToken(t.Context(), id); err != nil && !errors.Is(err, fosite.ErrNotFound) {
			t.Fatal(err)
		}
	}
}

func (s *Server) grants() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.granted)
}
