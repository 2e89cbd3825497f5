package agent

import (
	"context"
	"encoding/json"

	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/tool"
)

// pythonRepl is the name of the tool whose variables survive.
const pythonRepl = "python_repl"

// place names the interpreter of this run: the canvas's, or one of its own.
func (j *job) place() string {
	if j.run.CanvasID != "" {
		return j.run.CanvasID
	}
	return j.run.ResultID
}

// repl is the tool that runs code in the canvas's interpreter.
func (j *job) repl() Tool {
	description := "Run Python in an interpreter that stays: variables, functions and imports of earlier calls are there. Shows what is printed, and what the " +
		"last line is worth. Pass reset to begin anew; code may be empty then."
	if !j.writes {
		description += " It has no tools."
	}
	return Tool{
		Name: pythonRepl, Own: true, Serial: true, Description: description, toolset: pythonRepl, method: pythonRepl,
		Schema: json.RawMessage(`{"type":"object","properties":{
			"code":{"type":"string"},
			"reset":{"type":["boolean","null"],"description":"Whether to forget everything first"},
			"timeout":{"type":["integer","null"],"description":"In seconds; null for the usual limit"}},
			"required":["code","reset","timeout"],"additionalProperties":false}`),
		Run: func(ctx context.Context, c Call) (string, error) {
			var in struct {
				Code    string
				Reset   *bool
				Timeout *int
			}
			if err := json.Unmarshal(c.Arguments, &in); err != nil {
				return "", err
			}
			reset := in.Reset != nil && *in.Reset
			if reset && in.Code == "" {
				return j.reset(ctx, c)
			}
			if reset {
				if _, err := j.service.Interpreters.Reset(ctx, j.actor, j.place()); err != nil {
					return "", err
				}
			}
			return j.cell(ctx, c, in.Code, value(in.Timeout, 0))
		},
	}
}

// reset ends the interpreter, and no more.
func (j *job) reset(ctx context.Context, c Call) (string, error) {
	m := tool.ModelCall{Shown: j.live.shownAs(c.ID), Toolset: pythonRepl, Tool: pythonRepl, Arguments: c.Arguments}
	return j.perform(ctx, c, m, func(ctx context.Context) tool.Answer {
		_, err := j.service.Interpreters.Reset(ctx, j.actor, j.place())
		return answerOf("[the next code begins anew]", err)
	})
}

func (j *job) cell(ctx context.Context, c Call, code string, timeout int) (string, error) {
	req := j.program(c, code, timeout)
	req.Tool, req.Plain = pythonRepl, !j.writes
	o, err := j.service.Interpreters.Run(ctx, j.actor, j.place(), req)
	if err != nil {
		return "", err
	}
	c.Recorded(o.CallID)
	text, failed := result(o.Outcome)
	switch {
	case o.Gone:
		text += "\n[the interpreter has ended; the next code begins anew]"
	case o.Fresh:
		text += "\n[a new interpreter: nothing of earlier code is there]"
	case o.Status == sandbox.TimedOut:
		text += "\n[variables are kept]"
	}
	j.live.given(ctx, o.CallID, text)
	return text, failed
}
