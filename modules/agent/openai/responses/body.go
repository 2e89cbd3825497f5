package responses

import (
	"cmp"
	"encoding/json"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/agent/openai/failure"
	"github.com/portico-run/portico/modules/model"
)

// Response is a response: docs/wire/openai.md#responses.
type Response struct {
	ID           string             `json:"id" example:"resp_0123456789abcdef0123456789abcdef"`
	Object       string             `json:"object" enum:"response"`
	CreatedAt    int64              `json:"created_at" doc:"In seconds since 1970"`
	Status       string             `json:"status" enum:"in_progress,completed,incomplete,failed" doc:"completed also where calls wait for the client"`
	Background   bool               `json:"background"`
	CompletedAt  *int64             `json:"completed_at" nullable:"true"`
	Error        httpapi.Nullable   `json:"error" doc:"null, or an object with code and message"`
	Incomplete   httpapi.Nullable   `json:"incomplete_details" doc:"null, or an object with reason"`
	Instructions *string            `json:"instructions" nullable:"true" example:"Be brief."`
	MaxOutput    *int64             `json:"max_output_tokens" nullable:"true"`
	Metadata     map[string]string  `json:"metadata"`
	Model        string             `json:"model"`
	Output       []any              `json:"output" doc:"Items of type message, reasoning, function_call, program, program_output and mcp_approval_request"`
	Parallel     bool               `json:"parallel_tool_calls"`
	Previous     *string            `json:"previous_response_id" nullable:"true" example:"resp_0123456789abcdef0123456789abcdee"`
	Reasoning    ResponseReasoned   `json:"reasoning"`
	Tier         string             `json:"service_tier" example:"default"`
	Store        bool               `json:"store"`
	Temperature  *float64           `json:"temperature" nullable:"true"`
	Text         json.RawMessage    `json:"text"`
	Choice       json.RawMessage    `json:"tool_choice"`
	Tools        []json.RawMessage  `json:"tools"`
	TopP         *float64           `json:"top_p" nullable:"true"`
	Truncation   string             `json:"truncation" example:"disabled"`
	Usage        httpapi.Nullable   `json:"usage" doc:"Tokens; zero where the model was not asked"`
	Portico      *ResponseExtension `json:"portico,omitempty" doc:"What is known beside the vendor's own members"`
}

type failed struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type incomplete struct {
	Reason string `json:"reason"`
}

// ResponseReasoned is what the request said of reasoning.
type ResponseReasoned struct {
	Effort  *string `json:"effort" nullable:"true" example:"low"`
	Summary *string `json:"summary" nullable:"true"`
}

type usage struct {
	Input        int64 `json:"input_tokens"`
	InputDetails struct {
		Cached  int64 `json:"cached_tokens"`
		Written int64 `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	Output        int64 `json:"output_tokens"`
	OutputDetails struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	Total int64 `json:"total_tokens"`
}

// ResponseExtension is what answers say beside the vendor's own members.
type ResponseExtension struct {
	Credits string `json:"credits" doc:"What the tokens cost" example:"0.12"`
	Calls   int    `json:"calls" doc:"How many calls the client is asked for"`
	// Compacted is left out where nothing was.
	Compacted int `json:"compacted,omitempty" doc:"How many outputs of tools and programs the model was not told again, since they would not fit"`
}

func usageOf(u model.Usage) *usage {
	out := usage{Input: u.Input, Output: u.Output, Total: u.Total()}
	out.InputDetails.Cached, out.InputDetails.Written = u.InputDetails.Cached, u.InputDetails.Written
	out.OutputDetails.Reasoning = u.OutputDetails.Reasoning
	return &out
}

// begun is a response before there is anything of it.
func (s *Service) begun(c creation, who actor.Actor, now int64) Response {
	b := c.body
	out := Response{
		ID: "resp_" + c.identity, Object: "response", CreatedAt: now, Status: "in_progress", Metadata: b.Metadata, Model: cmp.Or(b.Model, who.Model, s.deps.Settings.First), Output: []any{},
		Parallel: b.Parallel == nil || *b.Parallel, Tier: "default", Store: b.Store == nil || *b.Store, Temperature: b.Temperature, TopP: b.TopP,
		Text: json.RawMessage(`{"format":{"type":"text"}}`), Choice: b.Choice, Tools: b.Tools, Truncation: b.Truncation,
	}
	if out.Metadata == nil {
		out.Metadata = map[string]string{}
	}
	if out.Tools == nil {
		out.Tools = []json.RawMessage{}
	}
	if len(out.Choice) == 0 || string(out.Choice) == "null" {
		out.Choice = json.RawMessage(`"auto"`)
	}
	if out.Truncation == "" {
		out.Truncation = "disabled"
	}
	if b.Text != nil && b.Text.Format != nil {
		out.Text, _ = json.Marshal(b.Text) // it was read
	}
	if b.Instructions != "" {
		out.Instructions = &b.Instructions
	}
	if b.Previous != "" {
		out.Previous = &b.Previous
	}
	if b.MaxOutput > 0 {
		out.MaxOutput = &b.MaxOutput
	}
	if r := b.Reasoning; r != nil && r.Effort != "" {
		out.Reasoning.Effort = &r.Effort
	}
	if r := b.Reasoning; r != nil && r.Summary != "" {
		out.Reasoning.Summary = &r.Summary
	}
	return out
}

// ended is the response once its answer is there.
func (b Response) ended(a dialogue.Answer, output []any, now int64) Response {
	b.Output, b.Usage.Value, b.Status = output, usageOf(a.Usage), "completed"
	if a.Model != "" {
		b.Model = a.Model
	}
	switch a.Stop {
	case dialogue.StopLength, dialogue.StopContext, dialogue.StopPause:
		b.Status, b.Incomplete.Value = "incomplete", incomplete{"max_output_tokens"}
	case dialogue.StopRefusal:
		b.Status, b.Incomplete.Value = "incomplete", incomplete{"content_filter"}
	default:
		b.CompletedAt = &now
	}
	b.Portico = &ResponseExtension{Credits: a.Credits.String(), Compacted: a.Compacted}
	for _, p := range a.Parts {
		if _, ok := p.(dialogue.Call); ok {
			b.Portico.Calls++
		}
	}
	return b
}

// broken is the response of a request that failed after its stream had begun.
func (b Response) broken(err error, output []any) Response {
	e := failure.Describe(err)
	why := failed{Code: "server_error", Message: e.Message}
	switch e.Type {
	case "rate_limit_exceeded", "insufficient_quota":
		why.Code = "rate_limit_exceeded"
	case "invalid_request_error":
		why.Code = "invalid_prompt"
	}
	b.Status, b.Output, b.Error.Value = "failed", output, why
	return b
}
