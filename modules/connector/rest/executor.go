// Package rest is the kind of toolsets whose tools are HTTP requests: a file
// says the endpoint, the HTTP method, the schema and the credential.
package rest

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/toolset"
)

// Deps is what the connector needs.
type Deps struct {
	Upstream *upstream.Caller
	// Pricer reads price lists.
	Pricer *price.Pricer
	// Grants are the tokens of users.
	Grants Grants
	// Timeout bounds a call of a method that names none, MaxTimeout any call.
	Timeout, MaxTimeout time.Duration
	// Now is the moment that signatures carry; nil for the wall clock.
	Now func() time.Time
}

// Connector implements toolset.Source and tool.Executor.
type Connector struct {
	deps   Deps
	cache  *cache
	tokens *tokens
	types  *graphqlTypes
}

// New returns a connector.
func New(d Deps) *Connector {
	if d.Now == nil {
		d.Now = time.Now
	}
	return &Connector{deps: d, cache: &cache{entries: map[string]parsed{}}, tokens: &tokens{}, types: &graphqlTypes{}}
}

// Execute implements tool.Executor.
func (c *Connector) Execute(ctx context.Context, in tool.Invocation) (tool.Outcome, error) {
	limit := c.deps.Timeout
	if t := in.Method.Adapter.Timeout(); t > 0 {
		limit = min(t, c.deps.MaxTimeout)
	}
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	p, err := c.prepare(ctx, in, limit)
	if err != nil {
		return broken(nil, err)
	}
	got, err := c.deps.Upstream.Do(ctx, p.request)
	if err == nil && (got.Status == http.StatusUnauthorized || got.Status == http.StatusForbidden) {
		again, err := c.refused(ctx, in, p, got)
		if err != nil {
			return broken(nil, err)
		}
		if again { // once: what was refused had no effect
			if p, err = c.prepare(ctx, in, limit); err != nil {
				return broken(nil, err)
			}
			if got, err = c.deps.Upstream.Do(ctx, p.request); err != nil {
				return broken(p.secrets, err)
			}
		}
	}
	switch polling := in.Method.Adapter.Polling; {
	case err != nil:
		return broken(p.secrets, err)
	case polling != nil:
		return tidy(in, task{c, p.in, *polling, p.request, p.secrets}.follow(whole, got)), nil
	}
	if f := checked(p.in.Credential, got); f != nil {
		return failed(p.secrets.Scrub(f)), nil
	}
	if g := in.Method.Adapter.GraphQL; g != nil {
		return graphqlOutcome(*g, got, p.secrets), nil
	}
	return tidy(in, outcome(got, p.secrets)), nil
}

// prepared is a call as it is sent.
type prepared struct {
	in      tool.Invocation // with tokens in place of what gets them
	request upstream.Request
	secrets upstream.Secrets
}

// prepare makes the request of a call. The error may be a tool.Failure.
func (c *Connector) prepare(ctx context.Context, in tool.Invocation, limit time.Duration) (prepared, error) {
	own := in.Credential
	var err error
	if in.Credential, err = c.signed(ctx, in, own); err != nil {
		return prepared{}, err
	}
	p := prepared{in: in, secrets: append(secretsOf(in.Credential), secretsOf(own)...)}
	sent, failure := c.graphqlCall(in)
	if failure != nil {
		return p, failure
	}
	if p.request, failure = newRequest(sent, c.deps.Now()); failure != nil {
		return p, failure
	}
	p.request.Limit = limit
	p.request.Retries = upstream.DefaultRetries
	if r := in.Method.Adapter.MaxRetries; r != nil {
		p.request.Retries = *r
	}
	p.request.Harmless = in.Method.Adapter.Idempotent || slices.Contains([]string{"GET", "HEAD", "PUT", "DELETE"}, in.Method.HTTPMethod)
	return p, nil
}

// tidy takes out of a result what the method's schema leaves out.
func tidy(in tool.Invocation, o tool.Outcome) tool.Outcome {
	o.Data = omitData(in.Method.Response, o.Data)
	return o
}

func failed(f *tool.Failure) tool.Outcome { return tool.Outcome{Failure: f} }

// broken is the outcome of a call that got no answer, or could not be sent.
func broken(s upstream.Secrets, err error) (tool.Outcome, error) {
	if f, ok := errors.AsType[*tool.Failure](err); ok {
		return failed(s.Scrub(f)), nil
	}
	return tool.Outcome{}, err
}

// secretsOf are the forms of a credential that must not come back.
func secretsOf(c toolset.Credential) upstream.Secrets {
	s := upstream.Hide(c.Value.Reveal())
	if c.Type == toolset.Basic {
		s = append(s, base64.StdEncoding.EncodeToString([]byte(c.Username+":"+c.Value.Reveal())))
	}
	if c.Type == toolset.ClientCredentials || c.Type == toolset.AuthorizationCode {
		s = append(s, base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(c.Username)+":"+url.QueryEscape(c.Value.Reveal()))))
	}
	if c.Type == toolset.Cookie && len(s) > 0 {
		s = append(s, escapeAll(c.Value.Reveal()))
	}
	for _, more := range c.Also {
		s = append(s, secretsOf(more)...)
	}
	return s
}
