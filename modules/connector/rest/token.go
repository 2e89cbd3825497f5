package rest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/toolset"
)

// Tokens of OAuth 2.
const (
	// maxTokens is how many tokens are kept.
	maxTokens = 1024
	// tokenMargin is how long before its end a token is not used any more.
	tokenMargin = 30 * time.Second
	// tokenLife is how long a token is used that does not say its end.
	tokenLife = 5 * time.Minute
	// longestToken bounds what an authorization server says, in bytes.
	longestToken = 16 << 10
)

// tokens are those that clients have at their authorization servers.
type tokens struct {
	mu   sync.Mutex
	kept map[[sha256.Size]byte]*token
}

// token is one client's. Whoever has the turn asks for a new one; the others wait.
type token struct {
	turn *semaphore.Weighted

	mu    sync.Mutex
	value string
	until time.Time
}

// at is the token where it counts at a time.
func (t *token) at(now time.Time) (value string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.value, t.value != "" && now.Before(t.until)
}

func (t *token) set(value string, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.value, t.until = value, until
}

// of is the token of one client.
func (t *tokens) of(c toolset.Credential) *token {
	key := sha256.Sum256([]byte(strings.Join([]string{c.Name, c.Username, c.Value.Reveal(), c.Scopes}, "\x00")))
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept == nil || len(t.kept) >= maxTokens && t.kept[key] == nil {
		t.kept = map[[sha256.Size]byte]*token{}
	}
	if t.kept[key] == nil {
		t.kept[key] = &token{turn: semaphore.NewWeighted(1)}
	}
	return t.kept[key]
}

// signed is a credential with tokens in place of what gets them.
func (c *Connector) signed(ctx context.Context, in tool.Invocation, credential toolset.Credential) (toolset.Credential, error) {
	var value string
	var err error
	switch credential.Type {
	case toolset.ClientCredentials:
		value, err = c.token(ctx, credential, tokenNetworks(in.Toolset))
	case toolset.AuthorizationCode:
		value, err = c.userToken(ctx, in, credential)
	}
	if err != nil {
		return credential, err
	}
	if value != "" {
		credential = toolset.Credential{Type: toolset.Bearer, Value: toolset.Secret(value), Also: credential.Also}
	}
	also := make([]toolset.Credential, len(credential.Also))
	for i, more := range credential.Also {
		if also[i], err = c.signed(ctx, in, more); err != nil {
			return credential, err
		}
	}
	credential.Also = also
	return credential, nil
}

// tokenNetworks are the networks beyond the public internet where tokens are
// asked for. Where the toolset is a user's, the address is the user's too, and
// what the operator opened for the API is not open to it.
func tokenNetworks(t toolset.Toolset) []netip.Prefix {
	if t.Global {
		return t.Egress
	}
	return nil
}

// token returns the token of a client, and asks for one where there is none that
// counts (RFC 6749, section 4.4).
func (c *Connector) token(ctx context.Context, credential toolset.Credential, allow []netip.Prefix) (string, error) {
	t := c.tokens.of(credential)
	if err := t.turn.Acquire(ctx, 1); err != nil {
		return "", notInTime(ctx)
	}
	defer t.turn.Release(1)
	now := c.deps.Now()
	if value, ok := t.at(now); ok {
		return value, nil
	}
	form := url.Values{"grant_type": {"client_credentials"}}
	if credential.Scopes != "" {
		form.Set("scope", credential.Scopes)
	}
	r := upstream.Request{
		Method: http.MethodPost, URL: credential.Name, Body: []byte(form.Encode()), Allow: allow, Harmless: true, Retries: upstream.DefaultRetries, Limit: c.deps.Timeout,
		Header: http.Header{"User-Agent": {"portico"}, "Accept": {typeJSON}, "Content-Type": {typeForm}},
	}
	request := http.Request{Header: r.Header}
	request.SetBasicAuth(url.QueryEscape(credential.Username), url.QueryEscape(credential.Value.Reveal()))
	got, err := c.deps.Upstream.Do(ctx, r)
	if err != nil && ctx.Err() != nil {
		return "", notInTime(ctx)
	}
	if err != nil {
		return "", noToken(secretsOf(credential), err.Error())
	}
	var answer struct {
		Token   string      `json:"access_token"`
		Type    string      `json:"token_type"`
		Expires json.Number `json:"expires_in"`
	}
	if !got.OK() {
		return "", noToken(secretsOf(credential), got.Refusal(secretsOf(credential)).Message)
	}
	if json.Unmarshal(got.Body, &answer) != nil || answer.Token == "" || len(answer.Token) > longestToken || !strings.EqualFold(answer.Type, "bearer") {
		return "", noToken(nil, "it answered without a bearer token")
	}
	life := tokenLife
	if seconds, err := answer.Expires.Int64(); err == nil && seconds >= 0 && seconds < 1<<31 {
		life = time.Duration(seconds) * time.Second
	}
	t.set(answer.Token, now.Add(life-min(tokenMargin, life/2)))
	return answer.Token, nil
}

// forget drops the tokens that an upstream refused: the next call gets others.
func (c *Connector) forget(credential toolset.Credential) {
	for _, one := range append([]toolset.Credential{credential}, credential.Also...) {
		if one.Type == toolset.ClientCredentials {
			c.tokens.of(one).set("", time.Time{})
		}
	}
}

// notInTime is the failure of a call that ended while it waited for a token.
func notInTime(ctx context.Context) *tool.Failure {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &tool.Failure{Code: upstream.CodeTimeout, Message: "The authorization server of the tool gave no token in time. Nothing was sent to the tool."}
	}
	return &tool.Failure{Code: "CANCELLED", Message: "The call was cancelled while it waited for a token. Nothing was sent to the tool."}
}

// noToken is the failure of a call whose client is given no token.
func noToken(s upstream.Secrets, why string) *tool.Failure {
	f := &tool.Failure{Code: upstream.CodeOf(http.StatusUnauthorized), Message: fmt.Sprintf("The authorization server of the tool gave no token: %s", why)}
	if s != nil {
		f = s.Scrub(f)
	}
	return f
}
