package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/connector/oauth"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/rows"
)

// KindOAuth is executed as Kind is, with a token of the user who calls.
const KindOAuth toolset.Kind = "oauth"

// authOAuth is what installed toolsets of that kind say of themselves.
const authOAuth = "user_oauth"

// Grants are the tokens of users, and where users authorize this server.
type Grants interface {
	Token(ctx context.Context, a actor.Actor, of oauth.Target) (string, error)
	Refused(ctx context.Context, a actor.Actor, of oauth.Target, r oauth.Refusal) error
	Connected(ctx context.Context, uid string) ([]string, error)
	ConnectURL(key string) string
}

// OAuth is the kind of toolsets whose users authorize this server at the API.
type OAuth struct{ *Connector }

// Traits implements toolset.Source.
func (o OAuth) Traits() toolset.Traits {
	return toolset.Traits{Kind: KindOAuth, Type: toolset.TypeOAuth, AuthType: authOAuth, Accounts: o}
}

// Connected implements toolset.Accounts.
func (o OAuth) Connected(ctx context.Context, uid string) ([]string, error) {
	return o.deps.Grants.Connected(ctx, uid)
}

// HowTo implements toolset.Accounts.
func (o OAuth) HowTo(key string) string {
	return "Connect your account first: open " + o.deps.Grants.ConnectURL(key)
}

// ConnectURL implements toolset.Accounts.
func (o OAuth) ConnectURL(key string) string { return o.deps.Grants.ConnectURL(key) }

// Authorizations is toolsets as users authorize this server for them. identify says
// what a key means to a user.
func Authorizations(identify func(ctx context.Context, a actor.Actor, key string) (toolset.Toolset, error)) oauth.Kind {
	return oauth.Kind{
		Noun: "toolset", One: "a toolset", Path: "/v1/tool", Routes: "/v1/tool/authorizations", Tag: "toolsets", Fixed: true, Action: "toolset", Changed: rows.Changed, Targets: Targets{identify},
		Grants: "toolset_grants", Flows: "toolset_authorizations", Column: "toolset_key",
	}
}

// Targets implements oauth.Targets. Identify says what a key means to a user.
type Targets struct {
	Identify func(ctx context.Context, a actor.Actor, key string) (toolset.Toolset, error)
}

// Find implements oauth.Targets.
func (t Targets) Find(ctx context.Context, a actor.Actor, key string) (oauth.Target, error) {
	set, err := t.Identify(ctx, a, key)
	if err != nil {
		return oauth.Target{}, err
	}
	credential, err := set.Credential.Open()
	if err != nil {
		return oauth.Target{}, err
	}
	if own, ok := codeOf(set, credential); ok {
		return target(set, own), nil
	}
	return oauth.Target{ID: key, Name: key}, nil
}

// codeOf is the credential of a toolset that stands for tokens of users.
func codeOf(t toolset.Toolset, c toolset.Credential) (toolset.Credential, bool) {
	all := append([]toolset.Credential{c}, c.Also...)
	i := slices.IndexFunc(all, func(one toolset.Credential) bool { return one.Type == toolset.AuthorizationCode })
	if i < 0 || t.Kind != KindOAuth {
		return c, false
	}
	return all[i], true
}

func target(t toolset.Toolset, c toolset.Credential) oauth.Target {
	return oauth.Target{
		ID: t.Key, Name: t.Key, OAuth: true, URL: t.Domain, Egress: t.Egress, Client: oauth.Registration{ID: c.Username, Secret: c.Value.Reveal()},
		Scopes: strings.Fields(c.Scopes), Endpoints: oauth.Endpoints{Authorization: c.Authorize, Token: c.Name},
	}
}

func userOf(in tool.Invocation) actor.Actor { return actor.Actor{UID: in.UID, Scope: actor.Full} }

// userToken is the token of the user who calls.
func (c *Connector) userToken(ctx context.Context, in tool.Invocation, credential toolset.Credential) (string, error) {
	if in.Toolset.Kind != KindOAuth {
		return "", noToken(nil, "only toolsets of the type oauth have tokens of users")
	}
	token, err := c.deps.Grants.Token(ctx, userOf(in), target(in.Toolset, credential))
	return token, told(in.Toolset.Key, err)
}

// refused does what can be done about a refusal. It reports whether the call may be
// sent again: there is another token.
func (c *Connector) refused(ctx context.Context, in tool.Invocation, p prepared, got upstream.Response) (again bool, err error) {
	if got.Status == http.StatusUnauthorized {
		c.forget(in.Credential)
	}
	code, ok := codeOf(in.Toolset, in.Credential)
	if !ok {
		return false, nil
	}
	of, sent := target(in.Toolset, code), p.in.Credential.Bearer()
	err = c.deps.Grants.Refused(ctx, userOf(in), of, oauth.Refusal{Token: sent, Status: got.Status, Header: got.Header})
	if err != nil || got.Status == http.StatusForbidden {
		return false, told(in.Toolset.Key, err)
	}
	now, err := c.deps.Grants.Token(ctx, userOf(in), of)
	return err == nil && now != sent, told(in.Toolset.Key, err)
}

// told is an error as the caller is told it: where a person authorizes this server.
func told(key string, err error) error {
	need, ok := errors.AsType[oauth.Needed](err)
	if !ok {
		return err
	}
	data, err := json.Marshal(map[string]string{"url": need.URL})
	if err != nil {
		return err
	}
	return &tool.Failure{Code: upstream.CodeAuthNeeded, Message: fmt.Sprintf("Toolset %s needs your authorization: open %s", key, need.URL), Data: data}
}
