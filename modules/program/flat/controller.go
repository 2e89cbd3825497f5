package flat

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/tool"
)

// Paths of the routes, which programs reach at their own gateway, too.
const (
	CallPath  = "/tool_call"
	QueryPath = "/llm_query"
)

type controller struct{ service *Service }

const asProgram = " The key of a program counts with the id of that program only, while it executes; x-ptc-call-id names it."

func (c controller) register(api *httpapi.API) {
	failures := []errs.Code{errs.Forbidden, errs.NotFound, errs.Conflict, errs.NoCredits, errs.RateLimited, errs.Unavailable, errs.ToolFailed}
	api.Raw(httpapi.Operation{
		ID: "call-function", Method: http.MethodPost, Path: CallPath, Tag: "functions", Access: httpapi.Tools,
		Summary: "Call a tool that programs have as a plain function",
		Description: "Takes the name of the function and its arguments, and answers with the result alone. Whatever went wrong has an HTTP status: 404 names the functions " +
			"that there are, 400 the field that does not fit, 502 says why the tool failed." + asProgram,
		Errors: failures, Raw: httpapi.Description{Input: callInput{}, Body: functionCall{}, Answers: []any{functionResult{}}},
	}, c.call)
	api.Raw(httpapi.Operation{
		ID: "ask-model", Method: http.MethodPost, Path: QueryPath, Tag: "functions", Access: httpapi.Tools,
		Summary:     "Ask the model that programs ask",
		Description: "The model sees the prompt alone. Its answer is billed as that of a model, and recorded as a call." + asProgram,
		Errors:      failures, Raw: httpapi.Description{Input: callInput{}, Body: modelQuestion{}, Answers: []any{functionResult{}}},
	}, c.query)
	api.Raw(httpapi.Operation{
		ID: "get-function-stubs", Method: http.MethodGet, Path: "/v1/sandbox/stubs", Tag: "functions",
		Summary: "The functions as Python, for a sandbox that is not this server's",
		Description: "The text needs Python's standard library only. Run it in the sandbox before the program; the functions call back to this server with the key in the " +
			"environment variable PORTICO_API_KEY. Without callbackUrl they call http://host.docker.internal, the host of a container.",
		Errors: []errs.Code{errs.NotFound},
		Raw:    httpapi.Description{Input: stubsInput{}, Media: map[string]string{"text/x-python": "import json\n"}},
	}, c.stubs)
}

// callInput is the headers of a call, as executing a tool has them.
type callInput struct {
	ParentID       string `header:"x-ptc-call-id" documented:"pattern=^[A-Za-z0-9:_.-]{0,128}$" doc:"The program that makes the call; sandboxes find it in REFLY_PTC_CALL_ID"`
	ResultID       string `header:"x-refly-result-id" documented:"pattern=^[A-Za-z0-9:_.-]{0,128}$" doc:"The run the call belongs to"`
	Version        string `header:"x-refly-result-version" documented:"pattern=^[0-9]{0,9}$" doc:"Version of the run; 0 if left out"`
	CanvasID       string `header:"x-refly-canvas-id" documented:"pattern=^[A-Za-z0-9:_.-]{0,128}$" doc:"The canvas whose files the call may read"`
	IdempotencyKey string `header:"Idempotency-Key" documented:"pattern=^[!-~]{0,255}$" doc:"Unique for one intended call"`
}

type functionCall struct {
	_        struct{}        `additionalProperties:"true"`
	Tool     string          `json:"tool,omitempty" maxLength:"64" example:"get_weather" doc:"The function"`
	ToolName string          `json:"tool_name,omitempty" maxLength:"64" example:"get_weather" doc:"The same; one of both is there"`
	Input    json.RawMessage `json:"input,omitempty" documented:"type=object|null additionalProperties=true" doc:"Its arguments by name, an object"`
}

