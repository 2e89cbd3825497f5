package messages

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/portico-run/portico/modules/agent/anthropic/wire"
)

// MessageRequest is a request, for the OpenAPI document. Reader reads it: its members
// have more forms than are described.
type MessageRequest struct {
	CountRequest

	MaxTokens int64        `json:"max_tokens" minimum:"1" maximum:"1000000" example:"1024"`
	Stream    bool         `json:"stream,omitempty"`
	Container containerRef `json:"container,omitempty"`
}

// CountRequest is a request whose tokens are counted.
type CountRequest struct {
	_        struct{}          `additionalProperties:"true"`
	Model    string            `json:"model,omitempty" doc:"A name that /anthropic/v1/models lists; the key's, or else the first, where it is left out"`
	Messages []RequestMessage  `json:"messages" minItems:"1"`
	System   described         `json:"system,omitempty"`
	Tools    []requestTool     `json:"tools,omitempty"`
	Portico  *RequestExtension `json:"portico,omitempty" doc:"This server's own member"`
}

// RequestMessage is one message.
type RequestMessage struct {
	_       struct{}  `additionalProperties:"true"`
	Role    string    `json:"role" enum:"user,assistant,system"`
	Content described `json:"content"`
}

// RequestExtension is what a request may say beyond the vendor's members.
type RequestExtension struct {
	_        struct{} `additionalProperties:"true"`
	Toolsets []string `json:"toolsets,omitempty" doc:"The only ones whose tools programs call"`
	Approval string   `json:"approval,omitempty" enum:"never,first,always" doc:"When calls of toolsets wait for a person, at least"`
	Timeout  int64    `json:"timeout_ms,omitempty" minimum:"0" maximum:"86400000" doc:"Bounds one program"`
}

// described is what may be a text or a list of blocks.
type described string

// Schema implements huma.SchemaProvider.
func (described) Schema(huma.Registry) *huma.Schema {
	block := &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: true, Required: []string{"type", "text"},
		Properties: map[string]*huma.Schema{"type": {Type: huma.TypeString, Enum: []any{"text"}}, "text": {Type: huma.TypeString, Examples: []any{"Hello"}}},
	}
	return &huma.Schema{
		OneOf:       []*huma.Schema{{Type: huma.TypeString, Examples: []any{"Hello"}}, {Type: huma.TypeArray, Items: block}},
		Description: "A text, or blocks: of text, and in messages all that docs/anthropic.md names",
	}
}

// containerRef is the id of a container, or an object with it.
type containerRef string

// Schema implements huma.SchemaProvider.
func (containerRef) Schema(huma.Registry) *huma.Schema {
	id := &huma.Schema{Type: huma.TypeString, Pattern: "^container_[A-Za-z0-9_-]{21}$", Examples: []any{"container_tQ7m2XkP9vR4sW1yZ6aB3"}}
	return &huma.Schema{Description: "The id of an answer's container", OneOf: []*huma.Schema{id, {
		Type: huma.TypeObject, AdditionalProperties: true, Properties: map[string]*huma.Schema{"id": id}, Required: []string{"id"},
	}}}
}

// requestTool is a tool of the types that most requests have.
type requestTool map[string]any

// Schema implements huma.SchemaProvider.
func (requestTool) Schema(huma.Registry) *huma.Schema {
	text := func(values ...any) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Enum: values} }
	callers := &huma.Schema{
		Type: huma.TypeArray, MinItems: new(1), Items: text(wire.Direct, wire.EarlyCode, wire.LateCode, "code_execution_20260521"),
		Description: "direct, which is the default, and the type of the tool that runs programs",
	}
	name := &huma.Schema{Type: huma.TypeString, Pattern: "^[a-zA-Z0-9_-]{1,64}$", Examples: []any{"get_order"}}
	return &huma.Schema{OneOf: []*huma.Schema{
		{
			Type: huma.TypeObject, AdditionalProperties: false, Required: []string{"name", "input_schema"}, Description: "A tool that the client executes",
			Properties: map[string]*huma.Schema{
				"type": text("custom"), "name": name, "description": {Type: huma.TypeString, Examples: []any{"One order."}},
				"input_schema": {Type: huma.TypeObject, AdditionalProperties: true}, "allowed_callers": callers, "strict": {Type: huma.TypeBoolean},
				"defer_loading": {Type: huma.TypeBoolean, Description: "The model has it when a search has found it"},
			},
		},
		{
			Type: huma.TypeObject, AdditionalProperties: true, Required: []string{"type", "name"}, Description: "Lets the model write programs",
			Properties: map[string]*huma.Schema{"type": text("code_execution_20260521"), "name": text(wire.CodeName)},
		},
	}}
}
