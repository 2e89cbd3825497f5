package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gin-gonic/gin"

	"github.com/portico-run/portico/internal/errs"
)

// failure is the envelope of a request that did not work. It is the body, the
// status and the headers in one, in the shape the API library asks for.
type failure struct {
	Success bool      `json:"success" doc:"Always false here"`
	ErrCode errs.Code `json:"errCode" enum:"E0000,E0001,E0003,E0005,E0012,E0020,E0021,E0022,E0023,E0024,E0025,E0026,E0027,E0028,E0029,E1000,E1011,E1020,E1024,E2001,E2002,APPROVAL_SETTLED" doc:"Stable; programs react to it"`
	ErrMsg  string    `json:"errMsg" doc:"What is wrong"`
	Detail  string    `json:"errDetail" doc:"What to do about it"`
	TraceID string    `json:"traceId" doc:"Names the request in the server's log"`
	URL     string    `json:"url,omitempty" doc:"Where a person authorizes what the request needs, if that is what is wrong"`

	headers http.Header
}

func (f *failure) Error() string           { return f.ErrMsg }
func (f *failure) GetStatus() int          { return f.ErrCode.Status() }
func (f *failure) GetHeaders() http.Header { return f.headers }

// ContentType keeps the envelope plain JSON, whatever the client accepts.
func (f *failure) ContentType(string) string { return "application/json" }

// public turns any error into what the client may see, and logs what it may
// not.
func (a *API) public(ctx context.Context, err error) *failure {
	e := a.explain(ctx, err)
	f := &failure{ErrCode: e.Code, ErrMsg: e.Message, Detail: e.Detail, TraceID: TraceID(ctx), URL: e.URL}
	if seconds, said := retryAfter(e); said {
		f.headers = http.Header{"Retry-After": {seconds}}
	}
	return f
}

// RetryAfter is when trying again can help, in whole seconds, at least one.
func RetryAfter(e *errs.Error) int { return max(1, int(e.RetryAfter.Seconds()+0.999)) }

// retryAfter is the header of that name. Every 429 has it: clients that wait by
// it fail at once without it.
func retryAfter(e *errs.Error) (seconds string, said bool) {
	return strconv.Itoa(RetryAfter(e)), e.RetryAfter > 0 || e.Code == errs.RateLimited
}

// lateRetry is when a request that was not finished in time may come again.
const lateRetry = 5 * time.Second

// explain makes any error one that may be shown, and logs what may not.
func (a *API) explain(ctx context.Context, err error) *errs.Error {
	e, known := errors.AsType[*errs.Error](err)
	switch {
	case known:
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		e = errs.New(errs.Cancelled, "The request was cancelled.")
	case errors.Is(err, context.DeadlineExceeded):
		e = errs.New(errs.Unavailable, "The server did not finish in time.").Do("Try again later.").After(lateRetry)
	default:
		e = errs.New(errs.Internal, "An unknown error has occurred.").
			Do("Try again later; if it stays, give the operator the traceId.")
	}
	switch {
	case e.Code.Status() < http.StatusInternalServerError, e.Code == errs.ToolFailed: // that is in the call's record
	case e.Planned:
		markPlanned(ctx)
		a.deps.Logger.InfoContext(ctx, "request refused", "code", e.Code, "error", err, "cause", errors.Unwrap(e))
	default:
		a.deps.Logger.ErrorContext(ctx, "request failed", "code", e.Code, "error", err, "cause", errors.Unwrap(e))
	}
	return e
}

type plannedKey struct{}

// withPlanned is the context of a request that can be marked as refused as planned.
func withPlanned(ctx context.Context) (_ context.Context, planned *atomic.Bool) {
	planned = new(atomic.Bool)
	return context.WithValue(ctx, plannedKey{}, planned), planned
}

// markPlanned says that the failure of a request is no fault.
func markPlanned(ctx context.Context) {
	if planned, ok := ctx.Value(plannedKey{}).(*atomic.Bool); ok {
		planned.Store(true)
	}
}

// fail writes the envelope outside the API library.
func (a *API) fail(c *gin.Context, err error) {
	ctx := c.Request.Context()
	e := a.explain(ctx, err)
	c.Abort()
	if c.Writer.Written() {
		return // part of another answer is out; a second one would corrupt it
	}
	if seconds, said := retryAfter(e); said {
		c.Header("Retry-After", seconds)
	}
	op, known := a.route(c)
	if !known {
		op, known = a.beside(c.Request.URL.Path)
	}
	if known && op.TraceHeader != "" {
		c.Header(op.TraceHeader, TraceID(ctx))
	}
	if known && op.Challenge != "" && e.Code.Status() == http.StatusUnauthorized {
		c.Header("WWW-Authenticate", op.Challenge)
	}
	if known && op.Refusal != nil {
		c.JSON(e.Code.Status(), op.Refusal(e, TraceID(ctx)))
		return
	}
	c.JSON(e.Code.Status(), &failure{ErrCode: e.Code, ErrMsg: e.Message, Detail: e.Detail, TraceID: TraceID(ctx), URL: e.URL})
}

// Fail writes the envelope of an error for a handler that is not an operation.
func Fail(w http.ResponseWriter, e *errs.Error) {
	w.Header().Set("Content-Type", "application/json")
	if seconds, said := retryAfter(e); said {
		w.Header().Set("Retry-After", seconds)
	}
	w.WriteHeader(e.Code.Status())
	_ = json.NewEncoder(w).Encode(&failure{ErrCode: e.Code, ErrMsg: e.Message, Detail: e.Detail, URL: e.URL}) // a client that is gone
}

// newHumaError gives the API library's own refusals (validation, limits,
// content types) the envelope. The library puts the offending value into its
// details; only place and rule are passed on, since a value may be a secret.
func newHumaError(hc huma.Context, status int, msg string, details ...error) huma.StatusError {
	if len(details) == 1 {
		if f, ok := errors.AsType[*failure](details[0]); ok {
			return f
		}
	}
	f := &failure{ErrCode: codeOf(status), ErrMsg: msg}
	if hc != nil {
		f.TraceID = TraceID(hc.Context())
	}
	switch f.ErrCode {
	case errs.Invalid:
		f.ErrMsg, f.Detail = "The request is not valid.", places(details)
		if f.Detail == "" {
			f.Detail = msg
		}
	case errs.TooLarge:
		f.ErrMsg, f.Detail = "The request body is too large.", "Send less at once."
	case errs.Unsupported:
		f.ErrMsg, f.Detail = "The content type is not supported.", "Send application/json."
	case errs.Internal:
		f.ErrMsg, f.Detail = "An unknown error has occurred.", "Try again later."
	}
	return f
}

func codeOf(status int) errs.Code {
	switch status {
	case http.StatusRequestEntityTooLarge:
		return errs.TooLarge
	case http.StatusUnsupportedMediaType:
		return errs.Unsupported
	case http.StatusNotFound:
		return errs.NotFound
	}
	if status >= http.StatusInternalServerError || status == 0 {
		return errs.Internal
	}
	return errs.Invalid
}

// places renders validation details as "body.name: expected string; …".
func places(details []error) string {
	var out []string
	for _, d := range details {
		detailer, ok := d.(huma.ErrorDetailer)
		if !ok {
			if d != nil {
				out = append(out, "the body is not readable JSON of the expected form")
			}
			continue
		}
		e := detailer.ErrorDetail()
		if e.Location == "" {
			out = append(out, e.Message)
			continue
		}
		out = append(out, e.Location+": "+e.Message)
	}
	return strings.Join(out, "; ")
}
