package upstream

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

// Failure is a call that did not do its work, in words for the caller.
type Failure struct {
	Message string
	Code    string          // BAD_REQUEST, TIMEOUT, …
	Data    json.RawMessage // what the upstream said, if it is JSON
}

// Error implements error.
func (f *Failure) Error() string { return f.Code + ": " + f.Message }

// Codes of failures that others compare with.
const (
	CodeTimeout     = "TIMEOUT"
	CodeUnavailable = "UPSTREAM_UNAVAILABLE"
	CodeInvalid     = "INVALID_RESPONSE"
	// CodeInvalidRequest says that HTTP cannot carry the call.
	CodeInvalidRequest = "INVALID_REQUEST"
	// CodeBroken says that a connection ended in the middle, CodeRefused that the rules
	// of egress forbid an address.
	CodeBroken   = "CONNECTION_BROKEN"
	CodeRefused  = "EGRESS_REFUSED"
	CodeTooLarge = "RESPONSE_TOO_LARGE"
	// CodeAuthNeeded says that a person must authorize Portico. The failure's data
	// has the member url, where that is done, unless it is done with a setting.
	CodeAuthNeeded = "AUTH_NEEDED"
)

// TooLarge is the failure of a call whose result is over the limit. Nothing of
// the result is returned: a part would look like the whole. size is negative
// where it is not known.
func TooLarge(size, limit int64) *Failure {
	found := fmt.Sprintf("The result has more than %d bytes", limit)
	if size >= 0 {
		found = fmt.Sprintf("The result has %d bytes, more than %d", size, limit)
	}
	return &Failure{Code: CodeTooLarge, Message: found + ", the most that a call may return (TOOL_RESPONSE_CAP). " +
		"Nothing of it is returned. Ask for less: use a filter, fewer fields or smaller pages."}
}

// Refusal describes an answer that is not a success. The upstream's own words come
// first: the caller can act on them.
func (r Response) Refusal(s Secrets) *Failure {
	body := s.Redact(r.Body)
	f := &Failure{Code: CodeOf(r.Status), Message: Reason(body)}
	if f.Message == "" {
		f.Message = fmt.Sprintf("The upstream answered %d %s", r.Status, http.StatusText(r.Status))
	}
	f.Message = strings.TrimSuffix(strings.TrimSpace(f.Message), ".") + "."
	f.Message += r.TryAgain()
	if text := Quote(body); text != "" {
		f.Message += " Upstream response: " + text
	}
	if json.Valid(body) {
		f.Data = body
	}
	return s.Scrub(f)
}

// TryAgain is a sentence, with a space before it, if the answer says when to ask
// again; otherwise it is empty.
func (r Response) TryAgain() string {
	after, ok := r.retryAfter(time.Now())
	if !ok || r.Status != http.StatusTooManyRequests {
		return ""
	}
	return fmt.Sprintf(" Try again after %s.", after.Round(time.Second))
}

// CodeOf names an HTTP status: docs/wire/refly.md#failures-of-upstreams.
func CodeOf(status int) string {
	switch {
	case status == http.StatusBadRequest:
		return "BAD_REQUEST"
	case status == http.StatusUnauthorized:
		return "UNAUTHORIZED"
	case status == http.StatusForbidden:
		return "FORBIDDEN"
	case status == http.StatusNotFound:
		return "NOT_FOUND"
	case status == http.StatusTooManyRequests:
		return "RATE_LIMIT_ERROR"
	case status >= http.StatusInternalServerError:
		return "SERVER_ERROR"
	}
	return "HTTP_ERROR"
}

// Reason finds the sentence in a JSON error, wherever upstreams put it.
func Reason(body []byte) string {
	var e struct {
		Readable         json.RawMessage `json:"readableMessage"`
		Message          json.RawMessage `json:"message"`
		Detail           json.RawMessage `json:"detail"`
		ErrorDescription json.RawMessage `json:"error_description"`
		Error            json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &e) != nil {
		return ""
	}
	var nested struct {
		Message json.RawMessage `json:"message"`
	}
	_ = json.Unmarshal(e.Error, &nested) // an error that is text has no message in it
	for _, raw := range []json.RawMessage{e.Readable, e.Message, nested.Message, e.ErrorDescription, e.Detail, e.Error} {
		var text string
		if json.Unmarshal(raw, &text) == nil && text != "" {
			return Limit(text, MaxReason)
		}
	}
	return ""
}

// Lengths of what is quoted, in bytes.
const (
	maxQuote  = 1500
	MaxReason = 500
)

// Quote is the beginning of a body, as text.
func Quote(body []byte) string {
	return Limit(strings.TrimSpace(strings.ToValidUTF8(string(body), "\uFFFD")), maxQuote)
}

// Limit cuts a text that is longer than so many bytes.
func Limit(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "...[truncated]"
}
