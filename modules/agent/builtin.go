package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool"
)

// readToolResult is the tool that reads what the model was not given.
const readToolResult = "read_tool_result"

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// builtin makes a tool that this server is itself; its calls are recorded.
func (j *job) builtin(name, description, schema string, work func(ctx context.Context, arguments json.RawMessage) (any, error)) Tool {
	return Tool{
		Name: name, Description: description, Own: true, Schema: json.RawMessage(schema), toolset: record.Builtin, method: name, work: work,
		Run: func(ctx context.Context, c Call) (string, error) {
			m := tool.ModelCall{Shown: j.live.shownAs(c.ID), Tool: name, Arguments: c.Arguments}
			return j.perform(ctx, c, m, func(ctx context.Context) tool.Answer { return answerOf(work(ctx, c.Arguments)) })
		},
	}
}

// perform executes and records a call of a tool that this server is itself.
func (j *job) perform(ctx context.Context, c Call, m tool.ModelCall, work func(ctx context.Context) tool.Answer) (string, error) {
	call, answer, err := j.service.Tools.Perform(ctx, j.actor, j.run, m, work)
	if err != nil {
		return "", err
	}
	c.Recorded(call.CallID)
	if answer.Status != tool.Success {
		j.live.given(ctx, call.CallID, answer.Error)
		return "", errors.New(answer.Error)
	}
	text := words(answer.Data)
	j.live.given(ctx, call.CallID, text)
	return text, nil
}

// answerOf is what a tool of the server's own answers.
func answerOf(data any, failed error) tool.Answer {
	if failed != nil {
		return tool.Refuse("FAILED", failed.Error())
	}
	text, err := json.Marshal(data)
	if err != nil {
		return tool.Refuse(tool.CodeInternal, "The result cannot be written.")
	}
	return tool.Answer{Status: tool.Success, Data: text}
}

// words is a text as it is, and anything else as JSON.
func words(data json.RawMessage) string {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return text
	}
	return string(data)
}

func (j *job) builtins() []Tool {
	return []Tool{
		j.builtin("get_time", "Tell the current date and time.",
			`{"type":"object","properties":{"zone":{"type":["string","null"],"description":"Time zone such as Europe/Oslo; null for UTC"}},"required":["zone"],"additionalProperties":false}`,
			func(_ context.Context, arguments json.RawMessage) (any, error) {
				var in struct{ Zone *string }
				if err := json.Unmarshal(arguments, &in); err != nil {
					return nil, err
				}
				zone := time.UTC
				if in.Zone != nil && *in.Zone != "" {
					var err error
					if zone, err = time.LoadLocation(*in.Zone); err != nil {
						return nil, fmt.Errorf("there is no time zone %q", *in.Zone)
					}
				}
				return time.Now().In(zone).Format("2006-01-02T15:04:05-07:00 Monday"), nil
			}),
		j.builtin(readToolResult, "Read the whole result of an earlier tool call of yours, a piece at a time.",
			`{"type":"object","properties":{"call_id":{"type":"string","description":"The id of the call"},"offset":{"type":"integer","minimum":0,"description":"Where to begin, in bytes"}},"required":["call_id","offset"],"additionalProperties":false}`,
			func(ctx context.Context, arguments json.RawMessage) (any, error) {
				var in struct {
					CallID string `json:"call_id"`
					Offset int
				}
				if err := json.Unmarshal(arguments, &in); err != nil {
					return nil, err
				}
				return j.readResult(ctx, in.CallID, in.Offset)
			}),
		j.builtin("read_agent_result", "Read how an earlier run of the user's ended: its question, its answer and its status.",
			`{"type":"object","properties":{"result_id":{"type":"string","description":"The id of the run"}},"required":["result_id"],"additionalProperties":false}`,
			func(ctx context.Context, arguments json.RawMessage) (any, error) {
				var in struct {
					ResultID string `json:"result_id"`
				}
				if err := json.Unmarshal(arguments, &in); err != nil {
					return nil, err
				}
				return j.readRun(ctx, in.ResultID)
			}),
	}
}

func (j *job) readRun(ctx context.Context, resultID string) (any, error) {
	r, err := j.service.Runs.Get(ctx, j.actor, resultID, nil)
	if err != nil {
		return nil, fmt.Errorf("there is no run %q", resultID)
	}
	messages, err := j.service.Runs.Messages(ctx, j.actor, run.MessageFilter{ResultID: r.ResultID, Version: r.Version, Spoken: true})
	if err != nil {
		return nil, errors.New("the run cannot be read at the moment")
	}
	out := map[string]any{"status": r.Status, "title": r.Title}
	for _, m := range messages {
		switch {
		case m.Type == run.Human:
			out["question"] = m.Content
		case m.Content != "": // an answer that only called tools has none
			out["answer"] = m.Content // the last one counts
		}
	}
	if len(r.Errors) > 0 {
		out["errors"] = r.Errors
	}
	return out, nil
}

// piece is how much of a result is read at once.
const piece = 32 << 10

func (j *job) readResult(ctx context.Context, callID string, offset int) (any, error) {
	data, err := j.output(ctx, callID)
	if err != nil {
		return nil, err
	}
	return part(data, offset)
}

// output is the whole result of a call of the user's.
func (j *job) output(ctx context.Context, callID string) (json.RawMessage, error) {
	data, err := j.service.Records.Output(ctx, j.actor, callID)
	if errors.Is(err, record.ErrMissing) {
		return nil, fmt.Errorf("there is no result of a call %q", callID)
	}
	if err != nil {
		return nil, errors.New(explain(err))
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

// search finds tools by words.
func (j *job) search() Tool {
	return j.builtin("search_tools", "Find tools that programs can call, best first: a line for each says how it is called.",
		`{"type":"object","properties":{"query":{"type":"string","description":"What you want to do, in words; empty for all"}},"required":["query"],"additionalProperties":false}`,
		func(_ context.Context, arguments json.RawMessage) (any, error) {
			var in struct{ Query string }
			if err := json.Unmarshal(arguments, &in); err != nil {
				return nil, err
			}
			return j.catalogue.Search(in.Query), nil
		})
}

// help tells all about one tool.
func (j *job) help() Tool {
	return j.builtin("help", "Tell all about one tool that programs can call: its description and the schemas of its parameters and result.",
		`{"type":"object","properties":{"name":{"type":"string","description":"Its name, or toolset.name"}},"required":["name"],"additionalProperties":false}`,
		func(ctx context.Context, arguments json.RawMessage) (any, error) {
			var in struct{ Name string }
			if err := json.Unmarshal(arguments, &in); err != nil {
				return nil, err
			}
			text, err := j.catalogue.Help(ctx, in.Name)
			if refusal, ok := errors.AsType[*errs.Error](err); ok {
				return nil, errors.New(refusal.Message + " " + refusal.Detail)
			}
			return text, err
		})
}
