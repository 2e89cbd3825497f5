// Package oidctest is a provider of OpenID Connect: Ory Fosite.
package oidctest

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	gojwt "github.com/golang-jwt/jwt/v5"
	"github.com/ory/fosite"
	"github.com/ory/fosite/compose"
	"github.com/ory/fosite/handler/openid"
	"github.com/ory/fosite/storage"
	"github.com/ory/fosite/token/jwt"
	"github.com/stretchr/testify/require"
)

// The client that the provider knows.
const (
	ClientID = "portico"
	Secret   = "a secret of the client"
)

// Person is who signs in at the provider.
type Person struct {
	Subject, Name, Email string
	Verified             any
}

// Provider is the server.
type Provider struct {
	Issuer string

	provider fosite.OAuth2Provider
	key      *rsa.PrivateKey

	mu     sync.Mutex
	person Person
	change func(claims *jwt.IDTokenClaims)
}

// Start starts a provider that ends with the test. It sends people back to redirect.
func Start(t testing.TB, redirect string) *Provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	p := &Provider{key: key}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	p.Issuer = server.URL
	config := &fosite.Config{
		AccessTokenLifespan: time.Hour, GlobalSecret: []byte(strings.Repeat("s", 32)), EnforcePKCE: true, IDTokenIssuer: p.Issuer, SendDebugMessagesToClients: true, HashCost: 4, // fast
	}
	hashed, err := (&fosite.BCrypt{Config: config}).Hash(t.Context(), []byte(Secret))
	require.NoError(t, err)
	store := storage.NewMemoryStore()
	store.Clients[ClientID] = &fosite.DefaultClient{
		ID: ClientID, Secret: hashed, RedirectURIs: []string{redirect}, GrantTypes: []string{"authorization_code"}, ResponseTypes: []string{"code"},
		Scopes: []string{"openid", "profile", "email"},
	}
	private := func(context.Context) (any, error) { return key, nil }
	p.provider = compose.Compose(config, store, &compose.CommonStrategy{
		CoreStrategy: compose.NewOAuth2HMACStrategy(config), OpenIDConnectTokenStrategy: compose.NewOpenIDConnectStrategy(private, config),
		Signer: &jwt.DefaultSigner{GetPrivateKey: private},
	}, compose.OAuth2AuthorizeExplicitFactory, compose.OpenIDConnectExplicitFactory, compose.OAuth2PKCEFactory)
	mux.HandleFunc("GET /.well-known/openid-configuration", p.describe)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	return p
}

// As says who signs in from now on.
func (p *Provider) As(who Person) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.person = who
}

// Forge changes the claims of tokens from now on; nil leaves them.
func (p *Provider) Forge(change func(claims *jwt.IDTokenClaims)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change = change
}

// Access is an access token with these claims, which the provider signs.
func (p *Provider) Access(t testing.TB, claims map[string]any) string {
	t.Helper()
	token, err := gojwt.NewWithClaims(gojwt.SigningMethodRS256, gojwt.MapClaims(claims)).SignedString(p.key)
	require.NoError(t, err)
	return token
}

func (p *Provider) describe(w http.ResponseWriter, _ *http.Request) {
	_ = json.NewEncoder(w).Encode(map[string]any{
		"issuer": p.Issuer, "authorization_endpoint": p.Issuer + "/authorize", "token_endpoint": p.Issuer + "/token", "jwks_uri": p.Issuer + "/keys",
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"RS256"},
	})
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	b64 := base64.RawURLEncoding.EncodeToString
	_ = json.NewEncoder(w).Encode(map[string]any{"keys": []any{map[string]string{
		"kty": "RSA", "use": "sig", "alg": "RS256", "n": b64(p.key.N.Bytes()), "e": b64(big.NewInt(int64(p.key.E)).Bytes()),
	}}})
}

func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	asked, err := p.provider.NewAuthorizeRequest(ctx, r)
	if err != nil {
		p.provider.WriteAuthorizeError(ctx, w, asked, err)
		return
	}
	for _, scope := range asked.GetRequestedScopes() {
		asked.GrantScope(scope)
	}
	p.mu.Lock()
	who, change := p.person, p.change
	p.mu.Unlock()
	session := openid.NewDefaultSession()
	session.Subject = who.Subject
	now := time.Now()
	session.Claims.Subject, session.Claims.Issuer, session.Claims.AuthTime, session.Claims.RequestedAt = who.Subject, p.Issuer, now, now
	session.Claims.Extra = map[string]any{"email": who.Email, "email_verified": who.Verified, "preferred_username": who.Name}
	if change != nil {
		change(session.Claims)
	}
	answer, err := p.provider.NewAuthorizeResponse(ctx, asked, session)
	if err != nil {
		p.provider.WriteAuthorizeError(ctx, w, asked, err)
		return
	}
	p.provider.WriteAuthorizeResponse(ctx, w, asked, answer)
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	asked, err := p.provider.NewAccessRequest(ctx, r, openid.NewDefaultSession())
	if err != nil {
		p.provider.WriteAccessError(ctx, w, asked, err)
		return
	}
	answer, err := p.provider.NewAccessResponse(ctx, asked)
	if err != nil {
		p.provider.WriteAccessError(ctx, w, asked, err)
		return
	}
	p.provider.WriteAccessResponse(ctx, w, asked, answer)
}
