// Package anthropic is Anthropic's Messages API for clients of that vendor's, with
// programs that call their tools and this server's. What it says and takes is written
// down in docs/wire/anthropic.md#messages.
package anthropic

import (
	"context"
	"net/http"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/sse"
	"github.com/portico-run/portico/modules/agent/anthropic/answer"
	"github.com/portico-run/portico/modules/agent/anthropic/files"
	"github.com/portico-run/portico/modules/agent/anthropic/history"
	"github.com/portico-run/portico/modules/agent/anthropic/messages"
	"github.com/portico-run/portico/modules/agent/anthropic/offer"
	"github.com/portico-run/portico/modules/agent/anthropic/wire"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/codeapi/session"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/model/named"
)

// Dialogues answers requests and counts their tokens; dialogue.Service does.
type Dialogues interface {
	dialogue.Dialogues
	Count(ctx context.Context, a actor.Actor, req dialogue.Request) (counted model.Counted, compacted int, err error)
}

// Deps is what the module needs.
type Deps struct {
	Dialogues Dialogues
	Sessions  *session.Service
	Models    *named.Set // nil where none is configured
	Settings  Settings
}

// Settings are the limits of requests.
type Settings struct {
	// Tools is how many a request may have; 0 takes 128.
	Tools int
	// Output is the most of what a program printed that the model is given, in bytes;
	// that of dialogues.
	Output int
	// MaxFile is the largest file, in bytes.
	MaxFile int64
	// Endpoint is where clients reach this server.
	Endpoint string
}

// defaultTools is how many tools a request may have where nobody says it.
const defaultTools = 128

// Module is the wired package.
type Module struct {
	deps    Deps
	reader  messages.Reader
	files   files.Controller
	streams sse.Server
}

// New wires the module and starts nothing.
func New(d Deps) *Module {
	if d.Settings.Tools == 0 {
		d.Settings.Tools = defaultTools
	}
	return &Module{
		deps: d,
		reader: messages.Reader{
			History: history.Reader{Files: d.Sessions, Waiting: d.Dialogues, Output: d.Settings.Output},
			Offer:   offer.Reader{Tools: d.Settings.Tools, Endpoint: d.Settings.Endpoint + "/mcp"},
		},
		files:   files.Controller{Sessions: d.Sessions, MaxFile: d.Settings.MaxFile},
		streams: sse.Server{Heartbeat: answer.Quiet},
	}
}

const (
	tag = "anthropic"
	// maxBody is the largest request, in bytes: the vendor's own limit.
	maxBody = 32 << 20
	// base is before the paths of routes that other parts of the server have, too.
	base = "/anthropic"
	// requestID is the header that names a request.
	requestID = "Request-Id"
	// shouldRetry tells clients whether to send a request again.
	shouldRetry = "X-Should-Retry"
)

// version is the header by which clients of the vendor's are known.
const version = "Anthropic-Version"

// List is the list of models in the vendor's form.
func (m *Module) List() named.Other {
	return named.Other{Header: version, Answer: anthropicModels{}, List: m.models}
}

// Register adds the module's routes; none for a nil module.
func (m *Module) Register(api *httpapi.API) {
	if m == nil {
		return
	}
	raw := func(op httpapi.Operation, fn func(w http.ResponseWriter, r *http.Request, who actor.Actor) error) {
		op.Tag, op.Refusal, op.TraceHeader = tag, wire.Refuse, requestID
		api.Raw(op, fn)
	}
	failures := []errs.Code{errs.NoCredits, errs.NotFound, errs.Conflict, errs.RateLimited, errs.Unavailable}
	raw(httpapi.Operation{
		ID: "create-message", Method: http.MethodPost, Path: "/v1/messages", Aliases: []string{base + "/v1/messages"},
		Summary: "Ask a model in the form of Anthropic's Messages API",
		Description: "With a tool of type code_execution_20260521 the model writes programs. Where one calls a tool of the client's that has it in allowed_callers, the answer " +
			"asks for the call with stop_reason tool_use, and the program waits. Send the conversation again with the answer, the tool_result blocks and the container. " +
			"Members that are not described here are ignored.",
		Errors: failures, BodyLimit: maxBody, Runs: true, Lasts: true,
		Raw: httpapi.Description{Input: headers{}, Body: messages.MessageRequest{}, Answers: []any{answer.MessageReply{}}, Media: map[string]string{"text/event-stream": `{"type":"message_stop"}`}},
	}, m.create)
	raw(httpapi.Operation{
		ID: "count-message-tokens", Method: http.MethodPost, Path: "/v1/messages/count_tokens", Aliases: []string{base + "/v1/messages/count_tokens"},
		Summary:     "Count the tokens of a request to /v1/messages",
		Description: "Asks the model's provider where that can count, and estimates otherwise: portico.exact says which. It costs nothing.",
		Errors:      failures, BodyLimit: maxBody, Runs: true, Reads: true,
		Raw: httpapi.Description{Input: headers{}, Body: messages.CountRequest{}, Answers: []any{tokenCountBody{}}},
	}, m.count)
	raw(httpapi.Operation{
		ID: "list-anthropic-models", Method: http.MethodGet, Path: base + "/v1/models", Summary: "The models, in Anthropic's form", Runs: true,
		Raw: httpapi.Description{Input: pageInput{}, Answers: []any{anthropicModels{}}},
	}, m.models)
	raw(httpapi.Operation{
		ID: "get-anthropic-model", Method: http.MethodGet, Path: base + "/v1/models/{model}", Summary: "A model, in Anthropic's form", Runs: true,
		Raw: httpapi.Description{Answers: []any{anthropicModel{}}}, Errors: []errs.Code{errs.NotFound},
	}, m.model)
	m.files.Register(raw)
	api.Below(base, httpapi.Operation{Refusal: wire.Refuse, TraceHeader: requestID})
}
