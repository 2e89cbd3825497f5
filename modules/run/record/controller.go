package record

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/run"
)

type controller struct{ service *Service }

func (c controller) register(api *httpapi.API) {
	get := func(id, path, summary string, codes ...errs.Code) httpapi.Operation {
		return httpapi.Operation{ID: id, Method: http.MethodGet, Path: path, Tag: "tools", Summary: summary, Errors: codes}
	}
	httpapi.Register(api, get("get-tool-call", "/v1/tool/call/result", "The record of one call", errs.NotFound), c.call)
	output := get("get-tool-call-output", OutputPath,
		"The whole output of a call, also of one whose record is shortened; a program reads those of its run", errs.NotFound, errs.Conflict, errs.Unavailable)
	output.Access = httpapi.Tools
	httpapi.RegisterStream(api, output, c.output)
	httpapi.Register(api, get("list-tool-calls-of-a-run", "/v1/cli/tool-call", "The calls of a run, in the order they were made", errs.ResultMissing), c.listOfRun)
	programs := get("list-programs-of-a-run", "/v1/action/{resultId}/programs", "The programs of a run, in the order in which they began", errs.ResultMissing)
	programs.Tag = "action"
	programs.Description = "With what it takes to run each again, and its output as it is recorded. A page has 20 programs at most, and fewer where they are large."
	httpapi.Register(api, programs, c.programs)
	httpapi.Register(api, get("list-tool-calls", "/v1/tool/calls", "The caller's calls, in the order they were made", errs.ResultMissing), c.list)
}

type callInput struct {
	CallID string `query:"toolCallId" required:"true" minLength:"1" maxLength:"128"`
}

type callAnswer struct {
	Result callBody `json:"result"`
}

func (c controller) call(ctx context.Context, who actor.Actor, in *callInput) (callAnswer, error) {
	call, err := c.service.Call(ctx, who, in.CallID)
	if err != nil {
		return callAnswer{}, err
	}
	sums, err := c.service.Summaries(ctx, who, []string{call.CallID})
	body := toBody(call)
	body.cost(sums[call.CallID])
	return callAnswer{Result: body}, err
}

type outputInput struct {
	CallID    string `query:"toolCallId" required:"true" minLength:"1" maxLength:"128"`
	ProgramID string `header:"x-ptc-call-id" documented:"pattern=^[A-Za-z0-9:_.-]{0,128}$" doc:"The program that asks; with the key of a program only"`
}

func (c controller) output(ctx context.Context, who actor.Actor, in *outputInput) (json.RawMessage, *httpapi.Stream, error) {
	data, whole, err := c.service.OpenOutput(ctx, who, in.CallID, in.ProgramID)
	if err != nil || whole == nil {
		return data, nil, err
	}
	return nil, whole.Stream("", ""), nil
}

type listInput struct {
	httpapi.PageQuery
	ResultID string    `query:"resultId" maxLength:"64" doc:"Only calls of this run"`
	Version  string    `query:"version" documented:"pattern=^[0-9]{0,9}$" doc:"Only calls of this version of the run"`
	ParentID string    `query:"parentId" maxLength:"128" doc:"Only calls of this program"`
	Line     int       `query:"line" minimum:"1" maximum:"1000000" doc:"Only calls of this line of their program"`
	Status   string    `query:"status" enum:"waiting,executing,completed,failed" doc:"Only calls in this state"`
	Toolset  string    `query:"toolset" maxLength:"128" doc:"Only calls of this toolset"`
	Tool     string    `query:"tool" maxLength:"128" doc:"Only calls of tools of this name"`
	From     time.Time `query:"from" doc:"Only calls that began from this moment on"`
	Until    time.Time `query:"until" doc:"Only calls that began before this moment"`
	Payload  bool      `query:"payload" default:"true" doc:"With false, arguments has the beginning of what was asked, and input and output are left out"`
}

func (c controller) list(ctx context.Context, who actor.Actor, in *listInput) (httpapi.Page[callBody], error) {
	version, err := run.ParseVersion("version", in.Version)
	if err != nil {
		return httpapi.Page[callBody]{}, err
	}
	f := Filter{
		ResultID: in.ResultID, Version: version, ParentID: in.ParentID, Line: in.Line, Status: Status(in.Status), Toolset: in.Toolset, Tool: in.Tool,
		From: in.From, Until: in.Until,
	}
	if !in.Payload {
		page, err := c.service.ListSummaries(ctx, who, f, in.PageQuery)
		return httpapi.MapPage(page, toSummaryBody), err
	}
	page, err := c.service.List(ctx, who, f, in.PageQuery)
	if err != nil {
		return httpapi.Page[callBody]{}, err
	}
	callIDs := make([]string, len(page.Items))
	for i, call := range page.Items {
		callIDs[i] = call.CallID
	}
	sums, err := c.service.Summaries(ctx, who, callIDs)
	return httpapi.MapPage(page, func(call Call) callBody {
		body := toBody(call)
		body.cost(sums[call.CallID])
		return body
	}), err
}

