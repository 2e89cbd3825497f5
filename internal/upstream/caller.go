// Package upstream makes the HTTP calls that tools are made of: bounded, within
// the rules of egress, repeated only where that does no harm, and refused for a
// while where an upstream keeps failing.
package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/portico-run/portico/internal/egress"
	"github.com/portico-run/portico/internal/lifecycle"
	"github.com/portico-run/portico/internal/telemetry/trace"
)

// Client makes HTTP requests within the rules of egress.
type Client interface {
	Do(r *http.Request, allow []netip.Prefix) (*http.Response, error)
}

// Deps is what a Caller needs.
type Deps struct {
	Client Client
	// ResponseCap is the largest response body in bytes.
	ResponseCap int64
	// Breaker says when calls to an upstream stop for a while.
	Breaker BreakerSettings
	// Stopped, if set, is told of an origin when this process has stopped calls to it
	// for a while. It returns at once.
	Stopped func(origin string)
	// Observe, if set, is told of every request that was sent, or not: with how it
	// went, and how long its answer took to begin.
	Observe func(result Result, took time.Duration)
	// Trace tells upstreams the trace that a request belongs to, if it has one.
	Trace bool
	// Wait pauses before a repetition; nil for the wall clock.
	Wait func(ctx context.Context, d time.Duration) error
	Now  func() time.Time
}

// Caller makes calls. It is safe for concurrent use.
type Caller struct {
	deps     Deps
	breakers *breakers
}

// New returns a caller and starts nothing.
func New(d Deps) *Caller {
	if d.Wait == nil {
		d.Wait = lifecycle.Pause
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	return &Caller{deps: d, breakers: newBreakers(d.Breaker, d.Now)}
}

// Wait pauses, as long as ctx lasts.
func (c *Caller) Wait(ctx context.Context, d time.Duration) error { return c.deps.Wait(ctx, d) }

// Request is a call that can be made several times.
type Request struct {
	Method string
	URL    string
	Header http.Header
	Body   []byte // nil for none
	// Allow lists what may be reached beyond the public internet.
	Allow []netip.Prefix
	// Harmless says that repeating the call has no effect of its own.
	Harmless bool
	// Retries is how often it is repeated where that is safe.
	Retries int
	// Again, if set, decides instead whether an attempt is repeated.
	Again func(got Response, err error) bool
	// Patience is the longest wait that an answer may ask for before a
	// repetition: over it the answer stands. 0 waits as long as the context lasts.
	Patience time.Duration
	// Limit is the time limit that an error message names; the context enforces it.
	Limit time.Duration
}

// Response is an answer that was read whole.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// OK reports whether the answer is a success.
func (r Response) OK() bool { return r.Status >= 200 && r.Status <= 299 }

// Repetitions of a call.
const (
	DefaultRetries = 3
	firstDelay     = 250 * time.Millisecond
	longestDelay   = 10 * time.Second
)

// Do makes a call. An answer of any status is a Response; a call without one is
// a *Failure. A call that may have had an effect is never repeated.
func (c *Caller) Do(ctx context.Context, r Request) (Response, error) {
	breaker := c.breakers.of(r.URL)
	if left, open := breaker.open(); open {
		c.observe(Skipped, 0)
		return Response{}, unavailable(left)
	}
	got, err := c.repeat(ctx, r, func() (Response, error) { return c.send(ctx, r) })
	c.record(breaker, got, err)
	if err != nil {
		return got, unreachable(err, r.Limit)
	}
	return got, nil
}

// record counts a call, and tells when it stopped the calls to its origin.
func (c *Caller) record(b *breaker, got Response, err error) {
	if b.record(got, err) && c.deps.Stopped != nil {
		c.deps.Stopped(b.origin)
	}
}

// repeat makes attempts until one stands.
func (c *Caller) repeat(ctx context.Context, r Request, send func() (Response, error)) (Response, error) {
	for attempt := 0; ; attempt++ {
		got, err := send()
		if attempt < r.Retries && repeatable(r, got, err) && c.pause(ctx, attempt, r.Patience, got) {
			continue
		}
		return got, err
	}
}

// send makes one attempt and reads its answer whole.
func (c *Caller) send(ctx context.Context, r Request) (Response, error) {
	resp, err := c.open(ctx, r)
	if err != nil {
		return Response{}, err
	}
	defer resp.Body.Close()
	body, err := read(ctx, resp, c.deps.ResponseCap)
	return Response{Status: resp.StatusCode, Header: resp.Header, Body: body}, err
}

// open sends a request and returns its answer as it begins.
func (c *Caller) open(ctx context.Context, r Request) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", egress.ErrInvalid, err)
	}
	if r.Body == nil {
		req.Body, req.GetBody, req.ContentLength = http.NoBody, nil, 0
	}
	req.Header = r.Header.Clone()
	ctx, span := trace.Start(ctx, trace.Upstream)
	defer span.End()
	if c.deps.Trace {
		trace.Inject(ctx, req.Header)
	}
	began := time.Now()
	resp, err := c.deps.Client.Do(req, r.Allow)
	result := resultOf(resp, err)
	c.observe(result, time.Since(began))
	span.Set("http.request.method", r.Method)
	span.Set("server.address", req.URL.Hostname())
	if err == nil {
		span.Count("http.response.status_code", resp.StatusCode)
	}
	if result != Success {
		span.Fail(string(result))
	}
	return resp, err
}

