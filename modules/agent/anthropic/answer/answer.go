// Package answer shows what a dialogue answers in the form of the Messages API, in one
// piece or as events.
package answer

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/agent/anthropic/wire"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/model"
)

// View is how an answer is shown.
type View struct {
	ID     string // of the message, without its prefix
	Model  string // that was asked for
	Caller string // how calls of programs are marked
}

// MessageReply is an answer: docs/wire/anthropic.md#messages.
type MessageReply struct {
	ID           string                         `json:"id" example:"msg_7RkQ2mXk9vR4sW1yZ6aB3n5D"`
	Type         string                         `json:"type" enum:"message"`
	Role         string                         `json:"role" enum:"assistant"`
	Model        string                         `json:"model" doc:"The one that answered"`
	Content      []any                          `json:"content" doc:"Blocks: text, thinking, tool_use, server_tool_use, and what came of the last"`
	StopReason   *string                        `json:"stop_reason" enum:"end_turn,max_tokens,stop_sequence,tool_use,pause_turn,refusal,model_context_window_exceeded"`
	StopSequence *string                        `json:"stop_sequence" example:"END"`
	StopDetails  httpapi.OrNull[ReplyRefusal]   `json:"stop_details"`
	Container    httpapi.OrNull[ReplyContainer] `json:"container" doc:"Where programs keep their files; the next request names it"`
	Diagnostics  httpapi.Null                   `json:"diagnostics" doc:"Always null"`
	Usage        ReplyUsage                     `json:"usage"`
	Portico      *ReplyCredits                  `json:"portico,omitempty"`
}

// ReplyRefusal says why the model does not answer.
type ReplyRefusal struct {
	Type        string       `json:"type" enum:"refusal"`
	Category    httpapi.Null `json:"category" doc:"Always null"`
	Explanation httpapi.Null `json:"explanation" doc:"Always null"`
}

// ReplyContainer is where programs keep their files.
type ReplyContainer struct {
	ID        string       `json:"id"`
	ExpiresAt time.Time    `json:"expires_at" doc:"Until then it is kept, and what waits is waited for"`
	Skills    httpapi.Null `json:"skills" doc:"Always null"`
}

// ReplyUsage is the tokens of the model; all are 0 where it was not asked.
type ReplyUsage struct {
	Input       int64                       `json:"input_tokens"`
	Output      int64                       `json:"output_tokens"`
	Written     int64                       `json:"cache_creation_input_tokens"`
	Cached      int64                       `json:"cache_read_input_tokens"`
	Creation    httpapi.Null                `json:"cache_creation" doc:"Always null"`
	Details     httpapi.OrNull[ReplyOutput] `json:"output_tokens_details"`
	ServerTools ReplyServerTools            `json:"server_tool_use"`
	Tier        httpapi.Null                `json:"service_tier" doc:"Always null"`
	Geo         httpapi.Null                `json:"inference_geo" doc:"Always null"`
	Speed       httpapi.Null                `json:"speed" doc:"Always null"`
}

// ReplyOutput are parts of the tokens that the model wrote.
type ReplyOutput struct {
	Thinking int64 `json:"thinking_tokens"`
}

// ReplyServerTools counts tools that this server does not have.
type ReplyServerTools struct {
	Searches int64 `json:"web_search_requests"`
	Fetches  int64 `json:"web_fetch_requests"`
}

// ReplyCredits is what an answer says beyond the vendor's members.
type ReplyCredits struct {
	Credits money.Amount `json:"credits" doc:"What the tokens cost" example:"0.02"`
	Calls   int          `json:"calls" doc:"How many calls the client is asked for"`
	// Compacted is left out where nothing was.
	Compacted int `json:"compacted,omitempty" doc:"How many outputs of tools and programs the model was not told again, since they would not fit"`
}

// Reply is an answer in the vendor's form.
func (v View) Reply(a dialogue.Answer) MessageReply {
	m := v.begin(a.Model)
	for _, p := range a.Parts {
		m.Content = append(m.Content, v.block(p))
	}
	e := v.ending(a)
	m.StopReason, m.StopSequence, m.StopDetails, m.Container = e.StopReason, e.StopSequence, e.StopDetails, e.Container
	m.Usage, m.Portico = usage(a.Usage), extra(a)
	return m
}

// begin is a message without anything in it.
func (v View) begin(model string) MessageReply {
	return MessageReply{ID: "msg_" + v.ID, Type: "message", Role: "assistant", Model: cmp.Or(model, v.Model), Content: []any{}}
}

// ending is how a message ends.
type ending struct {
	StopReason   *string                        `json:"stop_reason"`
	StopSequence *string                        `json:"stop_sequence"`
	StopDetails  httpapi.OrNull[ReplyRefusal]   `json:"stop_details"`
	Container    httpapi.OrNull[ReplyContainer] `json:"container"`
}

func (v View) ending(a dialogue.Answer) ending {
	reason := reasonOf(a.Stop)
	e := ending{StopReason: &reason}
	switch a.Stop {
	case dialogue.StopSequence:
		e.StopSequence = &a.StopText
	case dialogue.StopRefusal:
		e.StopDetails.Value = &ReplyRefusal{Type: "refusal"}
	}
	if a.Session != "" {
		e.Container.Value = &ReplyContainer{ID: wire.ContainerPrefix + a.Session, ExpiresAt: a.Expires.UTC()}
	}
	return e
}

func reasonOf(s dialogue.Stop) string {
	switch s {
	case dialogue.StopCalls:
		return "tool_use"
	case dialogue.StopLength:
		return "max_tokens"
	case dialogue.StopContext:
		return "model_context_window_exceeded"
	case dialogue.StopSequence:
		return "stop_sequence"
	case dialogue.StopRefusal:
		return "refusal"
	case dialogue.StopPause:
		return "pause_turn"
	}
	return "end_turn"
}

// usage counts what was read from the cache, and written to it, beside the rest.
func usage(u model.Usage) ReplyUsage {
	one := ReplyUsage{
		Input:  max(0, u.Input-u.InputDetails.Cached-u.InputDetails.Written),
		Output: u.Output, Cached: u.InputDetails.Cached, Written: u.InputDetails.Written,
	}
	if u.OutputDetails.Reasoning > 0 {
		one.Details.Value = &ReplyOutput{u.OutputDetails.Reasoning}
	}
	return one
}

func extra(a dialogue.Answer) *ReplyCredits {
	x := &ReplyCredits{Credits: a.Credits, Compacted: a.Compacted}
	for _, p := range a.Parts {
		switch p.(type) {
		case dialogue.Call, dialogue.Approval:
			x.Calls++
		}
	}
	return x
}

// programID and callID are the ids of blocks.
func programID(id string) string { return wire.ProgramPrefix + id }

func callID(c dialogue.Call) string {
	if c.Program == "" {
		return c.ID
	}
	return wire.CallPrefix + c.ID
}

// object is a text that should be an object, as one.
func object(raw json.RawMessage) json.RawMessage {
	if wire.IsObject(raw) {
		return raw
	}
	if strings.TrimSpace(string(raw)) == "" {
		return json.RawMessage("{}")
	}
	text, _ := json.Marshal(map[string]string{"INVALID_JSON": string(raw)}) // texts always marshal
	return text
}
