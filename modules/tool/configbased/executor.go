// Package configbased executes tools that are described by configuration: an
// endpoint, an HTTP method, a schema and a credential.
package configbased

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/portico-run/portico/modules/internal/egress"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/toolset"
)

// Client makes HTTP requests within the rules of egress.
type Client interface {
	Do(r *http.Request, allow []netip.Prefix) (*http.Response, error)
}

// Deps is what the executor needs.
type Deps struct {
	Client Client
	// Timeout bounds a call of a method that names none, MaxTimeout any call.
	Timeout, MaxTimeout time.Duration
	// ResponseCap is the largest response body in bytes.
	ResponseCap int64
	// Wait pauses before a repetition; nil for the wall clock.
	Wait func(ctx context.Context, d time.Duration) error
	Now  func() time.Time
}

// Executor implements tool.Executor.
type Executor struct{ deps Deps }

// New returns an executor.
func New(d Deps) *Executor {
	if d.Wait == nil {
		d.Wait = wait
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	return &Executor{deps: d}
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Repetitions of a call.
const (
	defaultRetries = 3
	firstDelay     = 250 * time.Millisecond
	longestDelay   = 10 * time.Second
)

// Execute implements tool.Executor.
func (e *Executor) Execute(ctx context.Context, in tool.Invocation) (tool.Outcome, error) {
	polling := in.Method.Adapter.Polling
	limit := e.deps.Timeout
	if t := in.Method.Adapter.Timeout(); t > 0 {
		limit = min(t, e.deps.MaxTimeout)
	}
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	plan, failure := newPlan(in)
	if failure != nil {
		return tool.Outcome{Failure: failure}, nil
	}
	secrets := secretsOf(in.Credential)
	retries := defaultRetries
	if r := in.Method.Adapter.MaxRetries; r != nil {
		retries = *r
	}
	for attempt := 0; ; attempt++ {
		got, err := e.send(ctx, plan, in.Toolset.Egress)
		if attempt < retries && repeatable(in.Method, got, err) {
			if e.pause(ctx, attempt, got) {
				continue
			}
		}
		if err != nil {
			return failed(secrets.scrub(unreachable(err, limit))), nil
		}
		if polling != nil {
			return task{e, in, *polling, plan, secrets}.follow(whole, got), nil
		}
		return got.outcome(secrets), nil
	}
}

func failed(f *tool.Failure) tool.Outcome { return tool.Outcome{Failure: f} }

// send makes one attempt and reads its answer whole.
func (e *Executor) send(ctx context.Context, p plan, allow []netip.Prefix) (response, error) {
	r, err := p.request(ctx)
	if err != nil {
		return response{}, err
	}
	resp, err := e.deps.Client.Do(r, allow)
	if err != nil {
		return response{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, e.deps.ResponseCap+1))
	if err != nil {
		return response{}, fmt.Errorf("read the response: %w", err)
	}
	got := response{status: resp.StatusCode, header: resp.Header, body: body}
	if int64(len(body)) > e.deps.ResponseCap {
		return got, errTooLarge{e.deps.ResponseCap}
	}
	return got, nil
}

// repeatable reports whether a call may be made again: nothing was sent, or
// repeating does no harm and the upstream asked for it. A call that may have
// had an effect is never repeated (design).
func repeatable(m toolset.Method, got response, err error) bool {
	if err != nil {
		return egress.BeforeWritten(err)
	}
	harmless := m.Adapter.Idempotent || slices.Contains([]string{"GET", "HEAD", "PUT", "DELETE"}, m.HTTPMethod)
	return harmless && slices.Contains([]int{429, 502, 503, 504}, got.status)
}

// pause waits before the next attempt. It reports false when there is no time
// for one.
func (e *Executor) pause(ctx context.Context, attempt int, got response) bool {
	delay := min(firstDelay<<attempt, longestDelay)
	delay = delay/2 + rand.N(delay/2+1) //nolint:gosec // spreads callers, protects nothing
	if asked, ok := e.retryAfter(got.header); ok {
		delay = asked
	}
	if end, ok := ctx.Deadline(); ok && time.Now().Add(delay).After(end) {
		return false
	}
	return e.deps.Wait(ctx, delay) == nil
}

// retryAfter reads the header of that name: seconds, or a date.
func (e *Executor) retryAfter(h http.Header) (time.Duration, bool) {
	text := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil && seconds >= 0 {
		return time.Duration(seconds) * time.Second, true
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	return max(0, at.Sub(e.deps.Now())), true
}

// errTooLarge is a response over the cap.
type errTooLarge struct{ limit int64 }

func (e errTooLarge) Error() string { return fmt.Sprintf("over %d bytes", e.limit) }

// unreachable puts a request without an answer into words that name no
// address: the caller need not learn what a name resolves to here.
func unreachable(err error, limit time.Duration) *tool.Failure {
	if large, ok := errors.AsType[errTooLarge](err); ok {
		return &tool.Failure{Code: "RESPONSE_TOO_LARGE", Message: fmt.Sprintf("The upstream answered with more than %d bytes.", large.limit)}
	}
	switch egress.KindOf(err) {
	case egress.Refused:
		return &tool.Failure{Code: "EGRESS_REFUSED", Message: "The tool's address, or one it redirects to, is not one that this toolset may reach."}
	case egress.Unknown:
		return &tool.Failure{Code: "HOST_NOT_FOUND", Message: "The upstream's host name does not resolve."}
	case egress.Dial:
		return &tool.Failure{Code: "CONNECTION_FAILED", Message: "The upstream does not accept connections."}
	case egress.TLS:
		return &tool.Failure{Code: "TLS_FAILED", Message: "No secure connection to the upstream: its certificate or protocol is not valid."}
	case egress.Timeout:
		return &tool.Failure{Code: tool.CodeTimeout, Message: fmt.Sprintf("The upstream did not answer within %s.", limit)}
	case egress.Canceled:
		return &tool.Failure{Code: "CANCELLED", Message: "The call was cancelled by its caller."}
	}
	return &tool.Failure{Code: "CONNECTION_BROKEN", Message: "The connection to the upstream broke before the answer was complete; the call may have had an effect."}
}
