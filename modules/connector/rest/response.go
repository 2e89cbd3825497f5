package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/tool/resource"
)

// outcome says what an answer means.
func outcome(r upstream.Response, s upstream.Secrets) tool.Outcome {
	if !r.OK() {
		return failed(r.Refusal(s))
	}
	body := s.Redact(r.Body)
	if len(bytes.TrimSpace(body)) == 0 {
		return tool.Outcome{Data: json.RawMessage("null")}
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	untyped := err != nil || kind == ""
	switch {
	case json.Valid(body) && (untyped || isJSON(kind)):
		return tool.Outcome{Data: body}
	case untyped && !utf8.Valid(body):
		return file(r, body, "")
	case untyped, isText(kind) && !isJSON(kind):
		return tool.Outcome{Data: quoted(body)}
	case isJSON(kind):
		return failed(&tool.Failure{
			Code:    upstream.CodeInvalid,
			Message: "The upstream answered with JSON that is not valid. Upstream response: " + upstream.Quote(body),
		})
	}
	return file(r, body, kind)
}

// quoted is text as a JSON string, with U+FFFD for what is not UTF-8. It takes
// the memory of its result only, where encoding/json takes several times that.
func quoted(text []byte) []byte {
	out := append(make([]byte, 0, len(text)+len(text)/16+2), '"')
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		text = text[size:]
		switch {
		case r == '"' || r == '\\':
			out = append(out, '\\', byte(r))
		case r == '\n':
			out = append(out, '\\', 'n')
		case r < ' ':
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return append(out, '"')
}

func isJSON(kind string) bool {
	return kind == "application/json" || kind == "text/json" || strings.HasSuffix(kind, "+json")
}

// isText reports whether a media type is read by people and programs as text.
func isText(kind string) bool {
	switch kind {
	case "application/xml", "application/yaml", "application/x-yaml", "application/x-ndjson", "application/jsonl", "application/graphql", "application/javascript":
		return true
	}
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+xml") && kind != "image/svg+xml" || strings.HasSuffix(kind, "+yaml")
}

// mediaOf is a media type without its parameters.
func mediaOf(declared string) string {
	kind, _, err := mime.ParseMediaType(declared)
	if err != nil {
		return declared
	}
	return kind
}

// file is an answer that is neither JSON nor text: body, which has no secrets, where
// it can be read as text, and byte for byte otherwise.
func file(r upstream.Response, body []byte, kind string) tool.Outcome {
	if !utf8.Valid(r.Body) {
		body = r.Body
	}
	return tool.Outcome{File: &resource.File{Type: kind, Content: body}}
}
