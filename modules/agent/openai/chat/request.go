package chat

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/agent/openai/failure"
	"github.com/portico-run/portico/modules/agent/openai/offer"
	"github.com/portico-run/portico/modules/model"
)

// ChatRequest is POST /v1/chat/completions: docs/wire/openai.md#chat-completions.
// Members that are not here are ignored.
type ChatRequest struct {
	_             struct{}          `additionalProperties:"true"`
	Model         string            `json:"model,omitempty" maxLength:"64" doc:"One of GET /v1/models; that of the key when left out, or else the first" example:"small"`
	Messages      []json.RawMessage `json:"messages" minItems:"1" doc:"The conversation, of the roles system, developer, user, assistant and tool"`
	Tools         []json.RawMessage `json:"tools,omitempty" doc:"Functions. One that is called run_code is executed by this server"`
	Choice        json.RawMessage   `json:"tool_choice,omitempty" doc:"auto, none, required, a function, or allowed tools"`
	Parallel      *bool             `json:"parallel_tool_calls,omitempty" doc:"Whether the model may call several tools at once; true when left out"`
	Stream        bool              `json:"stream,omitempty" doc:"Whether the answer comes in chunks"`
	StreamOptions *ChatStream       `json:"stream_options,omitempty"`
	MaxTokens     int64             `json:"max_tokens,omitempty" minimum:"0" doc:"The older name of max_completion_tokens"`
	MaxCompletion int64             `json:"max_completion_tokens,omitempty" minimum:"0" doc:"The most tokens of one answer of the model's"`
	Temperature   *float64          `json:"temperature,omitempty" minimum:"0" maximum:"2"`
	TopP          *float64          `json:"top_p,omitempty" minimum:"0" maximum:"1"`
	Stop          json.RawMessage   `json:"stop,omitempty" doc:"A text that ends the answer, or up to four"`
	Format        *ChatFormat       `json:"response_format,omitempty"`
	Effort        string            `json:"reasoning_effort,omitempty" doc:"How much the model thinks"`
	N             int64             `json:"n,omitempty" doc:"1 when left out; no other number"`
	Logprobs      bool              `json:"logprobs,omitempty" doc:"Must be false"`
	TopLogprobs   int64             `json:"top_logprobs,omitempty" doc:"Must be 0"`
	Portico       *offer.Extension  `json:"portico,omitempty" doc:"What requests say beside the vendor's own members; with run_code"`

	// These are passed on to models that are spoken with in this form.
	Frequency json.RawMessage `json:"frequency_penalty,omitempty"`
	Presence  json.RawMessage `json:"presence_penalty,omitempty"`
	Seed      json.RawMessage `json:"seed,omitempty"`
	Bias      json.RawMessage `json:"logit_bias,omitempty"`
	Verbosity json.RawMessage `json:"verbosity,omitempty"`

	// What follows is known to clients and means nothing here, or is refused.
	Functions  json.RawMessage `json:"functions,omitempty" doc:"Must be left out: tools is newer"`
	Function   json.RawMessage `json:"function_call,omitempty" doc:"Must be left out: tool_choice is newer"`
	Audio      json.RawMessage `json:"audio,omitempty" doc:"Must be left out or null"`
	Search     json.RawMessage `json:"web_search_options,omitempty" doc:"Must be left out or null"`
	Modalities []string        `json:"modalities,omitempty" doc:"text only"`
	Metadata   json.RawMessage `json:"metadata,omitempty" doc:"Ignored"`
	Store      json.RawMessage `json:"store,omitempty" doc:"Ignored: completions are not kept"`
	Tier       json.RawMessage `json:"service_tier,omitempty" doc:"Ignored"`
	User       json.RawMessage `json:"user,omitempty" doc:"Ignored"`
	Safety     json.RawMessage `json:"safety_identifier,omitempty" doc:"Ignored"`
	CacheKey   json.RawMessage `json:"prompt_cache_key,omitempty" doc:"Ignored"`
	Prediction json.RawMessage `json:"prediction,omitempty" doc:"Ignored"`
}

