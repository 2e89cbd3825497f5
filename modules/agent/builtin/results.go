package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/modules/agent/loop"
	"github.com/portico-run/portico/modules/catalogue"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
)

// results reads what earlier calls and runs of the user's returned.
type results struct {
	calls Results
	runs  Runs
	actor actor.Actor
}

func (r results) tools() []own {
	return []own{
		{
			name: "get_time", description: "Tell the current date and time.",
			schema: `{"type":"object","properties":{"zone":{"type":["string","null"],"description":"Time zone such as Europe/Oslo; null for UTC"}},"required":["zone"],"additionalProperties":false}`,
			work:   reading(getTime),
		},
		{
			name: loop.ReadToolResult, description: "Read the whole result of an earlier tool call of yours, a piece at a time.",
			schema: `{"type":"object","properties":{"call_id":{"type":"string","description":"The id of the call"},"offset":{"type":"integer","minimum":0,"description":"Where to begin, in bytes"}},"required":["call_id","offset"],"additionalProperties":false}`,
			work:   reading(r.read),
			lent: &own{
				description: "Return the whole result of an earlier tool call, as a value.",
				schema:      `{"type":"object","properties":{"call_id":{"type":"string","description":"The id of the call"}},"required":["call_id"],"additionalProperties":false}`,
				work:        reading(r.whole),
			},
		},
		{
			name: "read_agent_result", description: "Read how an earlier run of the user's ended: its question, its answer and its status.",
			schema: `{"type":"object","properties":{"result_id":{"type":"string","description":"The id of the run"}},"required":["result_id"],"additionalProperties":false}`,
			work:   reading(r.readRun),
		},
	}
}

func getTime(_ context.Context, in struct{ Zone *string }) (any, error) {
	zone := time.UTC
	if in.Zone != nil && *in.Zone != "" {
		var err error
		if zone, err = time.LoadLocation(*in.Zone); err != nil {
			return nil, fmt.Errorf("there is no time zone %q", *in.Zone)
		}
	}
	return time.Now().In(zone).Format("2006-01-02T15:04:05-07:00 Monday"), nil
}

type runID struct {
	ResultID string `json:"result_id"`
}

func (r results) readRun(ctx context.Context, in runID) (any, error) {
	of, err := r.runs.Get(ctx, r.actor, in.ResultID, nil)
	if errors.Is(err, run.ErrMissing) {
		return nil, fmt.Errorf("there is no run %q", in.ResultID)
	}
	if err != nil {
		return nil, errors.New("the run cannot be read at the moment")
	}
	messages, err := r.runs.Messages(ctx, r.actor, run.MessageFilter{ResultID: of.ResultID, Version: of.Version, Spoken: true})
	if err != nil {
		return nil, errors.New("the run cannot be read at the moment")
	}
	out := map[string]any{"status": of.Status, "title": of.Title}
	for _, m := range messages {
		switch {
		case m.Type == run.Human:
			out["question"] = m.Content
		case m.Content != "": // an answer that only called tools has none
			out["answer"] = m.Content // the last one counts
		}
	}
	if len(of.Errors) > 0 {
		out["errors"] = of.Errors
	}
	return out, nil
}

// piece is how much of a result is read at once, in bytes.
const piece = 32 << 10

type callPart struct {
	CallID string `json:"call_id"`
	Offset int
}

func (r results) read(ctx context.Context, in callPart) (any, error) {
	data, err := r.output(ctx, in.CallID)
	if err != nil {
		return nil, err
	}
	return part(data, in.Offset)
}

// whole returns a result in one piece, for a program.
func (r results) whole(ctx context.Context, in callPart) (any, error) {
	return r.output(ctx, in.CallID)
}

// output is the whole result of a call of the user's.
func (r results) output(ctx context.Context, callID string) (json.RawMessage, error) {
	data, err := r.calls.Output(ctx, r.actor, callID)
	if errors.Is(err, record.ErrMissing) {
		return nil, fmt.Errorf("there is no result of a call %q", callID)
	}
	if err != nil {
		return nil, errors.New(loop.Explain(err))
	}
	return data, nil
}

// part is a piece of something long, with where it is from.
func part(whole []byte, offset int) (any, error) {
	if offset < 0 || offset > len(whole) {
		return nil, fmt.Errorf("there are %d bytes; the offset must be between 0 and that", len(whole))
	}
	end := min(offset+piece, len(whole))
	return map[string]any{
		"bytes": len(whole), "from": offset, "to": end, "text": strings.ToValidUTF8(string(whole[offset:end]), "\uFFFD"),
	}, nil
}

// lookup is a question to the catalogue as a tool.
func lookup(l catalogue.Lookup) own {
	return own{name: l.Name, description: l.Description, schema: l.Schema, work: func(ctx context.Context, arguments json.RawMessage) (any, error) {
		text, err := l.Answer(ctx, arguments)
		if err != nil {
			return nil, errors.New(loop.Explain(err))
		}
		return text, nil
	}}
}