// repeatable reports whether a call may be made again: nothing was sent, or
// repeating does no harm and the upstream asked for it.
func repeatable(r Request, got Response, err error) bool {
	if r.Again != nil {
		return r.Again(got, err)
	}
	if err != nil {
		return egress.BeforeWritten(err)
	}
	return r.Harmless && slices.Contains([]int{429, 502, 503, 504}, got.Status)
}

// pause waits before the next attempt. It reports false when there is no time
// for one.
func (c *Caller) pause(ctx context.Context, attempt int, patience time.Duration, got Response) bool {
	delay := min(firstDelay<<attempt, longestDelay)
	delay = delay/2 + rand.N(delay/2+1) //nolint:gosec // spreads callers, protects nothing
	if asked, ok := got.retryAfter(c.deps.Now()); ok {
		if patience > 0 && asked > patience {
			return false
		}
		delay = asked
	}
	if end, ok := ctx.Deadline(); ok && time.Now().Add(delay).After(end) {
		return false
	}
	return c.deps.Wait(ctx, delay) == nil
}

// retryAfter is how long an answer asks to wait: in Retry-After-Ms, milliseconds,
// or else in Retry-After, seconds or a date. Numbers may have fractions.
func (r Response) retryAfter(now time.Time) (time.Duration, bool) {
	if wait, ok := duration(r.Header.Get("Retry-After-Ms"), time.Millisecond); ok {
		return wait, true
	}
	text := r.Header.Get("Retry-After")
	if wait, ok := duration(text, time.Second); ok {
		return wait, true
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	return max(0, at.Sub(now)), true
}

// duration reads a number of units. One that is too large for a duration is the
// longest one.
func duration(text string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || n < 0 || math.IsNaN(n) {
		return 0, false
	}
	if n >= float64(math.MaxInt64)/float64(unit) {
		return math.MaxInt64, true
	}
	return time.Duration(n * float64(unit)), true
}

func unavailable(left time.Duration) *Failure {
	return &Failure{
		Code:    CodeUnavailable,
		Message: fmt.Sprintf("The upstream has failed too often; nothing is sent to it for %s.", left.Round(time.Second)+time.Second),
	}
}

// unreachable puts a call without an answer into words that name no address:
// the caller need not learn what a name resolves to here.
func unreachable(err error, limit time.Duration) *Failure {
	if large, ok := errors.AsType[errTooLarge](err); ok {
		return TooLarge(large.size, large.limit)
	}
	if errors.Is(err, errNoRoom) {
		return &Failure{Code: CodeUnavailable, Message: "The server had no room for the upstream's answer in time: it works on other large results. The call may have had an effect."}
	}
	if late, ok := errors.AsType[slow](err); ok {
		return &Failure{Code: CodeTimeout, Message: fmt.Sprintf("The upstream did not answer in time: %s.", late)}
	}
	f := withoutAnswer(err, limit)
	if kind := egress.KindOf(err); slices.Contains([]egress.Kind{egress.Unknown, egress.Dial, egress.TLS}, kind) && egress.Sent(err) {
		f.Message += " Something of the call may have been sent before; it may have had an effect."
	}
	return f
}

// withoutAnswer names the kind of an error.
func withoutAnswer(err error, limit time.Duration) *Failure {
	switch {
	case errors.Is(err, egress.ErrRedirects):
		return &Failure{Code: CodeRefused, Message: "The upstream redirects without an end; the call may have had an effect."}
	case errors.Is(err, egress.ErrBodyElsewhere):
		return &Failure{Code: CodeRefused, Message: "The upstream redirects the call to another origin, and the body of a call is not sent to one; the call may have had an effect."}
	}
	switch egress.KindOf(err) {
	case egress.Invalid:
		return &Failure{Code: CodeInvalidRequest, Message: "No request can be made of the call: its address, or the value of a header, is not valid. Nothing was sent."}
	case egress.Refused:
		return &Failure{Code: CodeRefused, Message: "The tool's address, or one it redirects to, is not one that this toolset may reach."}
	case egress.Unknown:
		return &Failure{Code: "HOST_NOT_FOUND", Message: "The upstream's host name does not resolve."}
	case egress.Dial:
		return &Failure{Code: "CONNECTION_FAILED", Message: "The upstream does not accept connections."}
	case egress.TLS:
		return &Failure{Code: "TLS_FAILED", Message: "No secure connection to the upstream: its certificate or protocol is not valid."}
	case egress.Timeout:
		return &Failure{Code: CodeTimeout, Message: fmt.Sprintf("The upstream did not answer within %s.", limit)}
	case egress.Canceled:
		return &Failure{Code: "CANCELLED", Message: "The call was cancelled by its caller."}
	}
	return &Failure{Code: CodeBroken, Message: "The connection to the upstream broke before the answer was complete; the call may have had an effect."}
}
