package tool

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
)

type controller struct{ service *Service }

// What a sandbox reaches: the route of the main job, and that of outputs that
// are read again.
const (
	ExecutePath = "/v1/tool/execute"
	OutputPath  = "/v1/tool/call/output"
)

func (c controller) register(api *httpapi.API) {
	httpapi.RegisterStream(api, httpapi.Operation{
		ID: "execute-tool", Method: http.MethodPost, Path: ExecutePath, Tag: "tools", Access: httpapi.Tools,
		Summary: "Execute one tool",
		Description: "Identifies the tool, checks the arguments, executes it, records it and bills it once. A tool that fails is an " +
			"answer with status \"error\"; other problems have their HTTP status. A request repeated with the same Idempotency-Key is " +
			"answered from the record of the first; while that one still executes, the answer is 409 with Retry-After. data is whole, up to " +
			"TOOL_RESPONSE_CAP; a result over it is a failure. The key of a program counts with the id of that program only, while it executes.",
		Errors: []errs.Code{errs.Forbidden, errs.Conflict, errs.RateLimited, errs.Unavailable},
	}, c.execute)
	get := func(id, path, summary string, codes ...errs.Code) httpapi.Operation {
		return httpapi.Operation{ID: id, Method: http.MethodGet, Path: path, Tag: "tools", Summary: summary, Errors: codes}
	}
	httpapi.Register(api, get("get-tool-call", "/v1/tool/call/result", "The record of one call", errs.NotFound), c.call)
	output := get("get-tool-call-output", OutputPath,
		"The whole output of a call, also of one whose record is shortened; a program reads those of its run", errs.NotFound, errs.Conflict, errs.Unavailable)
	output.Access = httpapi.Tools
	httpapi.RegisterStream(api, output, c.output)
	file := get("get-tool-call-file", "/v1/tool/call/file", "A file that a call outside any canvas returned; it is kept for a day", errs.NotFound)
	file.Raw = httpapi.Description{Input: fileInput{}, Media: httpapi.AnyFile()}
	api.Raw(file, c.file)
	httpapi.Register(api, get("list-tool-calls-of-a-run", "/v1/cli/tool-call", "The calls of a run, in the order they were made", errs.ResultMissing), c.listOfRun)
	httpapi.Register(api, get("get-tool-call-for-display", "/v1/cli/tool-call/{callId}", "One call, with the time it took; long and private parts of it left out where asked for", errs.NotFound), c.display)
	httpapi.Register(api, get("list-tool-calls", "/v1/tool/calls", "The caller's calls, in the order they were made", errs.ResultMissing), c.list)
}

type executeInput struct {
	ParentID       string `header:"x-ptc-call-id" documented:"pattern=^[A-Za-z0-9:_.-]{0,128}$" doc:"The program that makes the call; sandboxes find it in REFLY_PTC_CALL_ID"`
	ResultID       string `header:"x-refly-result-id" documented:"pattern=^[A-Za-z0-9:_.-]{0,128}$" doc:"The run the call belongs to"`
	Version        string `header:"x-refly-result-version" documented:"pattern=^[0-9]{0,9}$" doc:"Version of the run; 0 if left out"`
	CanvasID       string `header:"x-refly-canvas-id" documented:"pattern=^[A-Za-z0-9:_.-]{0,128}$" doc:"The canvas that files are stored in"`
	IdempotencyKey string `header:"Idempotency-Key" documented:"pattern=^[!-~]{0,255}$" doc:"Unique for one intended call"`
	Body           executeBody
}

// executeBody ignores fields that it does not know: docs/wire/refly.md#executing-a-tool.
type executeBody struct {
	_          struct{}        `additionalProperties:"true"`
	ToolsetKey string          `json:"toolsetKey" minLength:"1" maxLength:"128" documented:"pattern=^[\\w.:/@()-]+$" example:"demo"`
	ToolName   string          `json:"toolName" minLength:"1" maxLength:"128" documented:"pattern=^[\\w.:/@()-]+$" example:"get_weather"`
	Arguments  json.RawMessage `json:"arguments,omitempty" documented:"type=object|null additionalProperties=true" doc:"The tool's parameters, an object"`
}

func (c controller) execute(ctx context.Context, who actor.Actor, in *executeInput) (Answer, *httpapi.Stream, error) {
	version, err := parseVersion("x-refly-result-version", in.Version)
	if err != nil {
		return Answer{}, nil, err
	}
	answer, whole, err := c.service.ExecuteWhole(ctx, who, Request{
		Toolset: in.Body.ToolsetKey, Tool: in.Body.ToolName, Arguments: in.Body.Arguments, IdempotencyKey: in.IdempotencyKey,
		Context: Context{ParentID: in.ParentID, ResultID: in.ResultID, Version: version, CanvasID: in.CanvasID},
	})
	if err != nil || whole == nil {
		return answer, nil, err
	}
	answer.Data, answer.Truncated = nil, nil
	rest, err := json.Marshal(answer)
	if err != nil {
		return answer, nil, errors.Join(err, whole.Close())
	}
	return answer, stream(`{"data":`, whole, ","+string(rest[1:])), nil
}

// stream is a whole output between two texts.
func stream(before string, whole *Whole, after string) *httpapi.Stream {
	return &httpapi.Stream{
		Size: int64(len(before)+len(after)) + whole.Bytes,
		WriteTo: func(w io.Writer) error {
			defer func() { _ = whole.Close() }() // it was only read
			if _, err := io.WriteString(w, before); err != nil {
				return err
			}
			if _, err := io.CopyN(w, whole, whole.Bytes); err != nil {
				return err
			}
			_, err := io.WriteString(w, after)
			return err
		},
	}
}

func parseVersion(name, text string) (*int, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no version is a value
	}
	v, err := strconv.ParseInt(text, 10, 32)
	if err != nil || v < 0 {
		return nil, errs.Newf(errs.Invalid, "%s is not a version number.", name).Do("Send a whole number from 0, or leave it out.")
	}
	return new(int(v)), nil
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
	return callAnswer{Result: toBody(call)}, nil
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
	return nil, stream("", whole, ""), nil
}

type fileInput struct {
	CallID string `query:"toolCallId" required:"true" minLength:"1" maxLength:"128" doc:"The call"`
	Name   string `query:"name" required:"true" minLength:"1" maxLength:"256" doc:"The file's name, as the result has it"`
}

func (c controller) file(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	f, err := c.service.File(r.Context(), who, r.URL.Query().Get("toolCallId"), r.URL.Query().Get("name"))
	if err != nil {
		return err
	}
	httpapi.Download(w.Header(), f.Name, f.Type)
	_, err = w.Write(f.Content)
	return err
}

type listInput struct {
	httpapi.PageQuery
	ResultID string `query:"resultId" maxLength:"64" doc:"Only calls of this run"`
	Version  string `query:"version" documented:"pattern=^[0-9]{0,9}$" doc:"Only calls of this version of the run"`
}

func (c controller) list(ctx context.Context, who actor.Actor, in *listInput) (httpapi.Page[callBody], error) {
	version, err := parseVersion("version", in.Version)
	if err != nil {
		return httpapi.Page[callBody]{}, err
	}
	page, err := c.service.List(ctx, who, Filter{ResultID: in.ResultID, Version: version}, in.PageQuery)
	return httpapi.MapPage(page, toBody), err
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
	Input     json.RawMessage `json:"input"`
	Output    json.RawMessage `json:"output,omitempty"`
	Error     string          `json:"error"`
	Status    string          `json:"status" enum:"executing,completed,failed"`
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
