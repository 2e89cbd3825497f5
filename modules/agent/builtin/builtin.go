// Package builtin has the tools that the server is itself, for one run of an
// agent: code, files, earlier results, the end of the run, and looking up the
// tools that programs call.
package builtin

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/agent/live"
	"github.com/portico-run/portico/modules/agent/loop"
	"github.com/portico-run/portico/modules/catalogue"
	"github.com/portico-run/portico/modules/drive"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/program/repl"
	"github.com/portico-run/portico/modules/program/tables"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/tool/approval"
)

// Programs run code.
type Programs interface {
	Execute(ctx context.Context, a actor.Actor, req program.Request) (program.Outcome, error)
}

// Interpreters run code that finds what earlier code defined.
type Interpreters interface {
	Run(ctx context.Context, a actor.Actor, name string, req program.Request) (repl.Answer, error)
	Reset(ctx context.Context, a actor.Actor, name string) (bool, error)
}

// Files are those of canvases.
type Files interface {
	List(ctx context.Context, a actor.Actor, canvasID string, p httpapi.PageQuery) (httpapi.Page[drive.File], error)
	Find(ctx context.Context, a actor.Actor, canvasID, name string) (drive.File, error)
	Read(ctx context.Context, a actor.Actor, fileID string, limit int64) (drive.File, []byte, error)
	Save(ctx context.Context, a actor.Actor, c drive.Content) (drive.File, error)
}

// Tables reads and draws tables.
type Tables interface {
	Rows(ctx context.Context, f tables.File, from, count int) (tables.Rows, error)
	Chart(ctx context.Context, f tables.File, c tables.Chart) (tables.Drawing, error)
}

// Runs are those of the user's.
type Runs interface {
	Get(ctx context.Context, a actor.Actor, resultID string, version *int) (run.Run, error)
	Messages(ctx context.Context, a actor.Actor, f run.MessageFilter) ([]run.Message, error)
}

// Results are what the user's calls returned.
type Results interface {
	Output(ctx context.Context, a actor.Actor, callID string) (json.RawMessage, error)
}

// Deps is what the tools work with.
type Deps struct {
	Programs     Programs
	Interpreters Interpreters
	Files        Files
	Tables       Tables
	Runs         Runs
	Results      Results
	Logger       *slog.Logger
}

// Task is the run that the tools work for.
type Task struct {
	Actor actor.Actor
	Run   run.Run
	Title string
	// Toolsets are those that programs get, Selected the only tools of some.
	Toolsets []string
	Selected map[string][]string
	// Approval is when their calls wait for a person, at least.
	Approval approval.Level
	// CodeTool is the name of the tool that runs programs, CodeTimeout what a
	// program has that names no time.
	CodeTool    string
	CodeTimeout time.Duration
	// Lifecycle says that the model ends the run with a tool.
	Lifecycle bool
}

// canvas is where the files of the run are; empty for none.
func (t Task) canvas() string { return t.Run.CanvasID }

// Mode is how the model works.
type Mode struct {
	// Code says that it writes code which calls tools.
	Code bool
	// Minimal says that everything but lifecycle tools is called from code.
	Minimal bool
}

// Set are the tools of one run.
type Set struct {
	calls   *live.Calls
	results results
	files   files
	code    code
	endings *endings
	working chan struct{} // holds an element for each function that works
	// lifecycle says that the tools which end the run are offered.
	lifecycle bool
}

// New makes the tools of a run. Their calls are recorded by calls.
func New(d Deps, t Task, calls *live.Calls) *Set {
	return &Set{
		calls:   calls,
		results: results{d.Results, d.Runs, t.Actor},
		files:   files{d.Files, d.Tables, t},
		code:    code{d.Programs, d.Interpreters, d.Logger, calls, t},
		endings: &endings{}, lifecycle: t.Lifecycle,
		working: make(chan struct{}, maxWorking),
	}
}

// Ending is how the model itself ended the run; nil while it did not.
func (s *Set) Ending() *Ending { return s.endings.last }

// Made is told of a call that worked in another process: one that ended the run there
// ends it here, too.
func (s *Set) Made(ctx context.Context, c loop.Call) error {
	if !s.lifecycle {
		return nil
	}
	return s.endings.again(ctx, c)
}

// Close ends what the run alone used.
func (s *Set) Close(ctx context.Context) { s.code.close(ctx) }

// Tools are those that the model gets with their schemas. The catalogue is of
// what code may call.
func (s *Set) Tools(m Mode, c *catalogue.Catalogue) []loop.Tool {
	var own []own
	if s.lifecycle {
		own = s.endings.tools()
	}
	if !m.Minimal {
		own = slices.Concat(own, s.results.tools(), s.files.tools())
	}
	var list []loop.Tool
	for _, o := range own {
		list = append(list, s.tool(o))
	}
	functions := s.Functions(m)
	if m.Minimal {
		return append(list, s.code.program(m, functions))
	}
	list = append(list, s.code.repl(m, functions))
	if !m.Code {
		return list
	}
	list = append(list, s.code.program(m, functions))
	for _, l := range c.Lookups() {
		list = append(list, s.tool(lookup(l)))
	}
	return list
}

// own is a tool that the server is itself.
type own struct {
	name, description, schema string
	serial, ends              bool
	work                      work
	// lent is what programs get instead, under the same name; nil for the same.
	lent *own
}

// work does what a tool is for. What it returns is told as JSON; its error is a
// sentence for the model.
type work func(ctx context.Context, arguments json.RawMessage) (any, error)

// reading does work with the arguments that the schema describes.
func reading[In any](do func(ctx context.Context, in In) (any, error)) work {
	return func(ctx context.Context, arguments json.RawMessage) (any, error) {
		var in In
		if err := json.Unmarshal(arguments, &in); err != nil {
			return nil, err
		}
		return do(ctx, in)
	}
}

// tool is one that the model calls; its calls are recorded.
func (s *Set) tool(o own) loop.Tool {
	return loop.Tool{
		Name: o.name, Description: o.description, Own: true, Schema: json.RawMessage(o.schema), Toolset: record.Builtin, Method: o.name,
		Serial: o.serial, Ends: o.ends,
		Run: func(ctx context.Context, c loop.Call) (string, error) {
			return s.calls.Perform(ctx, c, "", o.name, func(ctx context.Context) record.Answer { return answerOf(o.work(ctx, c.Arguments)) })
		},
	}
}

// answerOf is what a tool of the server's own answers.
func answerOf(data any, failed error) record.Answer {
	if failed != nil {
		return record.Refuse("FAILED", failed.Error())
	}
	text, err := json.Marshal(data)
	if err != nil {
		return record.Refuse(tool.CodeInternal, "The result cannot be written.")
	}
	return record.Answer{Status: record.Success, Data: text}
}
