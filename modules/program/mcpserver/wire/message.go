// Package wire is the outer form of what MCP clients send and are answered.
package wire

import (
	"encoding/json"
	"mime"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portico-run/portico/internal/errs"
)

// FirstAsking is the revision of the protocol since which a call is answered with a
// question, and comes again with what the person said. Clients of older ones are asked
// in their session, while the call is under way.
const FirstAsking = "2026-07-28"

// Message is what a client sends: a request, a notification, or in a session the answer
// to a question. The protocol says what params are.
type Message struct {
	Version string          `json:"jsonrpc" enum:"2.0"`
	ID      json.RawMessage `json:"id,omitempty" documented:"type=string|integer" example:"\"1\"" doc:"Of requests, and of the question that is answered; absent in notifications"`
	Method  string          `json:"method,omitempty" minLength:"1" example:"tools/list" doc:"Absent in answers"`
	Params  json.RawMessage `json:"params,omitempty" documented:"type=object additionalProperties=true" example:"{}"`
	Result  json.RawMessage `json:"result,omitempty" documented:"type=object additionalProperties=true" example:"{}" doc:"Of answers"`
	Error   json.RawMessage `json:"error,omitempty" documented:"type=object additionalProperties=true" example:"{}" doc:"Of answers"`
}

// Reply is what a request is answered with: a result, or an error.
type Reply struct {
	Version string          `json:"jsonrpc" enum:"2.0"`
	ID      json.RawMessage `json:"id,omitempty" documented:"type=string|integer" example:"\"1\"" doc:"That of the request"`
	Result  map[string]any  `json:"result,omitempty"`
	Error   map[string]any  `json:"error,omitempty"`
}

// Check refuses what is no message before anything else looks at it.
func (m Message) Check() error {
	var number json.Number
	var text string
	switch {
	case m.Version != "2.0":
		return ErrNoMessage.Do(`Its member jsonrpc is "2.0".`)
	case m.Method == "" && (m.ID == nil || (m.Result == nil) == (m.Error == nil)):
		return ErrNoMessage.Do("Its member method is a text, or it is the answer to a question: with id, and either result or error.")
	case m.Method != "" && (m.Result != nil || m.Error != nil):
		return ErrNoMessage.Do("A request has neither result nor error.")
	case string(m.ID) == "null":
		return ErrNoMessage.Do("Its member id is a text or an integer; notifications have none.")
	case m.ID != nil && json.Unmarshal(m.ID, &text) != nil && (json.Unmarshal(m.ID, &number) != nil || strings.ContainsAny(number.String(), ".eE")):
		return ErrNoMessage.Do("Its member id is a text or an integer.")
	}
	for _, member := range []json.RawMessage{m.Params, m.Result, m.Error} {
		if member != nil && member[0] != '{' {
			return ErrNoMessage.Do("Its members params, result and error are objects.")
		}
	}
	return nil
}

// Refusals of what a client sends.
var (
	ErrNotTaken  = errs.New(errs.Invalid, "The message is not taken.")
	ErrNoMessage = errs.New(errs.Invalid, "The body is no message of the Model Context Protocol.")
)

// Acceptable refuses what the SDK refuses of requests without a session.
func Acceptable(r *http.Request) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return ErrNotTaken.Do("Send Content-Type: application/json.")
	}
	accept := strings.Join(r.Header.Values("Accept"), ",")
	for _, kind := range []string{"application/json", "text/event-stream"} {
		if !strings.Contains(accept, kind) {
			return ErrNotTaken.Do("Accept must contain both application/json and text/event-stream.")
		}
	}
	return nil
}

// AsksPeople reports whether a client of the older era introduces itself with a way to
// ask the person in front of it.
func (m Message) AsksPeople() bool {
	var p mcp.InitializeParams
	if m.Method != "initialize" || json.Unmarshal(m.Params, &p) != nil || p.ProtocolVersion >= FirstAsking {
		return false
	}
	return p.Capabilities != nil && p.Capabilities.Elicitation != nil
}
