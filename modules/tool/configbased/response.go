package configbased

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/tool/resource"
)

// response is an answer that was read whole.
type response struct {
	status int
	header http.Header
	body   []byte
}

// outcome says what an answer means.
func (r response) outcome(s secrets) tool.Outcome {
	body := s.redact(r.body)
	if r.status < 200 || r.status > 299 {
		return failed(s.scrub(r.refusal(body)))
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return tool.Outcome{Data: json.RawMessage("null")}
	}
	kind, _, err := mime.ParseMediaType(r.header.Get("Content-Type"))
	untyped := err != nil || kind == ""
	switch {
	case json.Valid(body) && (untyped || isJSON(kind)):
		return tool.Outcome{Data: body}
	case untyped && !utf8.Valid(body):
		return r.file("")
	case untyped, strings.HasPrefix(kind, "text/") && !isJSON(kind):
		return plain(body)
	case isJSON(kind):
		return failed(&tool.Failure{
			Code:    "INVALID_RESPONSE",
			Message: "The upstream answered with JSON that is not valid. Upstream response: " + cut(body),
		})
	}
	return r.file(kind)
}

// plain returns text as a JSON string.
func plain(body []byte) tool.Outcome {
	quoted, err := json.Marshal(strings.ToValidUTF8(string(body), "\uFFFD"))
	if err != nil {
		return failed(&tool.Failure{Code: "INVALID_RESPONSE", Message: "The upstream's text has no JSON form."})
	}
	return tool.Outcome{Data: quoted}
}

func isJSON(kind string) bool {
	return kind == "application/json" || kind == "text/json" || strings.HasSuffix(kind, "+json")
}

// file is an answer that is neither JSON nor text, byte for byte.
func (r response) file(kind string) tool.Outcome {
	return tool.Outcome{File: &resource.File{Type: kind, Content: r.body}}
}

// refusal puts an answer that is no success into words, with the upstream's
// own first: they are what the caller can act on.
func (r response) refusal(body []byte) *tool.Failure {
	f := &tool.Failure{Code: codeOf(r.status), Message: reason(body)}
	if f.Message == "" {
		f.Message = fmt.Sprintf("The upstream answered %d %s", r.status, http.StatusText(r.status))
	}
	f.Message = strings.TrimSuffix(strings.TrimSpace(f.Message), ".") + "."
	if text := cut(body); text != "" {
		f.Message += " Upstream response: " + text
	}
	if json.Valid(body) {
		f.Data = body
	}
	return f
}

// codeOf names an HTTP status as the wire contract does.
func codeOf(status int) string {
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

// reason finds the sentence in a JSON error, wherever upstreams put it.
func reason(body []byte) string {
	var e struct {
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
	for _, raw := range []json.RawMessage{e.Message, nested.Message, e.ErrorDescription, e.Detail, e.Error} {
		var text string
		if json.Unmarshal(raw, &text) == nil && text != "" {
			return limit(text, maxReason)
		}
	}
	return ""
}

// Lengths of what is quoted, in bytes.
const (
	maxQuote  = 1500 // wire contract
	maxReason = 500
)

// cut quotes a body.
func cut(body []byte) string {
	return limit(strings.TrimSpace(strings.ToValidUTF8(string(body), "\uFFFD")), maxQuote)
}

func limit(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "...[truncated]"
}
