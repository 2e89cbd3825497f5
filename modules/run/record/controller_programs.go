package record

import (
	"context"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/run"
)

type programsInput struct {
	ResultID string `path:"resultId" maxLength:"64" doc:"The run"`
	Version  string `query:"version" documented:"pattern=^[0-9]{0,9}$" doc:"Which execution under the result id; the newest when left out"`
	Cursor   string `query:"cursor" maxLength:"64" documented:"pattern=^[A-Za-z0-9_-]*$" doc:"nextCursor of the page before; empty for the first"`
}

// programBody is a program of a run. Times are milliseconds since 1970.
type programBody struct {
	CallID    string              `json:"callId"`
	Code      string              `json:"code"`
	Language  string              `json:"language"`
	Toolsets  []string            `json:"toolsets" nullable:"false" doc:"The only ones it may call; empty for all"`
	Selected  map[string][]string `json:"selectedTools,omitempty" doc:"The only tools of a toolset that it may call, by the toolset's key"`
	CanvasID  string              `json:"canvasId,omitempty"`
	TimeoutMS int64               `json:"timeoutMs,omitempty" doc:"Its wall-clock limit; absent where it is not known"`
	Status    string              `json:"status" enum:"waiting,executing,completed,failed"`
	Ended     string              `json:"ended,omitempty" doc:"How it ended, such as completed, failed or timed_out"`
	Error     string              `json:"error,omitempty" doc:"Why it failed"`
	ErrorCode string              `json:"errorCode,omitempty"`
	Stdout    string              `json:"stdout"`
	Stderr    string              `json:"stderr"`
	Cut       bool                `json:"cut" doc:"The output is not whole here"`
	Ref       string              `json:"output,omitempty" doc:"Where a longer output is, if it is cut and more of it is kept"`
	ExitCode  *int                `json:"exitCode,omitempty" doc:"Absent while it executes"`
	Calls     int64               `json:"calls" doc:"Calls that it made"`
	CreatedAt int64               `json:"createdAt" doc:"Milliseconds since 1970"`
	EndedAt   int64               `json:"endedAt,omitempty" doc:"Milliseconds since 1970; absent while it executes"`
}

func (c controller) programs(ctx context.Context, who actor.Actor, in *programsInput) (httpapi.Page[programBody], error) {
	version, err := run.ParseVersion("version", in.Version)
	if err != nil {
		return httpapi.Page[programBody]{}, err
	}
	page, err := c.service.Programs(ctx, who, in.ResultID, version, in.Cursor)
	return httpapi.MapPage(page, toProgramBody), err
}

func toProgramBody(p RunProgram) programBody {
	b := programBody{
		CallID: p.CallID, Code: p.Given.Code, Language: p.Given.Language, Toolsets: p.Given.Toolsets, Selected: p.Given.Selected, CanvasID: p.CanvasID,
		TimeoutMS: p.Given.TimeoutMS, Status: string(p.Status), Ended: p.Ended, Error: p.Error, ErrorCode: p.ErrorCode, Stdout: p.Stdout, Stderr: p.Stderr,
		Cut: p.Cut, Ref: p.Ref, ExitCode: p.ExitCode, Calls: p.Calls, CreatedAt: p.CreatedAt.UnixMilli(),
	}
	if b.Toolsets == nil {
		b.Toolsets = []string{}
	}
	if !p.EndedAt.IsZero() {
		b.EndedAt = p.EndedAt.UnixMilli()
	}
	return b
}
