package responses

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/agent/openai/failure"
	"github.com/portico-run/portico/modules/agent/openai/offer"
	"github.com/portico-run/portico/modules/model"
)

// ResponseRequest is POST /v1/responses: docs/wire/openai.md#requests. Members that are not
// here are ignored.
type ResponseRequest struct {
	_            struct{}           `additionalProperties:"true"`
	Model        string             `json:"model,omitempty" maxLength:"64" doc:"One of GET /v1/models; that of the key when left out, or else the first" example:"small"`
	Input        json.RawMessage    `json:"input" doc:"A text, or a list of items"`
	Instructions string             `json:"instructions,omitempty" doc:"What the model is told first; not kept for the next request"`
	Previous     string             `json:"previous_response_id,omitempty" doc:"The stored response that the conversation goes on from"`
	Tools        []json.RawMessage  `json:"tools,omitempty" doc:"Tools of type function, namespace, programmatic_tool_calling and mcp"`
	Choice       json.RawMessage    `json:"tool_choice,omitempty" doc:"auto, none, required, a function, allowed tools, or programmatic_tool_calling"`
	Parallel     *bool              `json:"parallel_tool_calls,omitempty" doc:"Whether the model may call several tools at once; true when left out"`
	MaxOutput    int64              `json:"max_output_tokens,omitempty" minimum:"0" doc:"The most tokens of one answer of the model's"`
	Temperature  *float64           `json:"temperature,omitempty" minimum:"0" maximum:"2"`
	TopP         *float64           `json:"top_p,omitempty" minimum:"0" maximum:"1"`
	Text         *ResponseText      `json:"text,omitempty"`
	Reasoning    *ResponseReasoning `json:"reasoning,omitempty"`
	Include      []string           `json:"include,omitempty" doc:"reasoning.encrypted_content is always there; others add nothing"`
	Metadata     map[string]string  `json:"metadata,omitempty" doc:"Up to 16 texts, which come back with the response"`
	Stream       bool               `json:"stream,omitempty" doc:"Whether the answer comes as events"`
	Store        *bool              `json:"store,omitempty" doc:"Whether the response is kept; true when left out"`
	Truncation   string             `json:"truncation,omitempty" enum:"auto,disabled" doc:"Nothing is left out of a conversation with either"`
	Background   bool               `json:"background,omitempty" doc:"Must be false"`

	// What follows is known to clients and means little or nothing here.
	User         json.RawMessage  `json:"user,omitempty" doc:"Ignored"`
	Safety       json.RawMessage  `json:"safety_identifier,omitempty" doc:"Ignored"`
	CacheKey     json.RawMessage  `json:"prompt_cache_key,omitempty" doc:"Ignored"`
	Tier         json.RawMessage  `json:"service_tier,omitempty" doc:"Ignored"`
	MaxCalls     json.RawMessage  `json:"max_tool_calls,omitempty" doc:"Ignored"`
	Options      json.RawMessage  `json:"stream_options,omitempty" doc:"Ignored"`
	Conversation json.RawMessage  `json:"conversation,omitempty" doc:"Must be left out or null"`
	Prompt       json.RawMessage  `json:"prompt,omitempty" doc:"Must be left out or null"`
	Logprobs     int64            `json:"top_logprobs,omitempty" doc:"Must be 0"`
	Portico      *offer.Extension `json:"portico,omitempty" doc:"What requests say beside the vendor's own members"`
}

// ResponseText says what the answer looks like.
type ResponseText struct {
	_         struct{}        `additionalProperties:"true"`
	Format    *ResponseFormat `json:"format,omitempty"`
	Verbosity string          `json:"verbosity,omitempty"`
}

