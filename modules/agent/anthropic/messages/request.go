// Package messages translates Anthropic's Messages API: requests into what a dialogue
// is asked, and what it answers into messages and events. The facts are in
// docs/wire/anthropic.md#messages.
package messages

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"math"
	"strings"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/agent/anthropic/answer"
	"github.com/portico-run/portico/modules/agent/anthropic/history"
	"github.com/portico-run/portico/modules/agent/anthropic/offer"
	"github.com/portico-run/portico/modules/agent/anthropic/wire"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/model"
)

// Reader reads requests.
type Reader struct {
	History history.Reader
	Offer   offer.Reader
}

// Asked is a request as it was read.
type Asked struct {
	dialogue.Request

	Stream bool
	// View is how the answer is shown.
	View answer.View
}

// Limits of a request. Its bytes are bounded before.
const (
	maxMessages = 100_000
	maxStops    = 64
	maxTokens   = 1_000_000_000
)

// body is a request. What is not here is ignored.
type body struct {
	Model         string            `json:"model"`
	MaxTokens     *float64          `json:"max_tokens"`
	Messages      []history.Message `json:"messages"`
	System        json.RawMessage   `json:"system"`
	Tools         []json.RawMessage `json:"tools"`
	ToolChoice    *offer.Choice     `json:"tool_choice"`
	Container     json.RawMessage   `json:"container"`
	Stream        bool              `json:"stream"`
	StopSequences []string          `json:"stop_sequences"`
	Temperature   *float64          `json:"temperature"`
	TopP          *float64          `json:"top_p"`
	TopK          json.RawMessage   `json:"top_k"`
	Thinking      json.RawMessage   `json:"thinking"`
	Metadata      json.RawMessage   `json:"metadata"`
	OutputConfig  *outputConfig     `json:"output_config"`
	Thread        json.RawMessage   `json:"thread"`
	MCPServers    []offer.Server    `json:"mcp_servers"`
	Portico       *offer.Extension  `json:"portico"`

	counted bool // its tokens are
}

type outputConfig struct {
	Effort *string `json:"effort"`
	Format *struct {
		Type   string          `json:"type"`
		Schema json.RawMessage `json:"schema"`
	} `json:"format"`
}

// Read reads a request. An error is an *errs.Error that names the parameter.
func (r Reader) Read(ctx context.Context, a actor.Actor, raw []byte) (Asked, error) {
	b, err := decode(raw)
	if err != nil {
		return Asked{}, err
	}
	if b.MaxTokens == nil {
		return Asked{}, wire.Invalid("max_tokens", "Field required")
	}
	asked, err := r.read(ctx, a, b)
	asked.Digest = sha256.Sum256(raw)
	return asked, err
}

// ReadCount reads a request whose tokens are to be counted.
func (r Reader) ReadCount(ctx context.Context, a actor.Actor, raw []byte) (Asked, error) {
	b, err := decode(raw)
	if err != nil {
		return Asked{}, err
	}
	b.count()
	return r.read(ctx, a, b)
}

// count leaves out what does not change how many tokens there are.
func (b *body) count() {
	one := 1.0
	b.MaxTokens, b.Container, b.Thread, b.Stream, b.counted = &one, nil, nil, false, true
}

func (r Reader) read(ctx context.Context, a actor.Actor, b body) (Asked, error) {
	if err := b.check(); err != nil {
		return Asked{}, err
	}
	asked := Asked{Stream: b.Stream, View: answer.View{Model: b.Model}}
	req := &asked.Request
	req.Model = b.Model
	system, err := wire.Texts("system", b.System)
	if err != nil {
		return asked, err
	}
	req.System = strings.Join(system, "\n\n")
	if req.Options, err = b.options(); err != nil {
		return asked, err
	}
	offered, err := r.Offer.Read(b.Tools, b.MCPServers, b.Portico)
	if err != nil {
		return asked, err
	}
	said, err := r.History.Read(ctx, a, b.Messages, b.counted)
	if err != nil {
		return asked, err
	}
	if err := offered.Load(said.Loads); err != nil {
		return asked, err
	}
	if err := offered.Choose(req, b.ToolChoice); err != nil {
		return asked, err
	}
	asked.View.Caller, req.Items = offered.Caller, said.Items
	return asked, b.place(req, said)
}

