package builtin

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/portico-run/portico/modules/agent/loop"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/tool"
)

// PythonRepl is the name of the tool whose variables survive.
const PythonRepl = "python_repl"

// interpreter names that of this run: the canvas's, or one of its own.
func (c code) interpreter() string {
	if c.task.canvas() != "" {
		return c.task.canvas()
	}
	return c.task.Run.ResultID
}

// close ends the interpreter of a run without a canvas.
func (c code) close(ctx context.Context) {
	if c.task.canvas() != "" {
		return
	}
	if _, err := c.interpreters.Reset(ctx, c.task.Actor, c.interpreter()); err != nil {
		c.logger.WarnContext(ctx, "an interpreter was not ended", "resultId", c.task.Run.ResultID, "error", err)
	}
}

// repl is the tool that runs code in the interpreter, with the functions that
// programs are given.
func (c code) repl(m Mode, functions []tool.Function) loop.Tool {
	description := "Run Python in an interpreter that stays: variables, functions and imports of earlier calls are there. Shows what is printed, and what the " +
		"last line is worth. Pass reset to begin anew; code may be empty then."
	if !m.Code {
		description += " It has no tools."
	}
	return loop.Tool{
		Name: PythonRepl, Own: true, Serial: true, Description: description, Toolset: PythonRepl, Method: PythonRepl,
		Schema: json.RawMessage(`{"type":"object","properties":{
			"code":{"type":"string"},
			"reset":{"type":["boolean","null"],"description":"Whether to forget everything first"},
			"timeout":{"type":["integer","null"],"description":"In seconds; null for the usual limit"}},
			"required":["code","reset","timeout"],"additionalProperties":false}`),
		Run: func(ctx context.Context, call loop.Call) (string, error) {
			var in struct {
				Code    string
				Reset   *bool
				Timeout *int
			}
			if err := json.Unmarshal(call.Arguments, &in); err != nil {
				return "", err
			}
			reset := in.Reset != nil && *in.Reset
			if reset && in.Code == "" {
				return c.reset(ctx, call)
			}
			if reset {
				if _, err := c.interpreters.Reset(ctx, c.task.Actor, c.interpreter()); err != nil {
					return "", err
				}
			}
			req := c.request(call, in.Code, value(in.Timeout, 0), functions)
			req.Tool, req.Plain = PythonRepl, !m.Code
			return c.cell(ctx, call, req)
		},
	}
}

// reset ends the interpreter, and no more.
func (c code) reset(ctx context.Context, call loop.Call) (string, error) {
	return c.calls.Perform(ctx, call, PythonRepl, PythonRepl, func(ctx context.Context) record.Answer {
		_, err := c.interpreters.Reset(ctx, c.task.Actor, c.interpreter())
		return answerOf("[the next code begins anew]", err)
	})
}

func (c code) cell(ctx context.Context, call loop.Call, req program.Request) (string, error) {
	o, err := c.interpreters.Run(ctx, c.task.Actor, c.interpreter(), req)
	if err != nil {
		return "", err
	}
	text, failed := result(o.Outcome)
	text += remark(o.Status, o.Interpreter)
	c.calls.Given(ctx, call, o.CallID, text)
	return text, failed
}

// Retold is what the model is given of code that ran, made from its record: its process
// died before it wrote that down.
func Retold(a record.Answer) (text string, failed, err error) {
	if json.Unmarshal(a.Data, &text) == nil { // nothing ran: the interpreter was reset
		return text, nil, nil
	}
	o, interpreter, ran, err := program.Recorded(a)
	if err != nil {
		return "", nil, err
	}
	if !ran {
		return "", errors.New(a.Error), nil
	}
	text, failed = result(o)
	return text + remark(o.Status, interpreter), failed, nil
}

// RunsCode reports whether a toolset is one of those that run the model's code.
func RunsCode(toolset string) bool { return toolset == record.Program || toolset == PythonRepl }

// remark is what the model is told of the interpreter, after what the code printed.
func remark(status sandbox.Status, i program.Interpreter) string {
	switch {
	case i.Gone:
		return "\n[the interpreter has ended; the next code begins anew]"
	case i.Fresh:
		return "\n[a new interpreter: nothing of earlier code is there]"
	case status == sandbox.TimedOut:
		return "\n[variables are kept]"
	}
	return ""
}
