package mcpserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
)

// message is what a client sends: the protocol says what params are.
type message struct {
	Version string          `json:"jsonrpc" enum:"2.0"`
	ID      json.RawMessage `json:"id,omitempty" documented:"type=string|integer" example:"\"1\"" doc:"Of requests; absent in notifications"`
	Method  string          `json:"method" minLength:"1" example:"tools/list"`
	Params  json.RawMessage `json:"params,omitempty" documented:"type=object additionalProperties=true" example:"{}"`
}

// reply is what a request is answered with: a result, or an error.
type reply struct {
	Version string          `json:"jsonrpc" enum:"2.0"`
	ID      json.RawMessage `json:"id,omitempty" documented:"type=string|integer" example:"\"1\"" doc:"That of the request"`
	Result  map[string]any  `json:"result,omitempty"`
	Error   map[string]any  `json:"error,omitempty"`
}

// check refuses what is no message before anything else looks at it.
func (m message) check() error {
	var number json.Number
	var text string
	switch {
	case m.Version != "2.0":
		return errNoMessage.Do(`Its member jsonrpc is "2.0".`)
	case m.Method == "":
		return errNoMessage.Do("Its member method is a text.")
	case string(m.ID) == "null":
		return errNoMessage.Do("Its member id is a text or an integer; notifications have none.")
	case m.ID != nil && json.Unmarshal(m.ID, &text) != nil && (json.Unmarshal(m.ID, &number) != nil || strings.ContainsAny(number.String(), ".eE")):
		return errNoMessage.Do("Its member id is a text or an integer.")
	case m.Params != nil && m.Params[0] != '{':
		return errNoMessage.Do("Its member params is an object.")
	}
	return nil
}

var errNoMessage = errs.New(errs.Invalid, "The body is no message of the Model Context Protocol.")

// serve answers one request. The protocol has no sessions here: what goes on has a
// handle, so that any process can answer.
func (m *Module) serve(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	var in message
	if err := httpapi.ReadJSON(r, &in); err != nil {
		return err
	}
	if err := in.check(); err != nil {
		return err
	}
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	r.ContentLength = int64(len(body))
	r.Body = io.NopCloser(bytes.NewReader(body))
	if accept := r.Header.Get("Accept"); accept == "" || strings.Contains(accept, "*/*") {
		r.Header.Set("Accept", "application/json, text/event-stream")
	}
	server := m.server(user{m, who, r.Context().Done()})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		Stateless: true, MaxRequestBodyBytes: maxBody, PropagateRequestCancellation: true, DisableLocalhostProtection: true, // hosts and origins are checked before
	})
	refusal := &refusal{ResponseWriter: w}
	handler.ServeHTTP(refusal, r)
	return refusal.error()
}

// refusal keeps back an answer that is a text about what is wrong, so that it can be
// one like all others of the API.
type refusal struct {
	http.ResponseWriter

	status int // of the text; 0 for any other answer
	text   bytes.Buffer
}

// Unwrap is for http.ResponseController.
func (f *refusal) Unwrap() http.ResponseWriter { return f.ResponseWriter }

// Flush implements http.Flusher.
func (f *refusal) Flush() {
	if f.status == 0 {
		_ = http.NewResponseController(f.ResponseWriter).Flush() // the next write says that the client is gone
	}
}

// WriteHeader implements http.ResponseWriter.
func (f *refusal) WriteHeader(status int) {
	if status >= http.StatusBadRequest && strings.HasPrefix(f.Header().Get("Content-Type"), "text/plain") {
		f.status = status
		return
	}
	f.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (f *refusal) Write(p []byte) (int, error) {
	if f.status != 0 {
		return f.text.Write(p)
	}
	return f.ResponseWriter.Write(p)
}

func (f *refusal) error() error {
	if f.status == 0 {
		return nil
	}
	for _, name := range []string{"Content-Type", "X-Content-Type-Options", "Content-Length"} {
		f.Header().Del(name)
	}
	text := strings.TrimSpace(f.text.String())
	if f.status >= http.StatusInternalServerError {
		return errs.New(errs.Internal, "The message could not be answered.").With(errors.New(text))
	}
	return errs.New(errs.Invalid, "The message is not taken.").Do(text)
}