// place says where programs work, and what they find there.
func (b *body) place(req *dialogue.Request, said history.Conversation) error {
	container, err := b.container()
	if err != nil {
		return err
	}
	if req.Programs == nil && len(said.Files) > 0 {
		return wire.Invalid("messages", "container_upload blocks need the tool code_execution")
	}
	if req.Programs != nil {
		req.Programs.Files, req.Programs.Session = said.Files, container
	}
	if req.Continue = said.Continue; req.Continue != nil {
		req.Continue.Session, req.Continue.Checked = container, true
	}
	return nil
}

// decode reads a body.
func decode(raw []byte) (body, error) {
	var b body
	err := json.Unmarshal(raw, &b)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return b, wire.Invalid(cmp.Or(wrong.Field, "body"), "Input should be of another type than %s", wrong.Value)
	}
	if err != nil {
		return b, errs.New(errs.Invalid, "The request body is not valid JSON.")
	}
	return b, nil
}

// check refuses what a request may not have at all.
func (b *body) check() error {
	switch {
	case wire.Given(b.Thread):
		// This code, and a list, make both SDKs send the whole conversation without a
		// thread: docs/wire/anthropic.md#threads.
		return errs.New(errs.Invalid, "thread: this server keeps no threads.").Do("Send the whole conversation without thread.").
			With(wire.Details{"error_code": "thread_unsupported_request", "unsupported": []string{"thread"}})
	case *b.MaxTokens < 1, *b.MaxTokens > maxTokens, *b.MaxTokens != math.Trunc(*b.MaxTokens):
		return wire.Invalid("max_tokens", "Input should be a whole number from 1 to %d", maxTokens)
	case len(b.Messages) == 0:
		return wire.Invalid("messages", "at least one message is required")
	case len(b.Messages) > maxMessages:
		return wire.Invalid("messages", "there may be %d messages at most", maxMessages)
	case len(b.StopSequences) > maxStops:
		return wire.Invalid("stop_sequences", "there may be %d at most", maxStops)
	}
	return nil
}

// options are what the request says of how the answer is made.
func (b *body) options() (model.Options, error) {
	o := model.Options{
		MaxOutput: int64(*b.MaxTokens), Temperature: b.Temperature, TopP: b.TopP, Stop: b.StopSequences,
		NativeTo: model.Messages, Native: map[string]json.RawMessage{},
	}
	for name, value := range map[string]json.RawMessage{"thinking": b.Thinking, "top_k": b.TopK, "metadata": b.Metadata} {
		if wire.Given(value) {
			o.Native[name] = value
		}
	}
	if b.OutputConfig == nil {
		return o, nil
	}
	if b.OutputConfig.Effort != nil {
		o.Effort = *b.OutputConfig.Effort
	}
	if f := b.OutputConfig.Format; f != nil {
		if f.Type != "json_schema" || !wire.IsObject(f.Schema) {
			return o, wire.Invalid("output_config.format", "Input should be {\"type\":\"json_schema\",\"schema\":{…}}")
		}
		o.Format = &model.Format{Name: "answer", Schema: f.Schema, Strict: true}
	}
	return o, nil
}

// container is the session that the request names; empty for none.
func (b *body) container() (string, error) {
	if !wire.Given(b.Container) {
		return "", nil
	}
	var id string
	if json.Unmarshal(b.Container, &id) != nil {
		var form struct {
			ID     *string           `json:"id"`
			Skills []json.RawMessage `json:"skills"`
		}
		if json.Unmarshal(b.Container, &form) != nil {
			return "", wire.Invalid("container", "Input should be an id, or an object with an id")
		}
		if len(form.Skills) > 0 {
			return "", wire.Invalid("container.skills", "this server has no skills")
		}
		if form.ID == nil {
			return "", nil
		}
		id = *form.ID
	}
	session, ok := strings.CutPrefix(id, wire.ContainerPrefix)
	if !ok || session == "" {
		return "", ErrContainer
	}
	return session, nil
}

// ErrContainer is a container that expired, or is not the user's, or never was.
var ErrContainer = wire.Coded(errs.New(errs.NotFound, "container: there is no such container, or it has expired."), "container_expired")
