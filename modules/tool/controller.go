package tool

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
)

type controller struct{ service *Service }

// ExecutePath is the route of the main job.
const ExecutePath = "/v1/tool/execute"

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
	api.Raw(httpapi.Operation{
		ID: "get-tool-call-file", Method: http.MethodGet, Path: "/v1/tool/call/file", Tag: "tools",
		Summary: "A file that a call outside any canvas returned; it is kept for a day", Errors: []errs.Code{errs.NotFound},
		Raw: httpapi.Description{Input: fileInput{}, Media: httpapi.AnyFile()},
	}, c.file)
	httpapi.Register(api, httpapi.Operation{
		ID: "get-tool-call-for-display", Method: http.MethodGet, Path: "/v1/cli/tool-call/{callId}", Tag: "tools",
		Summary: "One call, with the time it took; long and private parts of it left out where asked for", Errors: []errs.Code{errs.NotFound},
	}, c.display)
}

type executeInput struct {
	ParentID       string `header:"x-ptc-call-id" documented:"pattern=^[A-Za-z0-9:_.-]{0,128}$" doc:"The program that makes the call; sandboxes find it in REFLY_PTC_CALL_ID"`
	ResultID       string `header:"x-refly-result-id" documented:"pattern=^[A-Za-z0-9:_.-]{0,128}$" doc:"The run the call belongs to"`
	Version        string `header:"x-refly-result-version" documented:"pattern=^[0-9]{0,9}$" doc:"Version of the run; 0 if left out"`
	Line           string `header:"x-ptc-line" documented:"pattern=^[0-9]{0,7}$" doc:"The line of the program that makes the call, from 1 to 1000000, to be shown; what is no such number is not kept"`
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

func (c controller) execute(ctx context.Context, who actor.Actor, in *executeInput) (record.Answer, *httpapi.Stream, error) {
	version, err := run.ParseVersion("x-refly-result-version", in.Version)
	if err != nil {
		return record.Answer{}, nil, err
	}
	answer, whole, err := c.service.Execute(ctx, who, Request{
		Toolset: in.Body.ToolsetKey, Tool: in.Body.ToolName, Arguments: in.Body.Arguments, IdempotencyKey: in.IdempotencyKey,
		Context: Context{ParentID: in.ParentID, ResultID: in.ResultID, Version: version, CanvasID: in.CanvasID, Line: parseLine(in.Line)},
	})
	if err != nil || whole == nil {
		return answer, nil, err
	}
	answer.Data, answer.Truncated = nil, nil
	rest, err := json.Marshal(answer)
	if err != nil {
		return answer, nil, errors.Join(err, whole.Close())
	}
	return answer, whole.Stream(`{"data":`, ","+string(rest[1:])), nil
}

// maxLine is the last line of a program that is kept.
const maxLine = 1_000_000

// parseLine reads the line of a program, which is only shown: what is none is 0 and
// fails no call.
func parseLine(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxLine {
		return 0
	}
	return n
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