// ResponseFormat is a text, any JSON object, or JSON by a schema.
type ResponseFormat struct {
	_           struct{}        `additionalProperties:"true"`
	Type        string          `json:"type" enum:"text,json_schema,json_object"`
	Name        string          `json:"name,omitempty"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
	Strict      *bool           `json:"strict,omitempty"`
}

// ResponseReasoning says how much the model thinks, and what is shown of it.
type ResponseReasoning struct {
	_       struct{} `additionalProperties:"true"`
	Effort  string   `json:"effort,omitempty"`
	Summary string   `json:"summary,omitempty"`
}

// Bounds of metadata: docs/wire/openai.md#requests.
const (
	maxPairs = 16
	maxKey   = 64
	maxValue = 512
)

// check refuses what this server cannot do, by the name of the parameter.
func (b ResponseRequest) check() error {
	if b.Background {
		return failure.Unsupported("background", "Responses are not made in the background here.").Do("Send background: false, and stream: true for long ones.")
	}
	for name, raw := range map[string]json.RawMessage{"conversation": b.Conversation, "prompt": b.Prompt} {
		if len(raw) > 0 && string(raw) != "null" {
			return failure.Unsupported(name, "This server keeps no object that %s could name.", name).Do("Send the conversation in input, or previous_response_id.")
		}
	}
	if b.Logprobs != 0 || slices.Contains(b.Include, "message.output_text.logprobs") {
		return failure.Unsupported("top_logprobs", "Probabilities of tokens are not known here.").Do("Leave top_logprobs out.")
	}
	if t := b.Truncation; t != "" && t != "auto" && t != "disabled" {
		return failure.Invalid("truncation", "Invalid value: '%s'. Supported values are: 'auto' and 'disabled'.", t)
	}
	if b.MaxOutput < 0 {
		return failure.Invalid("max_output_tokens", "max_output_tokens must be at least 1.")
	}
	if t := b.Temperature; t != nil && (*t < 0 || *t > 2) {
		return failure.Invalid("temperature", "temperature must be from 0 to 2.")
	}
	if p := b.TopP; p != nil && (*p < 0 || *p > 1) {
		return failure.Invalid("top_p", "top_p must be from 0 to 1.")
	}
	if len(b.Metadata) > maxPairs {
		return failure.Invalid("metadata", "metadata may have %d texts.", maxPairs)
	}
	for k, v := range b.Metadata {
		if len(k) > maxKey || len(v) > maxValue {
			return failure.Invalid("metadata", "The names in metadata may have %d bytes, the texts %d.", maxKey, maxValue)
		}
	}
	return nil
}

// options are what the request says of how the answer is made.
func (b ResponseRequest) options() (model.Options, error) {
	o := model.Options{MaxOutput: b.MaxOutput, Temperature: b.Temperature, TopP: b.TopP, NativeTo: model.Responses}
	native := func(name string, value map[string]string) {
		if o.Native == nil {
			o.Native = map[string]json.RawMessage{}
		}
		o.Native[name], _ = json.Marshal(value) // texts always marshal
	}
	if r := b.Reasoning; r != nil {
		if o.Effort = r.Effort; r.Summary != "" {
			native("reasoning", map[string]string{"summary": r.Summary})
		}
	}
	if b.Text == nil {
		return o, nil
	}
	if v := b.Text.Verbosity; v != "" {
		native("text", map[string]string{"verbosity": v})
	}
	f := b.Text.Format
	if f == nil || f.Type == "text" {
		return o, nil
	}
	switch f.Type {
	case "json_object":
		o.Format = &model.Format{Object: true}
	case "json_schema":
		if f.Name == "" {
			return o, failure.New(errs.Invalid, "text.format.name", failure.Missing, "Missing required parameter: 'text.format.name'.")
		}
		if len(f.Schema) == 0 || f.Schema[0] != '{' {
			return o, failure.New(errs.Invalid, "text.format.schema", failure.Missing, "Missing required parameter: 'text.format.schema'.")
		}
		o.Format = &model.Format{Name: f.Name, Description: f.Description, Schema: f.Schema, Strict: f.Strict != nil && *f.Strict}
	default:
		return o, failure.Invalid("text.format.type", "Invalid value: '%s'. Supported values are: 'json_object', 'json_schema', and 'text'.", f.Type)
	}
	return o, nil
}

// items are the input as a list. An absent one is empty where the conversation goes on
// from a stored response.
func (b ResponseRequest) items() ([]json.RawMessage, error) {
	raw := bytes.TrimSpace(b.Input)
	if len(raw) == 0 || string(raw) == "null" {
		if b.Previous != "" {
			return nil, nil
		}
		return nil, failure.New(errs.Invalid, "input", failure.Missing, "Missing required parameter: 'input'.")
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		said, err := json.Marshal(inputMessage{Type: "message", Role: "user", Content: []inputText{{Type: "input_text", Text: text}}})
		return []json.RawMessage{said}, err
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil, failure.Invalid("input", "Invalid type for 'input': expected a text or a list of items.")
	}
	if len(list) == 0 && b.Previous == "" {
		return nil, failure.Invalid("input", "'input' is an empty list.")
	}
	return list, nil
}

// inputMessage is a text as an item.
type inputMessage struct {
	Type    string      `json:"type"`
	Role    string      `json:"role"`
	Content []inputText `json:"content"`
}

type inputText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// named gives the items of a request ids, for clients that list them.
func named(list []json.RawMessage, identity string) ([]json.RawMessage, error) {
	out := make([]json.RawMessage, len(list))
	for i, raw := range list {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(raw, &members); err != nil {
			return nil, err
		}
		var id, kind string
		if json.Unmarshal(members["id"], &id) == nil && id != "" {
			out[i] = raw
			continue
		}
		_ = json.Unmarshal(members["type"], &kind)
		if kind == "" {
			kind = "message"
			members["type"] = json.RawMessage(`"message"`)
		}
		members["id"] = json.RawMessage(fmt.Sprintf("%q", fmt.Sprintf("%s_%s_in%d", prefixOf(kind), identity, i)))
		var err error
		if out[i], err = json.Marshal(members); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// prefixOf begins the ids of items of a type.
func prefixOf(kind string) string {
	switch kind {
	case "message":
		return "msg"
	case "reasoning":
		return "rs"
	case "function_call":
		return "fc"
	case "function_call_output":
		return "fco"
	case "program":
		return "cm"
	case "program_output":
		return "cmo"
	case "mcp_approval_response":
		return "mcprr"
	}
	return "item"
}
