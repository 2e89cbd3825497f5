// Package oidc asks a provider of OpenID Connect who somebody is.
package oidc

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/oauth2"

	"github.com/portico-run/portico/internal/signing"
)

// Settings say which provider is asked.
type Settings struct {
	Issuer, ClientID, Secret string
	// Redirect is where the provider sends people back to.
	Redirect string
	// Keys sign what a browser keeps meanwhile.
	Keys signing.Keys
	Now  func() time.Time
}

// FlowLife is how long somebody may take at the provider.
const FlowLife = 10 * time.Minute

const (
	timeout = 10 * time.Second // of one request to the provider
	maxBody = 1 << 20          // of one answer
)

// Flow is a sign-in that has begun. Its browser keeps it, signed.
type Flow struct {
	// Next is the path that the person goes on to, Invite the code they came with.
	Next   string `json:"next,omitempty"`
	Invite string `json:"invite,omitempty"`
	// State and Nonce tie the provider's answer to the browser and to the token,
	// Verifier the code to this server.
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	jwt.RegisteredClaims
}

// Person is whom the provider names.
type Person struct {
	Issuer, Subject string
	Name            string // as they are called there; it may be anything
	Email           string // empty unless the provider has verified it
}

// Provider is where people sign in.
type Provider struct {
	settings Settings
	client   *http.Client

	mu    sync.Mutex
	found *oidc.Provider // nil until it has answered once
}

// New returns a Provider that has not been asked yet.
func New(s Settings) *Provider {
	return &Provider{settings: s, client: &http.Client{Timeout: timeout, Transport: bounded{http.DefaultTransport}}}
}

// bounded reads no answer that is larger than maxBody.
type bounded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{http.MaxBytesReader(nil, resp.Body, maxBody), resp.Body}
	}
	return resp, err
}

// discover reads what the provider says of itself, until that has worked once.
func (p *Provider) discover(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found == nil {
		// The keys are read with this context, for as long as the server runs.
		found, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), p.client), p.settings.Issuer)
		if err != nil {
			return nil, fmt.Errorf("the provider of OIDC_ISSUER does not answer as one: %w", err)
		}
		p.found = found
	}
	return p.found, nil
}

func (p *Provider) config(at *oidc.Provider) oauth2.Config {
	return oauth2.Config{
		ClientID: p.settings.ClientID, ClientSecret: p.settings.Secret, Endpoint: at.Endpoint(), RedirectURL: p.settings.Redirect,
		Scopes: []string{oidc.ScopeOpenID, "profile", "email"},
	}
}

// Begin returns where the browser goes, and what it keeps until it comes back.
func (p *Provider) Begin(ctx context.Context, next, invite string) (address, kept string, err error) {
	at, err := p.discover(ctx)
	if err != nil {
		return "", "", err
	}
	f := Flow{Next: next, Invite: invite, State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
	f.ExpiresAt = jwt.NewNumericDate(p.settings.Now().Add(FlowLife))
	kept, err = p.settings.Keys.Token(f)
	if err != nil {
		return "", "", fmt.Errorf("sign a flow: %w", err)
	}
	c := p.config(at)
	return c.AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), kept, nil
}

// Complete returns who came back, with what the browser kept, and the state and the
// code that it brought. Any error is a reason to let nobody in.
func (p *Provider) Complete(ctx context.Context, kept, state, code string) (Person, Flow, error) {
	var f Flow
	err := p.settings.Keys.Parse(kept, &f, jwt.WithTimeFunc(p.settings.Now))
	if err != nil {
		return Person{}, Flow{}, fmt.Errorf("what the browser kept is not good: %w", err)
	}
	if f.State == "" || subtle.ConstantTimeCompare([]byte(f.State), []byte(state)) != 1 {
		return Person{}, Flow{}, errors.New("the state is that of another sign-in")
	}
	at, err := p.discover(ctx)
	if err != nil {
		return Person{}, Flow{}, err
	}
	c := p.config(at)
	tokens, err := c.Exchange(oidc.ClientContext(ctx, p.client), code, oauth2.VerifierOption(f.Verifier))
	if err != nil {
		return Person{}, Flow{}, fmt.Errorf("the provider gives no token for the code: %w", err)
	}
	text, ok := tokens.Extra("id_token").(string)
	if !ok {
		return Person{}, Flow{}, errors.New("the provider's answer has no id_token")
	}
	token, err := at.Verifier(&oidc.Config{ClientID: p.settings.ClientID, Now: p.settings.Now}).Verify(ctx, text)
	if err != nil {
		return Person{}, Flow{}, fmt.Errorf("the provider's token is not good: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(f.Nonce)) != 1 {
		return Person{}, Flow{}, errors.New("the provider's token is for another sign-in")
	}
	who, err := person(token)
	return who, f, err
}

func person(token *oidc.IDToken) (Person, error) {
	var claims struct {
		Email    string `json:"email"`
		Verified any    `json:"email_verified"` // some providers write it as text
		Name     string `json:"preferred_username"`
	}
	if err := token.Claims(&claims); err != nil {
		return Person{}, fmt.Errorf("the provider's token has claims of another form: %w", err)
	}
	p := Person{Issuer: token.Issuer, Subject: token.Subject, Name: claims.Name}
	if claims.Verified == true || claims.Verified == "true" {
		p.Email = claims.Email
	}
	return p, nil
}
