package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/sandbox"
)

// executeCode is the name of the tool that runs programs, execCode another one
// that it is called by.
const (
	executeCode = "execute_code"
	execCode    = "exec_code"
)

// installed is what programs import besides the standard library: the packages
// of configs/sandbox/requirements.txt that are not indented, by the names that
// they are imported by.
const installed = "numpy, pandas, scipy, sklearn, statsmodels, sympy, matplotlib, seaborn, plotly, pyarrow, duckdb, cv2, openpyxl, xlsxwriter, " +
	"docx, pptx, pypdf, pdfplumber, reportlab, bs4, lxml, tabulate"

// code is the tool that runs programs.
func (j *job) code() Tool {
	description := "Run a Python program. Tools are called inside it; only what it prints comes back. Programs share no variables. " +
		"Installed: " + installed + "; nothing can be added."
	if j.minimal() {
		description += " The system message has the signatures of the functions that it can call; in a program, print(search_tools(\"words\")) finds tools " +
			"and print(help(\"name\")) tells all about one."
	}
	return Tool{
		Name: j.service.Settings.CodeTool, Own: true, Serial: j.changesFiles(), Description: description, toolset: record.Program, method: record.Program,
		Schema: json.RawMessage(`{"type":"object","properties":{
			"code":{"type":"string"},
			"timeout":{"type":["integer","null"],"description":"In seconds; null for the usual limit"}},
			"required":["code","timeout"],"additionalProperties":false}`),
		Run: func(ctx context.Context, c Call) (string, error) {
			var in struct {
				Code    string
				Timeout *int
			}
			if err := json.Unmarshal(c.Arguments, &in); err != nil {
				return "", err
			}
			o, err := j.service.Programs.Execute(ctx, j.actor, j.program(c, in.Code, value(in.Timeout, 0)))
			if err != nil {
				return "", err
			}
			c.Recorded(o.CallID)
			text, failed := result(o)
			j.live.given(ctx, o.CallID, text)
			return text, failed
		},
	}
}

// changesFiles reports whether tools that write the files of the canvas would
// get in each other's way.
func (j *job) changesFiles() bool { return j.run.CanvasID != "" }

// program is code of the model's as a program of this run.
func (j *job) program(c Call, code string, timeout int) program.Request {
	req := program.Request{
		Code: code, Language: sandbox.Python, Toolsets: j.toolsets, Timeout: j.service.Settings.CodeTimeout,
		ResultID: j.run.ResultID, CanvasID: j.run.CanvasID, Title: j.title, Functions: j.functions(),
		Selected: j.selected, Shown: j.live.shownAs(c.ID),
	}
	if timeout > 0 {
		req.Timeout = seconds(timeout)
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
