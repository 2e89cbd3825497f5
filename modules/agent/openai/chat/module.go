// Package chat serves OpenAI's Chat Completions, with a mode of this server's own: a
// function run_code that it executes itself.
package chat

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/sse"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/agent/openai/failure"
	"github.com/portico-run/portico/modules/agent/openai/made"
)

// Toolsets says which toolsets and MCP servers a user may use, by their keys.
type Toolsets interface {
	Usable(ctx context.Context, a actor.Actor) ([]string, error)
}

// Settings are the limits of requests.
type Settings struct {
	// MaxTools is how many tools a request may have.
	MaxTools int
	// First is the model that answers where none is named.
	First  string
	Stream sse.Server
}

// Deps is what the service needs.
type Deps struct {
	Dialogues dialogue.Dialogues
	Toolsets  Toolsets
	Settings  Settings
	Now       func() time.Time
}

// Service answers requests of Chat Completions.
type Service struct {
	deps   Deps
	memory made.Memory
}

// New wires the service.
func New(d Deps) *Service { return &Service{deps: d} }

// maxBody is the largest request, in bytes.
const maxBody = 32 << 20

// Register adds the route.
func (s *Service) Register(api *httpapi.API) {
	api.Raw(httpapi.Operation{
		ID: "create-chat-completion", Method: http.MethodPost, Path: "/v1/chat/completions", Tag: "openai", Refusal: failure.Refusal,
		Summary: "Ask a model, in the form of OpenAI's Chat Completions",
		Description: "With a function run_code among the tools, the model writes programs in Python, which this server executes. They call the other functions, " +
			"whose calls come as ordinary tool_calls, and the user's own tools.",
		Raw: httpapi.Description{
			Body: ChatRequest{Messages: []json.RawMessage{json.RawMessage(`{"role":"user","content":"Hello"}`)}}, Answers: []any{Completion{}},
			Media: map[string]string{"text/event-stream": `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":0,"model":"small","choices":[{"index":0,"delta":{"content":"Hi"},"logprobs":null,"finish_reason":null}],"system_fingerprint":null}`},
		},
		BodyLimit: maxBody, Runs: true, Lasts: true,
		Errors: []errs.Code{errs.NotFound, errs.Conflict, errs.RateLimited, errs.NoCredits, errs.Unavailable, errs.TooLarge},
	}, s.create)
}
