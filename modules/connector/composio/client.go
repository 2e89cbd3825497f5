package composio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/portico-run/portico/internal/upstream"
)

// ClientDeps is what a client needs.
type ClientDeps struct {
	// BaseURL is the service, such as https://backend.composio.dev, and Version
	// the part of the path that says which API: v3.
	BaseURL, Version string
	// Key is the operator's API key; empty says that there is no service.
	Key      string
	Upstream *upstream.Caller
	// Egress lists what may be reached for it beyond the public internet.
	Egress []netip.Prefix
	// Timeout bounds one call; CacheLife is how long a list of tools is kept.
	Timeout, CacheLife time.Duration
	Now                func() time.Time
}

// Client calls the service. It is safe for concurrent use.
type Client struct {
	deps    ClientDeps
	secrets upstream.Secrets

	loading singleflight.Group
	mu      sync.Mutex
	lists   map[string]list // of tools, by toolkit
}

// list is the tools of a toolkit as they were listed, or why they could not be.
type list struct {
	tools   []Tool
	err     error
	expires time.Time
}

// NewClient returns a client and starts nothing.
func NewClient(d ClientDeps) *Client {
	if d.Now == nil {
		d.Now = time.Now
	}
	return &Client{deps: d, secrets: upstream.Hide(d.Key), lists: map[string]list{}}
}

// Connected reports whether this server has the service.
func (c *Client) Connected() bool { return c.deps.Key != "" }

// Codes of refusals that say that an account is not, or not any more, usable.
const (
	codeNoAccount     = 1803
	codeOtherAccount  = 1810
	codeOtherUser     = 1812
	codeNoSuchAccount = 1811
)

// Error is a refusal of the service, or a call that got no answer.
type Error struct {
	*upstream.Failure
	// Provider is the service's own code; 0 where it gave none.
	Provider int
	Status   int
}

// Unwrap implements errors.Unwrap.
func (e *Error) Unwrap() error { return e.Failure }

// AccountLost reports whether an error says that the user's account is not, or
// not any more, connected.
func AccountLost(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return false
	}
	switch e.Provider {
	case codeNoAccount, codeOtherAccount, codeNoSuchAccount, codeOtherUser:
		return true
	}
	return false
}

// ask is one request.
type ask struct {
	method, path string
	query        url.Values
	body         any // JSON; nil for none
}

// call makes one request and decodes its answer into out, unless that is nil.
// Only reading may be repeated.
func (c *Client) call(ctx context.Context, q ask, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.deps.Timeout)
	defer cancel()
	r := upstream.Request{
		Method: q.method, URL: strings.TrimSuffix(c.deps.BaseURL, "/") + "/api/" + c.deps.Version + q.path, Allow: c.deps.Egress, Limit: c.deps.Timeout,
		Header:  http.Header{"X-Api-Key": {c.deps.Key}, "Accept": {"application/json"}, "User-Agent": {"portico"}},
		Retries: upstream.DefaultRetries, Harmless: q.method == http.MethodGet,
	}
	if len(q.query) > 0 {
		r.URL += "?" + q.query.Encode()
	}
	if q.body != nil {
		var err error
		if r.Body, err = json.Marshal(q.body); err != nil {
			return fmt.Errorf("composio: %w", err)
		}
		r.Header.Set("Content-Type", "application/json")
	}
	got, err := c.deps.Upstream.Do(ctx, r)
	if err != nil {
		if f, ok := errors.AsType[*upstream.Failure](err); ok {
			return &Error{Failure: c.secrets.Scrub(f)}
		}
		return err
	}
	if !got.OK() {
		return c.refusal(got)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(c.secrets.Redact(got.Body), out); err != nil {
		return &Error{Status: got.Status, Failure: &upstream.Failure{
			Code: upstream.CodeInvalid, Message: "Composio answered with something that is not the JSON it promises. Upstream response: " + upstream.Quote(c.secrets.Redact(got.Body)),
		}}
	}
	return nil
}

// refusal reads an error of the service: its message, code, request id and
// suggested fix reach the caller.
func (c *Client) refusal(got upstream.Response) error {
	var body struct {
		Error struct {
			Message      string `json:"message"`
			Code         int    `json:"code"`
			RequestID    string `json:"request_id"`
			SuggestedFix string `json:"suggested_fix"`
		} `json:"error"`
	}
	e := &Error{Status: got.Status}
	if json.Unmarshal(got.Body, &body) != nil || body.Error.Message == "" {
		e.Failure = got.Refusal(c.secrets)
		return e
	}
	text := strings.TrimSuffix(body.Error.Message, ".")
	var marks []string
	if body.Error.Code != 0 {
		marks = append(marks, fmt.Sprintf("code %d", body.Error.Code))
	}
	if body.Error.RequestID != "" {
		marks = append(marks, "request "+body.Error.RequestID)
	}
	if len(marks) > 0 {
		text += " (" + strings.Join(marks, ", ") + ")"
	}
	text += "." + got.TryAgain()
	if body.Error.SuggestedFix != "" {
		text += " " + body.Error.SuggestedFix
	}
	e.Provider = body.Error.Code
	e.Failure = c.secrets.Scrub(&upstream.Failure{Code: upstream.CodeOf(got.Status), Message: upstream.Limit(text, 2*upstream.MaxReason), Data: got.Body})
	return e
}
