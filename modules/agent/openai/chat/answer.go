package chat

import (
	"strings"

	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/model"
)

// Completion is an answer, or a chunk of one: docs/wire/openai.md#chat-completions.
type Completion struct {
	ID          string           `json:"id"`
	Object      string           `json:"object" enum:"chat.completion"`
	Created     int64            `json:"created" doc:"In seconds since 1970"`
	Model       string           `json:"model"`
	Choices     []ChatChoice     `json:"choices" doc:"One"`
	Usage       any              `json:"usage,omitempty" doc:"Tokens; zero where the model was not asked"`
	Fingerprint httpapi.Nullable `json:"system_fingerprint" doc:"null"`
	Portico     *ChatExtension   `json:"portico,omitempty" doc:"What is known beside the vendor's own members"`
}

// ChatChoice is the one choice of an answer.
type ChatChoice struct {
	Index    int              `json:"index"`
	Message  *ChatMessage     `json:"message,omitempty"`
	Delta    any              `json:"delta,omitempty" doc:"In chunks"`
	Logprobs httpapi.Nullable `json:"logprobs" doc:"null"`
	Finish   *string          `json:"finish_reason" nullable:"true" enum:"stop,length,tool_calls,content_filter"`
}

// ChatMessage is what the model said, and what the client is to execute.
type ChatMessage struct {
	Role        string     `json:"role" enum:"assistant"`
	Content     *string    `json:"content" nullable:"true"`
	Refusal     *string    `json:"refusal" nullable:"true" doc:"null"`
	Annotations []any      `json:"annotations"`
	Calls       []ChatCall `json:"tool_calls,omitempty"`
}

// ChatCall is a call that the client is to execute.
type ChatCall struct {
	Index    *int         `json:"index,omitempty" doc:"In chunks"`
	ID       string       `json:"id"`
	Type     string       `json:"type" enum:"function"`
	Function ChatFunction `json:"function"`
}

// ChatFunction is what is called.
type ChatFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments" doc:"JSON, as a text"`
}

// ChatExtension is what answers say beside the vendor's own members.
type ChatExtension struct {
	Credits string `json:"credits" doc:"What the tokens cost" example:"0.12"`
	Calls   int    `json:"calls" doc:"How many calls the client is asked for"`
	// Compacted is left out where nothing was.
	Compacted int `json:"compacted,omitempty" doc:"How many outputs of tools and programs the model was not told again, since they would not fit"`
}

// ChatUsage is tokens.
type ChatUsage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
	Details    struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func usageOf(u model.Usage) ChatUsage {
	out := ChatUsage{Prompt: u.Input, Completion: u.Output, Total: u.Total()}
	out.Details.Cached, out.CompletionDetails.Reasoning = u.InputDetails.Cached, u.OutputDetails.Reasoning
	return out
}

// callOf is a call as the client knows it.
func callOf(c dialogue.Call) ChatCall {
	id := c.ID
	if c.Program != "" {
		id = programCall + id
	}
	return ChatCall{ID: id, Type: "function", Function: ChatFunction{Name: c.Name, Arguments: string(c.Arguments)}}
}

// between stands between what a model says before and after a program.
const between = "\n\n"

// whole is an answer that comes at once.
func whole(head Completion, a dialogue.Answer) Completion {
	message := ChatMessage{Role: "assistant", Annotations: []any{}}
	var said strings.Builder
	apart := false
	for _, p := range a.Parts {
		switch p := p.(type) {
		case dialogue.Text:
			if apart && said.Len() > 0 {
				said.WriteString(between)
			}
			apart = false
			said.WriteString(p.Text)
		case dialogue.Call:
			message.Calls = append(message.Calls, callOf(p))
		case dialogue.Program, dialogue.Output:
			apart = true
		}
	}
	if text := said.String(); text != "" || len(message.Calls) == 0 {
		message.Content = &text
	}
	finish := finishOf(a)
	head.Choices = []ChatChoice{{Message: &message, Finish: &finish}}
	head.Usage, head.Portico = usageOf(a.Usage), extensionOf(a)
	if a.Model != "" {
		head.Model = a.Model
	}
	return head
}

func extensionOf(a dialogue.Answer) *ChatExtension {
	out := &ChatExtension{Credits: a.Credits.String(), Compacted: a.Compacted}
	for _, p := range a.Parts {
		if _, ok := p.(dialogue.Call); ok {
			out.Calls++
		}
	}
	return out
}

func finishOf(a dialogue.Answer) string {
	switch a.Stop {
	case dialogue.StopCalls:
		return "tool_calls"
	case dialogue.StopLength, dialogue.StopContext, dialogue.StopPause:
		return "length"
	case dialogue.StopRefusal:
		return "content_filter"
	}
	return "stop"
}
