package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/console/pages"
)

// maxAnswer bounds what a page reads of one answer.
const maxAnswer = 16 << 20

// errTooLarge is what the API hears of an answer that no page can hold.
var errTooLarge = errors.New("the answer is too large for a page")

// client asks the API of this process with the session of a browser, as that
// browser could.
type client struct {
	api  http.Handler
	from *http.Request
}

// Call implements pages.Caller.
func (c client) Call(ctx context.Context, q pages.Request, into any) error {
	_, err := c.do(ctx, q, into)
	return err
}

// do is Call with the headers of the answer.
func (c client) do(ctx context.Context, q pages.Request, into any) (http.Header, error) {
	r, err := c.request(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("a request of the console: %w", err)
	}
	a := &held{header: http.Header{}, status: http.StatusOK}
	c.api.ServeHTTP(a, r)
	return a.header, a.read(into)
}

func (c client) request(ctx context.Context, q pages.Request) (*http.Request, error) {
	body, media := q.Stream, q.Type
	if q.Body != nil {
		text, err := json.Marshal(q.Body)
		if err != nil {
			return nil, err
		}
		body, media = bytes.NewReader(text), "application/json"
	}
	path := q.Path
	if len(q.Query) > 0 {
		path += "?" + q.Query.Encode()
	}
	r, err := http.NewRequestWithContext(httpapi.Via(ctx, "console"), q.Method, "http://console"+path, body)
	if err != nil {
		return nil, err
	}
	// The API tells apart who asks by these, for limits and for cookies.
	r.Host, r.RemoteAddr, r.TLS, r.RequestURI = c.from.Host, c.from.RemoteAddr, c.from.TLS, path
	r.Header.Set("User-Agent", c.from.UserAgent())
	if cookie, err := c.from.Cookie(httpapi.AccessCookie); err == nil && cookie.Value != "" {
		r.AddCookie(cookie)
	}
	// The console has looked at the origin of what the browser sent.
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for name, value := range map[string]string{
		"Content-Type": media, "Idempotency-Key": q.Once, httpapi.HeaderTrace: c.from.Header.Get(httpapi.HeaderTrace),
	} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	return r, nil
}

// held keeps an answer of the API.
type held struct {
	header http.Header
	status int
	body   bytes.Buffer
	over   bool
}

var (
	_ http.Flusher        = (*held)(nil)
	_ http.ResponseWriter = (*held)(nil)
)

// Header implements http.ResponseWriter.
func (a *held) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *held) WriteHeader(status int) { a.status = status }

// Write implements http.ResponseWriter.
func (a *held) Write(b []byte) (int, error) {
	if a.body.Len()+len(b) > maxAnswer {
		a.over = true
		return 0, errTooLarge
	}
	return a.body.Write(b)
}

// Flush implements http.Flusher.
func (a *held) Flush() {}

func (a *held) read(into any) error {
	if a.over {
		return pages.Refusal{Problem: pages.Problem{Status: http.StatusBadGateway, Message: "The answer is too large for a page.", Detail: "Ask the API for it."}}
	}
	if raw, ok := into.(io.Writer); ok && a.status < http.StatusBadRequest {
		_, err := raw.Write(a.body.Bytes())
		return err
	}
	var envelope struct {
		Data                       json.RawMessage
		ErrMsg, ErrDetail, TraceID string
	}
	if err := json.Unmarshal(a.body.Bytes(), &envelope); err != nil {
		return fmt.Errorf("an answer of the API, status %d: %w", a.status, err)
	}
	if a.status >= http.StatusBadRequest {
		return pages.Refusal{Problem: pages.Problem{Status: a.status, Message: envelope.ErrMsg, Detail: envelope.ErrDetail, TraceID: envelope.TraceID}}
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(envelope.Data, into); err != nil {
		return fmt.Errorf("an answer of the API: %w", err)
	}
	return nil
}