// ChatStream are the options of a stream.
type ChatStream struct {
	_     struct{} `additionalProperties:"true"`
	Usage bool     `json:"include_usage,omitempty" doc:"Whether a last chunk says what was used"`
}

// ChatFormat is what the answer must look like.
type ChatFormat struct {
	_      struct{}    `additionalProperties:"true"`
	Type   string      `json:"type" enum:"text,json_object,json_schema"`
	Schema *ChatSchema `json:"json_schema,omitempty"`
}

// ChatSchema is a schema of answers.
type ChatSchema struct {
	_           struct{}        `additionalProperties:"true"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
	Strict      *bool           `json:"strict,omitempty"`
}

func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// check refuses what this server cannot do, by the name of the parameter.
func (b ChatRequest) check() error {
	for _, m := range []struct {
		name string
		raw  json.RawMessage
	}{{"functions", b.Functions}, {"function_call", b.Function}, {"audio", b.Audio}, {"web_search_options", b.Search}} {
		if given(m.raw) {
			return failure.Unsupported(m.name, "This server does not know what %s asks for.", m.name).Do("Functions are in tools; what the vendor hosts is not here.")
		}
	}
	for _, m := range b.Modalities {
		if m != "text" {
			return failure.Unsupported("modalities", "Answers are texts here.")
		}
	}
	switch {
	case b.N != 0 && b.N != 1:
		return failure.Unsupported("n", "There is one choice in an answer here.").Do("Leave n out, and ask several times.")
	case b.Logprobs || b.TopLogprobs != 0:
		return failure.Unsupported("logprobs", "Probabilities of tokens are not known here.").Do("Leave logprobs and top_logprobs out.")
	case b.MaxTokens < 0 || b.MaxCompletion < 0:
		return failure.Invalid("max_completion_tokens", "max_completion_tokens must be at least 1.")
	case b.Temperature != nil && (*b.Temperature < 0 || *b.Temperature > 2):
		return failure.Invalid("temperature", "temperature must be from 0 to 2.")
	case b.TopP != nil && (*b.TopP < 0 || *b.TopP > 1):
		return failure.Invalid("top_p", "top_p must be from 0 to 1.")
	case b.StreamOptions != nil && !b.Stream:
		return failure.Invalid("stream_options", "stream_options belongs to stream: true.")
	case len(b.Messages) == 0:
		return failure.New(errs.Invalid, "messages", failure.Missing, "Missing required parameter: 'messages'.")
	case len(b.Messages) > maxMessages:
		return failure.Invalid("messages", "A conversation may have %d messages; this one has %d.", maxMessages, len(b.Messages))
	}
	return nil
}

// Bounds of requests.
const (
	maxMessages = 20_000
	maxStops    = 4
)

// options are what the request says of how the answer is made.
func (b ChatRequest) options() (model.Options, error) {
	o := model.Options{MaxOutput: b.MaxCompletion, Temperature: b.Temperature, TopP: b.TopP, Effort: b.Effort, NativeTo: model.Chat}
	if o.MaxOutput == 0 {
		o.MaxOutput = b.MaxTokens
	}
	for name, raw := range map[string]json.RawMessage{
		"frequency_penalty": b.Frequency, "presence_penalty": b.Presence, "seed": b.Seed, "logit_bias": b.Bias, "verbosity": b.Verbosity,
	} {
		if !given(raw) {
			continue
		}
		if o.Native == nil {
			o.Native = map[string]json.RawMessage{}
		}
		o.Native[name] = raw
	}
	var err error
	if o.Stop, err = stops(b.Stop); err != nil {
		return o, err
	}
	o.Format, err = b.Format.read()
	return o, err
}

func stops(raw json.RawMessage) ([]string, error) {
	if !given(raw) {
		return nil, nil
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}, nil
	}
	var list []string
	if json.Unmarshal(raw, &list) != nil || len(list) > maxStops {
		return nil, failure.Invalid("stop", "stop must be a text, or a list of up to %d.", maxStops)
	}
	return list, nil
}

func (f *ChatFormat) read() (*model.Format, error) {
	if f == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	switch s := f.Schema; f.Type {
	case "text":
		return nil, nil //nolint:nilnil // there is none
	case "json_object":
		return &model.Format{Object: true}, nil
	case "json_schema":
		if s == nil || s.Name == "" || !bytes.HasPrefix(bytes.TrimSpace(s.Schema), []byte("{")) {
			return nil, failure.New(errs.Invalid, "response_format.json_schema", failure.Missing, "Missing required parameter: 'response_format.json_schema', with name and schema.")
		}
		return &model.Format{Name: s.Name, Description: s.Description, Schema: s.Schema, Strict: s.Strict != nil && *s.Strict}, nil
	}
	return nil, failure.Invalid("response_format.type", "Invalid value: '%s'. Supported values are: 'json_object', 'json_schema', and 'text'.", f.Type)
}

// tools are the tools in the form that offer.Read knows. programs says that one is
// run_code, in whose place the tool for programs is.
func (b ChatRequest) tools() (list []json.RawMessage, programs bool, err error) {
	type function = map[string]json.RawMessage
	var functions []function
	for i, raw := range b.Tools {
		at := fmt.Sprintf("tools[%d]", i)
		var t struct {
			Type     string   `json:"type"`
			Function function `json:"function"`
		}
		if json.Unmarshal(raw, &t) != nil {
			return nil, false, failure.Invalid(at, "A tool must be an object with a type and a function.")
		}
		if t.Type != "function" {
			return nil, false, failure.New(errs.Invalid, at+".type", failure.UnsupportedValue, "This server has no tools of type %q here.", t.Type).Do("Chat Completions takes functions.")
		}
		if t.Function == nil {
			return nil, false, failure.New(errs.Invalid, at+".function", failure.Missing, "Missing required parameter: '%s.function'.", at)
		}
		var name string
		if json.Unmarshal(t.Function["name"], &name) == nil && name == runCode {
			programs = true
		}
		functions = append(functions, t.Function)
	}
	for _, f := range functions {
		f["type"], f["allowed_callers"] = json.RawMessage(`"function"`), json.RawMessage(`["direct"]`)
		if string(f["name"]) == `"`+runCode+`"` {
			f = function{"type": json.RawMessage(`"programmatic_tool_calling"`)}
		} else if programs {
			f["allowed_callers"] = json.RawMessage(`["direct","programmatic"]`)
		}
		if !given(f["strict"]) && f["parameters"] != nil {
			f["strict"] = json.RawMessage("false")
		}
		raw, err := json.Marshal(f)
		if err != nil {
			return nil, false, err
		}
		list = append(list, raw)
	}
	return list, programs, nil
}

// choice is tool_choice in the form that offer.Read knows.
func (b ChatRequest) choice(programs bool) (json.RawMessage, error) {
	type chosen struct {
		Type     string `json:"type"`
		Name     string `json:"name,omitempty"`
		Function *struct {
			Name string `json:"name"`
		} `json:"function,omitempty"`
	}
	flat := func(c chosen) chosen {
		if c.Function != nil {
			c.Name, c.Function = c.Function.Name, nil
		}
		if c.Name == runCode && programs {
			return chosen{Type: "programmatic_tool_calling"}
		}
		return c
	}
	var form struct {
		chosen

		Allowed *struct {
			Mode  string   `json:"mode"`
			Tools []chosen `json:"tools"`
		} `json:"allowed_tools"`
	}
	if err := json.Unmarshal(b.Choice, &form); err != nil || form.Type == "" {
		return b.Choice, nil //nolint:nilerr // a word, which offer.Read knows or refuses
	}
	if form.Allowed == nil {
		return json.Marshal(flat(form.chosen))
	}
	for i, c := range form.Allowed.Tools {
		form.Allowed.Tools[i] = flat(c)
	}
	return json.Marshal(map[string]any{"type": form.Type, "mode": form.Allowed.Mode, "tools": form.Allowed.Tools})
}
