package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
)

// ActionResult is a run as it is read again: its messages and steps show the same
// calls as its events.
type ActionResult struct {
	run.ResultBody
	Steps    []ActionStep    `json:"steps" nullable:"false" doc:"What the messages of this answer say, by step"`
	Messages []ActionMessage `json:"messages" nullable:"false" doc:"The conversation, in the order in which it was first shown"`
	// Cursor is set where not all messages are there.
	Cursor string `json:"messagesCursor,omitempty" doc:"Set when there are more messages; send it as messagesAfter to read on"`
}

// ActionMessage is one message of a run.
type ActionMessage struct {
	MessageID string          `json:"messageId"`
	Type      run.MessageType `json:"type" enum:"human,ai,tool"`
	Content   string          `json:"content" doc:"What was said; of a tool, what the model was given"`
	Reasoning string          `json:"reasoningContent,omitempty"`
	Usage     json.RawMessage `json:"usageMeta,omitempty" doc:"Tokens of the request that it is the answer to"`
	CallID    string          `json:"toolCallId,omitempty" doc:"The record of the call"`
	PTC       bool            `json:"isPtc,omitempty" doc:"A program made the call"`
	Meta      *run.CallMeta   `json:"toolCallMeta,omitempty" doc:"As in the events"`
	Result    *CallResult     `json:"toolCallResult,omitempty" doc:"As in the events"`
	CreatedAt time.Time       `json:"createdAt"`

	step string // of a tool
}

// ActionStep is what was said and called under one name.
type ActionStep struct {
	Name       string       `json:"name"`
	Content    string       `json:"content"`
	Reasoning  string       `json:"reasoningContent,omitempty"`
	Calls      []CallResult `json:"toolCalls" nullable:"false"`
	TokenUsage []TokenUsage `json:"tokenUsage" nullable:"false"`
}

// TokenUsage is the tokens of one answer of a model.
type TokenUsage struct {
	ModelName string `json:"modelName,omitempty"`
	Input     int64  `json:"inputTokens"`
	Output    int64  `json:"outputTokens"`
}

// The bounds of one answer. The second is on what the messages hold, and passed
// by what is read at once at most.
const (
	maxMessages = 1000
	maxContent  = 8 << 20
)

// answerStep is the step of what a model says.
const answerStep = "answer"

type resultInput struct {
	ResultID string `query:"resultId" required:"true" minLength:"1" maxLength:"64" doc:"The run"`
	Version  int    `query:"version" minimum:"-1" default:"-1" doc:"Which execution under the result id; the newest when left out"`
	After    string `query:"messagesAfter" maxLength:"64" documented:"pattern=^[A-Za-z0-9_-]*$" doc:"messagesCursor of the answer before; name the version, too"`
}

func (c controller) result(ctx context.Context, who actor.Actor, in *resultInput) (ActionResult, error) {
	var version *int
	if in.Version >= 0 {
		version = &in.Version
	}
	after, err := httpapi.DecodeCursor(in.After)
	if err != nil {
		return ActionResult{}, err
	}
	return c.service.Result(ctx, who, in.ResultID, version, after)
}

// Result reads a run with its messages after the given one, 0 for all. There
// are at most maxMessages, and fewer where they are large; Cursor says that
// there are more. It returns run.ErrMissing when the run is not the caller's.
func (s *Service) Result(ctx context.Context, a actor.Actor, resultID string, version *int, after int64) (ActionResult, error) {
	r, err := s.runs.Get(ctx, a, resultID, version)
	if err != nil {
		return ActionResult{}, err
	}
	totals, err := s.sums.Totals(ctx, a, []run.Ref{r.Ref()})
	if err != nil {
		return ActionResult{}, err
	}
	out := ActionResult{ResultBody: run.NewResultBody(r), Messages: []ActionMessage{}}
	out.Totals = run.NewTotalsBody(totals[r.Ref()])
	f := run.MessageFilter{ResultID: r.ResultID, Version: r.Version, After: after, Limit: batch}
	size := 0
	for {
		read, err := s.runs.Messages(ctx, a, f)
		if err != nil {
			return ActionResult{}, err
		}
		shown, err := s.messages(ctx, a, read)
		if err != nil {
			return ActionResult{}, err
		}
		for _, m := range shown {
			size += m.size()
		}
		out.Messages = append(out.Messages, shown...)
		if len(read) < batch {
			break
		}
		f.After = read[len(read)-1].Seq
		if size >= maxContent || len(out.Messages) >= maxMessages {
			out.Cursor = httpapi.EncodeCursor(f.After)
			break
		}
	}
	out.Steps = stepsOf(out.Messages, r.Model)
	return out, nil
}

// messages shows messages with the records of their calls.
func (s *Service) messages(ctx context.Context, a actor.Actor, read []run.Message) ([]ActionMessage, error) {
	var callIDs []string
	for _, m := range read {
		if m.CallID != "" {
			callIDs = append(callIDs, m.CallID)
		}
	}
	var calls map[string]record.Call
	var err error
	if len(callIDs) > 0 {
		if calls, err = s.calls.Calls(ctx, a, callIDs); err != nil {
			return nil, err
		}
	}
	list := make([]ActionMessage, len(read))
	for i, m := range read {
		if list[i], err = showMessage(m, calls); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func showMessage(m run.Message, calls map[string]record.Call) (ActionMessage, error) {
	out := ActionMessage{
		MessageID: m.MessageID, Type: m.Type, Content: m.Content, Reasoning: m.Reasoning, Usage: m.Usage, CallID: m.CallID, CreatedAt: m.CreatedAt,
	}
	if len(m.CallMeta) > 0 { // what is known of a call whose record is gone
		out.Meta = &run.CallMeta{}
		if err := json.Unmarshal(m.CallMeta, out.Meta); err != nil {
			return out, fmt.Errorf("the call of message %s: %w", m.MessageID, err)
		}
		out.PTC = ids.MadeByCode(m.CallID)
	}
	c, ok := calls[m.CallID]
	if !ok {
		return out, nil
	}
	shown, err := show(c)
	out.PTC, out.Meta, out.Result, out.step = shown.ptc, &shown.meta, &shown.result, c.StepName
	return out, err
}

// size is about how many bytes a message takes.
func (m ActionMessage) size() int {
	n := len(m.Content) + len(m.Reasoning)
	if m.Result != nil {
		n += len(m.Result.Input) + len(m.Result.Output)
	}
	return n
}

// stepsOf puts messages together by step, in the order in which the steps
// began.
func stepsOf(messages []ActionMessage, model string) []ActionStep {
	steps := []ActionStep{}
	at := map[string]int{}
	step := func(name string) *ActionStep {
		if _, known := at[name]; !known {
			at[name] = len(steps)
			steps = append(steps, ActionStep{Name: name, Calls: []CallResult{}, TokenUsage: []TokenUsage{}})
		}
		return &steps[at[name]]
	}
	for _, m := range messages {
		switch {
		case m.Type == run.AI:
			s := step(answerStep)
			s.Content += m.Content
			s.Reasoning += m.Reasoning
			u := TokenUsage{ModelName: model}
			if json.Unmarshal(m.Usage, &u) == nil {
				s.TokenUsage = append(s.TokenUsage, u)
			}
		case m.Result != nil:
			s := step(m.step)
			s.Calls = append(s.Calls, *m.Result)
		}
	}
	return steps
}
