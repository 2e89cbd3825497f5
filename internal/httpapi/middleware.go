package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/telemetry/trace"
)

// HeaderTrace carries the id that joins a request, its log lines and its
// error.
const HeaderTrace = "X-Request-Id"

type traceKey struct{}

// TraceID returns the id of the request a context belongs to, or "".
func TraceID(ctx context.Context) string {
	id, _ := ctx.Value(traceKey{}).(string)
	return id
}

// WithTrace returns a context that belongs to the request of an id; it stays as it is
// where that is none.
func WithTrace(ctx context.Context, id string) context.Context {
	if !traceForm.MatchString(id) {
		return ctx
	}
	return context.WithValue(ctx, traceKey{}, id)
}

var traceForm = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,128}$`)

// trace begins the part of a trace that a request is.
func (a *API) trace(c *gin.Context) {
	ctx, span := a.deps.Tracer.Request(c.Request)
	defer span.End()
	c.Request = c.Request.WithContext(ctx)
	c.Next()
	span.Answer(c.Request.Method, c.FullPath(), c.Writer.Status())
}

// identify gives the request an id: the caller's when it is harmless to log,
// that of its trace where it has one, a fresh one otherwise.
func identify(c *gin.Context) {
	id := c.GetHeader(HeaderTrace)
	if !traceForm.MatchString(id) {
		if id = trace.ID(c.Request.Context()); id == "" {
			id = uuid.NewString()
		}
	}
	c.Header(HeaderTrace, id)
	c.Request = c.Request.WithContext(WithTrace(c.Request.Context(), id))
}

// logRequest writes one line per request. The path is logged without its
// query, which may hold what a user typed.
func (a *API) logRequest(c *gin.Context) {
	start := time.Now()
	marked, planned := withPlanned(c.Request.Context())
	c.Request = c.Request.WithContext(marked)
	c.Next()
	if a.deps.Observe != nil {
		a.deps.Observe(c.Request.Method, c.FullPath(), c.Writer.Status(), time.Since(start))
	}
	level := slog.LevelInfo
	if c.Writer.Status() >= http.StatusInternalServerError && !planned.Load() {
		level = slog.LevelError
	}
	ctx := c.Request.Context()
	who, _ := actor.From(ctx)
	fields := []any{
		"method", c.Request.Method, "path", c.Request.URL.Path,
		"status", c.Writer.Status(), "bytes", c.Writer.Size(), "durationMs", time.Since(start).Milliseconds(), "uid", who.UID,
	}
	if via, ok := ctx.Value(viaKey{}).(string); ok {
		fields = append(fields, "via", via)
	}
	a.deps.Logger.Log(ctx, level, "request", fields...)
}

// recoverPanic answers for a handler that panicked. The one panic that is a
// signal of net/http passes through.
func (a *API) recoverPanic(c *gin.Context) {
	defer func() {
		switch r := recover(); r {
		case nil:
		case http.ErrAbortHandler:
			panic(r)
		default:
			a.fail(c, fmt.Errorf("panic: %v\n%s", r, debug.Stack()))
		}
	}()
	c.Next()
}

const (
	// allowedHeaders are those that operations read, and the conditions that
	// browsers send by themselves.
	allowedHeaders = "Authorization, Content-Type, X-API-Key, Idempotency-Key, Last-Event-ID, Cache-Control, If-None-Match, Range, " +
		"Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name, " +
		"Anthropic-Version, Anthropic-Beta, Anthropic-Dangerous-Direct-Browser-Access, X-Stainless-Arch, X-Stainless-Helper, X-Stainless-Helper-Method, " +
		"X-Stainless-Lang, X-Stainless-OS, X-Stainless-Package-Version, X-Stainless-Retry-Count, X-Stainless-Runtime, X-Stainless-Runtime-Version, X-Stainless-Timeout, " +
		"X-CodeAPI-Expected-Profile, X-LibreChat-Code-Request-ID, " +
		"X-PTC-Call-Id, X-PTC-Line, X-Refly-Result-Id, X-Refly-Result-Version, X-Refly-Canvas-Id, " + HeaderTrace
	// exposedHeaders are those of answers that pages may read.
	exposedHeaders = "Retry-After, Content-Disposition, Content-Range, ETag, Mcp-Session-Id, WWW-Authenticate, X-CodeAPI-Execution-Profile, Request-Id, X-Should-Retry, X-Portico-Compacted, " + HeaderTrace
)

// cors lets the configured browser origins call with credentials. Every answer
// says that it depends on the origin, also one without an origin or for another:
// a cache must not give it to a page of a configured one.
func (a *API) cors(c *gin.Context) {
	h := c.Writer.Header()
	h.Add("Vary", "Origin")
	origin := c.GetHeader("Origin")
	if origin == "" || !slices.Contains(a.deps.Origins, origin) {
		return
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Allow-Credentials", "true")
	h.Set("Access-Control-Expose-Headers", exposedHeaders)
	if c.Request.Method == http.MethodOptions && c.GetHeader("Access-Control-Request-Method") != "" {
		h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE")
		h.Set("Access-Control-Allow-Headers", allowedHeaders)
		h.Set("Access-Control-Max-Age", "600")
		c.AbortWithStatus(http.StatusNoContent)
	}
}

// readBody reads a JSON body whole, within the limit, and refuses bytes that
// are not UTF-8: the decoder would replace them without a word.
func (a *API) readBody(c *gin.Context) {
	if c.Request.Body == nil || c.Request.Body == http.NoBody {
		return
	}
	if !isJSON(c.Request) {
		c.Request.Body = &timedBody{c.Request.Body, c.Writer}
		return
	}
	_ = huma.SetReadDeadline(c.Writer, time.Now().Add(a.bodyTime)) // what has no deadline reads without
	op, _ := a.route(c)
	body, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, a.limit(op)))
	_ = huma.SetReadDeadline(c.Writer, time.Time{})
	if err != nil {
		if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
			a.fail(c, errs.Newf(errs.TooLarge, "The request body is larger than %d bytes.", tooLarge.Limit).Do("Send less at once."))
			return
		}
		a.fail(c, errs.New(errs.Invalid, "The request body could not be read.").With(err))
		return
	}
	if !utf8.Valid(body) {
		a.fail(c, errs.New(errs.Invalid, "The request body is not valid UTF-8.").Do("Encode the JSON document as UTF-8."))
		return
	}
	c.Set(wholeBody, body)
	c.Request.Body = &timedBody{io.NopCloser(bytes.NewReader(body)), c.Writer}
}

// timedBody lifts the deadline for reading at its end. Left in place, it would
// pass while the request is worked on, and look as if the client had gone.
type timedBody struct {
	io.ReadCloser
	w http.ResponseWriter
}

// Read implements io.Reader.
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = huma.SetReadDeadline(b.w, time.Time{})
	}
	return n, err
}

func isJSON(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json"))
}