type modelQuestion struct {
	_      struct{} `additionalProperties:"true"`
	Prompt string   `json:"prompt" minLength:"1" example:"Which of these words is a city? Rome, apple" doc:"The whole question, with everything that the model needs to know"`
}

type functionResult struct {
	Result json.RawMessage `json:"result" documented:"type=any" doc:"What the function returned, any JSON"`
}

// maxName is the longest name of a tool.
const maxName = 64

// callOf reads what a request claims about where it was made.
func callOf(r *http.Request) (Call, error) {
	version, err := run.ParseVersion("x-refly-result-version", r.Header.Get("x-refly-result-version"))
	return Call{
		IdempotencyKey: r.Header.Get("Idempotency-Key"),
		Context: tool.Context{
			ParentID: r.Header.Get("x-ptc-call-id"), ResultID: r.Header.Get("x-refly-result-id"), Version: version, CanvasID: r.Header.Get("x-refly-canvas-id"),
		},
	}, err
}

func (c controller) call(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	var body functionCall
	if err := httpapi.ReadJSON(r, &body); err != nil {
		return err
	}
	switch {
	case body.Tool == "" && body.ToolName == "":
		return errs.New(errs.Invalid, "tool is missing.").Do(`Send {"tool": NAME, "input": {…}}.`)
	case max(len(body.Tool), len(body.ToolName)) > maxName:
		return errs.Newf(errs.Invalid, "tool is too long: a name has at most %d characters.", maxName)
	case body.Tool != "" && body.ToolName != "" && body.Tool != body.ToolName:
		return errs.New(errs.Invalid, "tool and tool_name are two names for one thing, and differ.").Do("Send one of them.")
	}
	call, err := callOf(r)
	if err != nil {
		return err
	}
	call.Name, call.Input = body.Tool+body.ToolName, body.Input
	if body.Tool == body.ToolName {
		call.Name = body.Tool
	}
	return c.answer(w, r, who, call)
}

func (c controller) query(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	var body modelQuestion
	if err := httpapi.ReadJSON(r, &body); err != nil {
		return err
	}
	if body.Prompt == "" {
		return errs.New(errs.Invalid, "prompt is missing.").Do(`Send {"prompt": TEXT}.`)
	}
	if _, ok := c.service.deps.Functions.Find(Query); !ok {
		return ErrNoModel
	}
	call, err := callOf(r)
	if err != nil {
		return err
	}
	call.Name = Query
	if call.Input, err = json.Marshal(map[string]string{"prompt": body.Prompt}); err != nil {
		return err
	}
	return c.answer(w, r, who, call)
}

// answer writes the result of a call, whole.
func (c controller) answer(w http.ResponseWriter, r *http.Request, who actor.Actor, call Call) error {
	answer, whole, err := c.service.Execute(r.Context(), who, call)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	if whole != nil {
		return whole.Stream(`{"result":`, "}\n").WriteTo(w)
	}
	result := answer.Data
	if len(result) == 0 {
		result = json.RawMessage("null")
	}
	return json.NewEncoder(w).Encode(functionResult{Result: result})
}

type stubsInput struct {
	CallbackURL string `query:"callbackUrl" maxLength:"2048" example:"http://10.0.0.5:5800" doc:"Where the sandbox reaches this server; http://host.docker.internal:PORT when left out"`
	Local       bool   `query:"local" doc:"The sandbox is a process of this machine: http://127.0.0.1:PORT"`
}

func (c controller) stubs(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	q := r.URL.Query()
	local, err := strconv.ParseBool(cmp.Or(q.Get("local"), "false"))
	if err != nil || len(q["local"]) > 1 {
		return errs.New(errs.Invalid, "local is neither true nor false.").Do("Send local=true for a sandbox on the server's machine, or leave it out.")
	}
	text, err := c.service.Stubs(r.Context(), who, Callback{URL: q.Get("callbackUrl"), Local: local})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/x-python; charset=utf-8")
	_, err = io.WriteString(w, text)
	return err
}
