// Package program runs programs: it decides whether code may call tools, gives
// the code a run, an identity and the SDK, runs it in a sandbox, shows its
// output live and records how it ended.
package program

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/account"
	"github.com/portico-run/portico/modules/drive"
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/outside"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sdkbundle"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/tool/approval"
	"github.com/portico-run/portico/modules/toolset"
)

// Policy decides about programmatic tool calling.
type Policy interface {
	Decide(q ptc.Question) ptc.Decision
	SandboxDebug() bool
}

// Keys makes the keys that programs call tools with.
type Keys interface {
	TemporaryKey(ctx context.Context, a actor.Actor) (account.Plaintext, error)
	CallKey(ctx context.Context, a actor.Actor, callID string, until time.Time) (account.Plaintext, error)
	EndCallKey(ctx context.Context, a actor.Actor, callID string) error
}

// Catalogue describes tools.
type Catalogue interface {
	Export(ctx context.Context, a actor.Actor, keys []string) ([]toolset.Definition, []toolset.Failure, error)
}

// SDK finds the files of refly_tools.
type SDK interface {
	Current(ctx context.Context, a actor.Actor) (sdkbundle.Bundle, error)
}

// Files are those of canvases.
type Files interface {
	List(ctx context.Context, a actor.Actor, canvasID string, p httpapi.PageQuery) (httpapi.Page[drive.File], error)
	Read(ctx context.Context, a actor.Actor, fileID string, limit int64) (drive.File, []byte, error)
	Open(ctx context.Context, a actor.Actor, fileID string) (drive.File, io.ReadSeekCloser, error)
	Save(ctx context.Context, a actor.Actor, c drive.Content) (drive.File, error)
}

// Sandbox runs code.
type Sandbox interface {
	Begin(ctx context.Context, job sandbox.Job) (sandbox.Execution, error)
	Languages() []sandbox.Language
}

// Settings are the limits of programs.
type Settings struct {
	// Timeout is the wall-clock limit of a program that names none, and
	// MaxTimeout the longest it may name.
	Timeout, MaxTimeout time.Duration
	// MaxLog is how much output of one program is shown live, in bytes.
	MaxLog int
	// MaxInput is how many bytes of its canvas a program is given; as many may
	// come back.
	MaxInput int64
}

// Outside keeps the programs that services beside this server execute.
type Outside interface {
	Register(ctx context.Context, a actor.Actor, p outside.Registration) (run.Run, *record.Call, error)
	Finish(ctx context.Context, a actor.Actor, e outside.Ending) (r run.Run, ended []string, err error)
}

// Functions lends programs functions of the server's own.
type Functions interface {
	Lend(callID string, functions []tool.Function)
	TakeBack(callID string)
}

// Flat knows the plain functions of users.
type Flat interface {
	For(ctx context.Context, a actor.Actor, keys []string) ([]toolset.Definition, error)
}

// Deps is what the module needs.
type Deps struct {
	Kept

	DB       *database.DB
	Access   Access
	Sandbox  Sandbox
	Settings Settings
	Logger   *slog.Logger
	// Wake tells of runs that other processes end.
	Wake *wake.Hub
}

// Kept is where runs and programs are kept.
type Kept struct {
	Runs    *run.Service
	Records *record.Service
	Outside Outside
}

// Access is what a program is allowed and given.
type Access struct {
	Policy Policy
	Keys   Keys
	SDK    SDK
	Files  Files
	Tools  Catalogue
	// Functions are the server's own; a program is lent some.
	Functions Functions
	// Flat has the functions that programs of everybody have; nil for none.
	Flat Flat
	// API answers the calls of programs as it answers any other.
	API http.Handler
}

// Module is the wired package.
type Module struct{ Service *Service }

// New wires the module and starts nothing.
func New(d Deps) *Module {
	return &Module{Service: &Service{deps: d, work: newWork(), keeping: settleTimeout}}
}

// maxBody is the largest request: the longest program, escaped.
const maxBody = 4 * sandbox.MaxCode

// Register adds the module's routes.
func (m *Module) Register(api *httpapi.API) {
	m.registerOutside(api)
	httpapi.Register(api, httpapi.Operation{
		ID: "execute-code", Method: http.MethodPost, Path: "/v1/sandbox/execute", Tag: "sandbox",
		Summary: "Run a program that may call tools",
		Description: "Runs Python, bash, JavaScript or TypeScript in a sandbox with the SDK as refly_tools, and answers when it has ended. Watch it live on " +
			"/v1/action/{resultId}/events; name a resultId of your own to know it beforehand. Ending the request ends the program; with background, it is answered at once, and the program goes on until it ends, or POST /v1/action/abort ends it.",
		Errors:    []errs.Code{errs.Forbidden, errs.ResultMissing, errs.CanvasMissing, errs.Conflict, errs.RateLimited, errs.Unavailable},
		BodyLimit: maxBody, Runs: true, Begins: httpapi.Always,
	}, m.execute)
}

type executeInput struct {
	Body struct {
		Code     string   `json:"code" minLength:"1" maxLength:"4194304" doc:"The program"`
		Language string   `json:"language" enum:"python,bash,javascript,typescript" doc:"Its language; the types of TypeScript are not checked"`
		Toolsets []string `json:"toolsets,omitempty" maxItems:"200" documented:"items.maxLength=64 items.pattern=^[^\\x00]*$" doc:"The only toolsets it may call; empty for all that the user may"`
		Timeout  int      `json:"timeout,omitempty" minimum:"1" maximum:"9000000000000" doc:"Wall-clock limit in milliseconds; the server has a default and a maximum"`
		ResultID string   `json:"resultId,omitempty" maxLength:"64" doc:"A running run to work in, or the id of a run to create"`
		CanvasID string   `json:"canvasId,omitempty" maxLength:"64" doc:"The canvas it belongs to; its files are in the program's folder, and what the program leaves there becomes one of them"`
		Title    string   `json:"title,omitempty" maxLength:"500" documented:"pattern=^[^\\x00]*$" doc:"Shown in lists"`
		Approval string   `json:"approval,omitempty" enum:"never,first,always" doc:"When its calls wait for a person, at least; what is stricter by itself stays so"`
		// Background lets the program outlive its request.
		Background bool `json:"background,omitempty" doc:"Answer as soon as it has begun, or waits for its turn, with status running; how it ends is in its run and its record"`
	}
}

func (m *Module) execute(ctx context.Context, who actor.Actor, in *executeInput) (Outcome, error) {
	req := Request{
		Code: in.Body.Code, Language: sandbox.Language(in.Body.Language), Toolsets: in.Body.Toolsets, Timeout: time.Duration(in.Body.Timeout) * time.Millisecond,
		ResultID: in.Body.ResultID, CanvasID: in.Body.CanvasID, Title: in.Body.Title, Approval: approval.Level(in.Body.Approval),
	}
	if !in.Body.Background {
		return m.Service.Execute(ctx, who, req)
	}
	started, err := m.Service.Start(ctx, who, req)
	return Outcome{
		ResultID: started.ResultID, Version: started.Version, CallID: started.CallID, Status: running, ToolCalls: []ToolCall{}, Files: []File{}, Warnings: []string{},
	}, err
}