type runCallsInput struct {
	httpapi.PageQuery
	ResultID string `query:"resultId" required:"true" minLength:"1" maxLength:"64" doc:"The run"`
	Version  string `query:"version" documented:"pattern=^[0-9]{0,9}$" doc:"Which execution under the result id; the newest when left out"`
}

type runCallsBody struct {
	ToolCalls  []callBody `json:"toolCalls" nullable:"false"`
	Version    int        `json:"version"`
	NextCursor string     `json:"nextCursor,omitempty" doc:"Set when there is more"`
	Total      *int64     `json:"total,omitempty" doc:"Calls of the run, where page or pageSize was sent"`
}

func (c controller) listOfRun(ctx context.Context, who actor.Actor, in *runCallsInput) (runCallsBody, error) {
	version, err := run.ParseVersion("version", in.Version)
	if err != nil {
		return runCallsBody{}, err
	}
	r, err := c.service.runs.Get(ctx, who, in.ResultID, version)
	if err != nil {
		return runCallsBody{}, err
	}
	page, err := c.service.List(ctx, who, Filter{ResultID: r.ResultID, Version: &r.Version}, in.PageQuery)
	calls := httpapi.MapPage(page, toBody)
	return runCallsBody{ToolCalls: calls.Items, Version: r.Version, NextCursor: calls.NextCursor, Total: calls.Total}, err
}

// callBody is the record of a call: docs/wire/refly.md#records-of-calls.
// Times are milliseconds since 1970.
type callBody struct {
	CallID    string          `json:"callId"`
	ParentID  string          `json:"ptcCallId,omitempty"`
	Type      string          `json:"type" enum:"agent,ptc,standalone"`
	UID       string          `json:"uid"`
	ResultID  string          `json:"resultId"`
	Version   int             `json:"version"`
	ToolsetID string          `json:"toolsetId"`
	ToolName  string          `json:"toolName"`
	StepName  string          `json:"stepName"`
	Line      int             `json:"line,omitempty" doc:"The line of its program that made it, as the program says it"`
	Credits   string          `json:"credits,omitempty" doc:"What was charged; absent where nothing was" example:"0.02"`
	Bytes     *int64          `json:"bytes,omitempty" doc:"Size of the whole result; of a program, of what it printed"`
	Tokens    *int64          `json:"tokens,omitempty" doc:"About how many tokens the result has: a quarter of its bytes"`
	Arguments string          `json:"arguments,omitempty" doc:"Where input is left out, the first 160 characters of the arguments; a text that is cut ends with …"`
	Input     json.RawMessage `json:"input,omitempty"`
	Output    json.RawMessage `json:"output,omitempty"`
	Error     string          `json:"error"`
	Status    string          `json:"status" enum:"waiting,executing,completed,failed"`
	CreatedAt int64           `json:"createdAt"`
	UpdatedAt int64           `json:"updatedAt"`
}

func toBody(c Call) callBody {
	return callBody{
		CallID: c.CallID, ParentID: c.ParentID, Type: string(c.Origin), UID: c.UID, ResultID: c.ResultID, Version: c.Version,
		ToolsetID: c.Toolset, ToolName: c.Tool, StepName: c.StepName, Input: c.Input, Output: c.Output, Error: c.Error,
		Status: string(c.Status), CreatedAt: c.CreatedAt.UnixMilli(), UpdatedAt: c.UpdatedAt.UnixMilli(),
	}
}

// cost adds what a call cost and how large its result is.
func (b *callBody) cost(s Summary) {
	b.Line, b.Bytes = s.Line, s.Bytes
	if s.Credits != nil {
		b.Credits = s.Credits.String()
	}
	if s.Bytes != nil {
		b.Tokens = new(run.Tokens(*s.Bytes))
	}
}

func toSummaryBody(s Summary) callBody {
	b := callBody{
		CallID: s.CallID, ParentID: s.ParentID, Type: string(s.Origin), UID: s.UID, ResultID: s.ResultID, Version: s.Version, ToolsetID: s.Toolset,
		ToolName: s.Tool, StepName: s.StepName, Arguments: s.Arguments, Error: s.Error, Status: string(s.Status),
		CreatedAt: s.CreatedAt.UnixMilli(), UpdatedAt: s.UpdatedAt.UnixMilli(),
	}
	b.cost(s)
	return b
}
