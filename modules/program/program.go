package program

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/tool/approval"
)

// Request is one program to run.
type Request struct {
	Code     string
	Language sandbox.Language
	Toolsets []string // the only ones it may call; empty for all
	Timeout  time.Duration
	// ResultID names a running run to work in, or a run to create.
	ResultID string
	CanvasID string
	Title    string
	// Tool is the name it is recorded under; empty for execute_code.
	Tool string
	// Plain runs it without any tools, whatever the policy says.
	Plain bool
	// Selected are the only tools of a toolset that it may call, by the toolset's
	// key; all of a toolset that is not in it.
	Selected map[string][]string
	// Approval is when its calls wait for a person, at least; empty leaves that to
	// the policy.
	Approval approval.Level
	// ReadOnly refuses calls of tools that may change something.
	ReadOnly bool
	// Shown is set where a model wrote it.
	Shown record.Shown
	// Functions are tools of the server's own that it may call besides, by
	// their names.
	Functions []tool.Function `json:"-"`
}

// running is the status of a program in the background, in the answer to its
// request.
const running sandbox.Status = "running"

// Outcome is how a program ended.
type Outcome struct {
	Stdout   string         `json:"stdout"`
	Stderr   string         `json:"stderr"`
	ExitCode int            `json:"exitCode" doc:"The program's own; 128 + n after signal n, 124 after the timeout"`
	Status   sandbox.Status `json:"status" enum:"completed,failed,timed_out,cancelled,out_of_memory,killed,running" doc:"running for one in the background, of which nothing else is known yet"`
	// ErrorCode says why it did not complete.
	ErrorCode sandbox.Failure `json:"errorCode,omitempty" enum:"failed,timeout,out_of_memory,cancelled,runtime_unavailable" doc:"Why it did not complete; absent when it did"`
	// DurationMS is the wall-clock time of the program.
	DurationMS int64  `json:"durationMs"`
	ResultID   string `json:"resultId"`
	Version    int    `json:"version"`
	CallID     string `json:"callId" doc:"The record of the program"`
	// ToolCallsMade is how many ToolCalls there are.
	ToolCallsMade int        `json:"toolCallsMade" doc:"How many calls it made, also when it did not complete"`
	ToolCalls     []ToolCall `json:"toolCalls" doc:"The calls it made, in order; their results are in their records"`
	Files         []File     `json:"files" nullable:"false" doc:"The files that it left in its canvas; those of a program that failed are not kept"`
	Warnings      []string   `json:"warnings" doc:"What the program did not get, and why"`

	// dropped is how many bytes of Stdout and Stderr are not there.
	dropped [2]int64
	// interpreter is what became of the one that ran the code, for its record.
	interpreter Interpreter
}

// Interpreter says what an interpreter that stays had of earlier code, and has for
// later code.
type Interpreter struct {
	// Fresh says that nothing of earlier code was there.
	Fresh bool `json:"fresh"`
	// Gone says that nothing of this code is left for the next.
	Gone bool `json:"gone"`
}

// File is a file of a canvas that a program wrote or changed.
type File struct {
	FileID string `json:"fileId"`
	Name   string `json:"name"`
	Type   string `json:"type" doc:"Media type"`
	Size   int64  `json:"size" doc:"Bytes"`
}

// ToolCall is one call of a program, without its result.
type ToolCall struct {
	CallID     string        `json:"callId"`
	ToolsetKey string        `json:"toolsetKey"`
	ToolName   string        `json:"toolName"`
	Status     record.Status `json:"status" enum:"waiting,executing,completed,failed"`
	Error      string        `json:"error,omitempty"`
	DurationMS int64         `json:"durationMs"`
}

// prepare checks a request and fills in what it leaves out. installed are the
// languages that there are.
func (r *Request) prepare(s Settings, installed []sandbox.Language) (err error) {
	if r.Code, err = sandbox.PrepareCode(r.Code); err != nil {
		return err
	}
	switch {
	case len(installed) > 0 && !slices.Contains(installed, r.Language): // without any, the sandbox says what is wrong
		return errs.Newf(errs.Invalid, "language %q cannot be run.", r.Language).Do(told(installed))
	case r.Timeout > s.MaxTimeout:
		return errs.Newf(errs.Invalid, "timeout must not be longer than %d milliseconds.", s.MaxTimeout.Milliseconds())
	case r.Timeout < 0:
		return errs.New(errs.Invalid, "timeout must not be negative.")
	}
	if r.Timeout == 0 {
		r.Timeout = s.Timeout
	}
	return nil
}

// told names languages to somebody who asked for another one.
func told(installed []sandbox.Language) string {
	names := make([]string, len(installed))
	for i, l := range installed {
		names[i] = string(l)
	}
	return "Installed: " + strings.Join(names, ", ") + "."
}

// answer is the record of a program that ended.
func (o Outcome) answer() (record.Answer, error) {
	recorded := map[string]any{
		"stdoutDropped": o.dropped[0], "stderrDropped": o.dropped[1], "stdout": o.Stdout, "stderr": o.Stderr, "exitCode": o.ExitCode, "status": o.Status, "durationMs": o.DurationMS, "files": o.Files,
		"toolCallsMade": o.ToolCallsMade,
	}
	if len(o.Warnings) > 0 {
		recorded["warnings"] = o.Warnings
	}
	if o.interpreter != (Interpreter{}) {
		recorded["interpreter"] = o.interpreter
	}
	data, err := json.Marshal(recorded)
	if err != nil {
		return record.Answer{}, fmt.Errorf("encode the outcome of %s: %w", o.CallID, err)
	}
	printed := int64(len(o.Stdout) + len(o.Stderr))
	if o.Status == sandbox.Completed {
		return record.Answer{Status: record.Success, Data: data, Printed: &printed}, nil
	}
	return record.Answer{Status: record.Error, Error: o.sentence(), ErrorCode: strings.ToUpper(string(o.ErrorCode)), Data: data, Printed: &printed}, nil
}

// Recorded reads the outcome of a program that the sandbox ran from its record, besides
// what calls it made, with what became of an interpreter that stays. It reports false for
// a program that the sandbox did not run to its end.
func Recorded(a record.Answer) (o Outcome, i Interpreter, ran bool, err error) {
	if len(a.Data) == 0 {
		return o, i, false, nil
	}
	var said struct {
		Outcome
		Interpreter Interpreter `json:"interpreter"`
	}
	if err := json.Unmarshal(a.Data, &said); err != nil {
		return o, i, false, fmt.Errorf("decode the outcome of a program: %w", err)
	}
	said.ErrorCode = said.Status.Failure()
	return said.Outcome, said.Interpreter, true, nil
}

// sentence says why a program did not complete, and after how many calls.
func (o Outcome) sentence() string {
	ended := sandbox.Result{Status: o.Status, ExitCode: o.ExitCode, Duration: time.Duration(o.DurationMS) * time.Millisecond}
	return ended.Sentence() + " " + sandbox.CallsMade(o.ToolCallsMade)
}

// finish is how its run ends.
func (o Outcome) finish() run.Finish {
	switch o.Status {
	case sandbox.Completed:
		return run.Finish{Status: run.Done, PTCEnabled: true}
	case sandbox.Cancelled:
		return run.Finish{Status: run.Aborted, PTCEnabled: true, Errors: []string{o.sentence()}}
	}
	return run.Finish{Status: run.Failed, PTCEnabled: true, Errors: []string{o.sentence()}}
}
