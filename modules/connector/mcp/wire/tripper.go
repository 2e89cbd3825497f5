package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/portico-run/portico/internal/budget"
	"github.com/portico-run/portico/modules/connector/mcp/server"
)

// Tripper makes the HTTP requests of one connection: within the rules of egress,
// with the server's headers, and with answers that are bounded.
type Tripper struct {
	Client Client
	Server server.Server
	Limit  int64 // of one answer, in bytes
	// Authorized says that the SDK asks an authorizer about 401 and 403.
	Authorized bool
	// Sends is told what each request has as Authorization; nil tells nobody.
	Sends func(authorization string)
}

// Client makes HTTP requests within the rules of egress.
type Client interface {
	Do(r *http.Request, allow []netip.Prefix) (*http.Response, error)
}

// UnauthorizedError is an answer of 401 or 403 to what nobody can authorize.
type UnauthorizedError struct{ Status int }

// Error implements error.
func (e UnauthorizedError) Error() string { return fmt.Sprintf("answered %d", e.Status) }

// ErrTooLarge is an answer over the limit.
var ErrTooLarge = errors.New("the answer is over the limit")

type forgottenKey struct{}

// Watch returns a context for a call, and whether the server answered the call that it
// does not know the session: it did nothing then.
func Watch(ctx context.Context) (context.Context, *atomic.Bool) {
	forgotten := &atomic.Bool{}
	return context.WithValue(ctx, forgottenKey{}, forgotten), forgotten
}

// RoundTrip implements http.RoundTripper.
func (t *Tripper) RoundTrip(r *http.Request) (*http.Response, error) {
	asked, r, err := t.prepare(r)
	if err != nil {
		return nil, err
	}
	resp, err := t.Client.Do(r, t.Server.Egress)
	if err != nil {
		return nil, err
	}
	if (resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden) && !t.Authorized {
		_ = resp.Body.Close() // nothing of it is read
		return nil, UnauthorizedError{resp.StatusCode}
	}
	if forgotten, ok := r.Context().Value(forgottenKey{}).(*atomic.Bool); ok && asked.Method == "tools/call" && resp.StatusCode == http.StatusNotFound && r.Header.Get("Mcp-Session-Id") != "" {
		forgotten.Store(true)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // what is no type is no stream
	if kind == "text/event-stream" {
		resp.Body = &events{source: resp.Body, limit: t.Limit, id: asked.ID, endless: r.Method == http.MethodGet || asked.Method == "subscriptions/listen"}
		resp.ContentLength = -1
		return resp, nil
	}
	return resp, t.whole(resp)
}

// request is what a body asks for.
type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
}

// prepare adds the server's headers, and reads what is asked for. Headers of the
// protocol are not theirs to change.
func (t *Tripper) prepare(r *http.Request) (asked request, out *http.Request, err error) {
	out = r.Clone(r.Context())
	for name, value := range t.Server.Headers {
		name = http.CanonicalHeaderKey(name)
		switch {
		case strings.HasPrefix(name, "Mcp-"), name == "Content-Type", name == "Accept", name == "Content-Length", name == "Host":
		case name == "Authorization" && out.Header.Get(name) != "": // the user's token
		default:
			out.Header.Set(name, value)
		}
	}
	if sent := out.Header.Get("Authorization"); sent != "" && t.Sends != nil {
		t.Sends(sent)
	}
	out.Header.Set("User-Agent", "portico")
	if r.Body == nil {
		return asked, out, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return asked, out, err
	}
	out.Body = io.NopCloser(bytes.NewReader(body))
	out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	if err := json.Unmarshal(body, &asked); err != nil {
		return asked, out, err
	}
	return asked, out, nil
}

// Large is the size from which an answer counts in the budget of its user.
const Large = 1 << 20

// whole reads an answer that is no stream. There is room for a large one before it is
// read: for the most that it may have, where it does not say its size.
func (t *Tripper) whole(resp *http.Response) error {
	defer func() { _ = resp.Body.Close() }() // it was read
	if resp.ContentLength > t.Limit {
		return ErrTooLarge
	}
	small := min(Large, t.Limit)
	body, err := io.ReadAll(io.LimitReader(resp.Body, small+1))
	if err != nil {
		return err
	}
	if int64(len(body)) > small {
		size := resp.ContentLength
		if size < 0 {
			size = t.Limit
		}
		if err := budget.Take(resp.Request.Context(), size); err != nil {
			return err
		}
		rest, err := io.ReadAll(io.LimitReader(resp.Body, t.Limit-small))
		if err != nil {
			return err
		}
		body = append(body, rest...)
	}
	if int64(len(body)) > t.Limit {
		return ErrTooLarge
	}
	body = literal(body)
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return nil
}
