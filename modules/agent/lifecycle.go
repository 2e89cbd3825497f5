package agent

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/portico-run/portico/modules/run"
)

// ending is how the model itself ended its run.
type ending struct {
	answer  string
	failed  bool
	handoff *run.Handoff
}

// lifecycle are the tools by which a model ends its run. They are decisions
// that it makes once, so that code cannot call them.
func (j *job) lifecycle() []Tool {
	complete := j.builtin("complete", "End the run: the work is done. The result is the answer that the user reads.",
		`{"type":"object","properties":{"result":{"type":"string","description":"The whole answer, in Markdown"}},"required":["result"],"additionalProperties":false}`,
		func(_ context.Context, arguments json.RawMessage) (any, error) {
			var in struct{ Result string }
			return j.end(arguments, &in, func() ending { return ending{answer: in.Result} })
		})
	fail := j.builtin("fail", "End the run: what the user asked cannot be done. The reason is the answer that the user reads.",
		`{"type":"object","properties":{"reason":{"type":"string","description":"What was tried, and why it does not work"}},"required":["reason"],"additionalProperties":false}`,
		func(_ context.Context, arguments json.RawMessage) (any, error) {
			var in struct{ Reason string }
			return j.end(arguments, &in, func() ending { return ending{answer: in.Reason, failed: true} })
		})
	handoff := j.builtin("onboarding_handoff", "End the run: hand the work over to another agent, who goes on with the user. The user reads the summary.",
		`{"type":"object","properties":{"agent":{"type":"string","description":"The name of the agent who is to go on"},`+
			`"summary":{"type":"string","description":"What the user wants, what is known and what is left to do"}},"required":["agent","summary"],"additionalProperties":false}`,
		func(_ context.Context, arguments json.RawMessage) (any, error) {
			var in run.Handoff
			return j.end(arguments, &in, func() ending { return ending{answer: in.Summary, handoff: &in} })
		})
	list := []Tool{complete, fail, handoff}
	for i := range list {
		list[i].Ends = true
	}
	return list
}

// end reads the arguments of a tool that ends the run and keeps the ending. The
// loop executes such tools one at a time, after all others.
func (j *job) end(arguments json.RawMessage, into any, read func() ending) (any, error) {
	if err := json.Unmarshal(arguments, into); err != nil {
		return nil, err
	}
	e := read()
	if strings.TrimSpace(e.answer) == "" || e.handoff != nil && strings.TrimSpace(e.handoff.Agent) == "" {
		return nil, errors.New("a text is empty; say what the user is to read")
	}
	j.ending = &e
	return e.answer, nil
}
