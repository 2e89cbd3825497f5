package builtin

import (
	"context"
	"errors"
	"strings"

	"github.com/portico-run/portico/modules/agent/loop"
	"github.com/portico-run/portico/modules/run"
)

// Ending is how the model itself ended its run.
type Ending struct {
	Answer  string
	Failed  bool
	Handoff *run.Handoff
}

// endings are the tools by which a model ends its run. They are decisions that
// it makes once, so that code cannot call them. The loop executes such tools one
// at a time, after all others.
type endings struct{ last *Ending }

func (e *endings) tools() []own {
	return []own{
		{
			name: "complete", ends: true, description: "End the run: the work is done. The result is the answer that the user reads.",
			schema: `{"type":"object","properties":{"result":{"type":"string","description":"The whole answer, in Markdown"}},"required":["result"],"additionalProperties":false}`,
			work: reading(func(_ context.Context, in struct{ Result string }) (any, error) {
				return e.end(Ending{Answer: in.Result})
			}),
		},
		{
			name: "fail", ends: true, description: "End the run: what the user asked cannot be done. The reason is the answer that the user reads.",
			schema: `{"type":"object","properties":{"reason":{"type":"string","description":"What was tried, and why it does not work"}},"required":["reason"],"additionalProperties":false}`,
			work: reading(func(_ context.Context, in struct{ Reason string }) (any, error) {
				return e.end(Ending{Answer: in.Reason, Failed: true})
			}),
		},
		{
			name: "onboarding_handoff", ends: true,
			description: "End the run: hand the work over to another agent, who goes on with the user. The user reads the summary.",
			schema: `{"type":"object","properties":{"agent":{"type":"string","description":"The name of the agent who is to go on"},` +
				`"summary":{"type":"string","description":"What the user wants, what is known and what is left to do"}},"required":["agent","summary"],"additionalProperties":false}`,
			work: reading(func(_ context.Context, in run.Handoff) (any, error) {
				return e.end(Ending{Answer: in.Summary, Handoff: &in})
			}),
		},
	}
}

// again ends the run as a call did that another process made.
func (e *endings) again(ctx context.Context, c loop.Call) error {
	for _, o := range e.tools() {
		if o.name == c.Name {
			_, err := o.work(ctx, c.Arguments)
			return err
		}
	}
	return nil
}

// end keeps an ending.
func (e *endings) end(as Ending) (any, error) {
	if strings.TrimSpace(as.Answer) == "" || as.Handoff != nil && strings.TrimSpace(as.Handoff.Agent) == "" {
		return nil, errors.New("a text is empty; say what the user is to read")
	}
	e.last = &as
	return as.Answer, nil
}
