package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/portico-run/portico/modules/agent/live"
	"github.com/portico-run/portico/modules/agent/loop"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/tool"
)

// code runs what the model writes: programs, and the interpreter whose
// variables survive.
type code struct {
	programs     Programs
	interpreters Interpreters
	logger       *slog.Logger
	calls        *live.Calls
	task         Task
}

// installed is what programs import besides the standard library: the packages
// of configs/sandbox/requirements.txt that are not indented, by the names that
// they are imported by.
const installed = "numpy, pandas, scipy, sklearn, statsmodels, sympy, matplotlib, seaborn, plotly, pyarrow, duckdb, cv2, openpyxl, xlsxwriter, " +
	"docx, pptx, pypdf, pdfplumber, reportlab, bs4, lxml, tabulate"

// program is the tool that runs programs, which are given functions.
func (c code) program(m Mode, functions []tool.Function) loop.Tool {
	description := "Run a Python program. Tools are called inside it; only what it prints comes back. Programs share no variables. " +
		"Installed: " + installed + "; nothing can be added."
	if m.Minimal {
		description += " The system message has the signatures of the functions that it can call; in a program, print(search_tools(\"words\")) finds tools " +
			"and print(help(\"name\")) tells all about one."
	}
	return loop.Tool{
		Name: c.task.CodeTool, Own: true, Description: description, Toolset: record.Program, Method: record.Program,
		// Two that write the files of a canvas would get in each other's way.
		Serial: c.task.canvas() != "",
		Schema: json.RawMessage(`{"type":"object","properties":{
			"code":{"type":"string"},
			"timeout":{"type":["integer","null"],"description":"In seconds; null for the usual limit"}},
			"required":["code","timeout"],"additionalProperties":false}`),
		Run: func(ctx context.Context, call loop.Call) (string, error) {
			var in struct {
				Code    string
				Timeout *int
			}
			if err := json.Unmarshal(call.Arguments, &in); err != nil {
				return "", err
			}
			o, err := c.programs.Execute(ctx, c.task.Actor, c.request(call, in.Code, value(in.Timeout, 0), functions))
			if err != nil {
				return "", err
			}
			text, failed := result(o)
			c.calls.Given(ctx, call, o.CallID, text)
			return text, failed
		},
	}
}

// request is code of the model's as a program of this run.
func (c code) request(call loop.Call, text string, timeout int, functions []tool.Function) program.Request {
	req := program.Request{
		Code: text, Language: sandbox.Python, Toolsets: c.task.Toolsets, Timeout: c.task.CodeTimeout,
		ResultID: c.task.Run.ResultID, CanvasID: c.task.canvas(), Title: c.task.Title, Functions: functions,
		Selected: c.task.Selected, Approval: c.task.Approval, Shown: c.calls.Shown(call),
	}
	if timeout > 0 {
		req.Timeout = time.Duration(timeout) * time.Second
	}
	return req
}

// result is what the model sees of a program: what it printed, and, if it
// failed, why and after how many calls that cannot be undone.
func result(o program.Outcome) (string, error) {
	var text strings.Builder
	text.WriteString(o.Stdout)
	for _, w := range o.Warnings {
		fmt.Fprintf(&text, "\n[%s]", w)
	}
	for _, f := range o.Files {
		fmt.Fprintf(&text, "\n[kept in the canvas: %s, %s, %d bytes, file id %s]", f.Name, f.Type, f.Size, f.FileID)
	}
	if o.Status == sandbox.Completed {
		if text.Len() == 0 {
			return "[the program printed nothing]", nil
		}
		return text.String(), nil
	}
	if o.Stderr != "" {
		fmt.Fprintf(&text, "\n%s", o.Stderr)
	}
	return text.String(), fmt.Errorf("the program ended with %s (exit code %d) after %d ms; it had made %d tool calls, which are not undone",
		o.ErrorCode, o.ExitCode, o.DurationMS, o.ToolCallsMade)
}
