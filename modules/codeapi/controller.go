package codeapi

import (
	"encoding/json"
	"net/http"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/codeapi/execution"
	"github.com/portico-run/portico/modules/codeapi/session"
)

type controller struct {
	sessions   *session.Service
	executions *execution.Service
	settings   Settings
}

const tag = "code interpreter"

// The headers of docs/wire/code-interpreter.md#headers.
const (
	headerRequest         = "X-LibreChat-Code-Request-ID"
	headerExpectedProfile = "X-CodeAPI-Expected-Profile"
	headerProfile         = "X-CodeAPI-Execution-Profile"
	defaultProfile        = "default"
)

// maxBody is the largest JSON body, in bytes: the results of a round.
const maxBody = 64 << 20

// codeHealth is the answer of a server that works.
type codeHealth struct {
	Status string `json:"status" enum:"ok"`
}

// profileInput describes the headers that all of the operations read.
type profileInput struct {
	Profile string `header:"X-CodeAPI-Expected-Profile" enum:"default," doc:"Which kind of execution the caller expects; another one is refused with 409"`
}

// requestInput describes those of programs with tools.
type requestInput struct {
	profileInput
	RequestID string `header:"X-LibreChat-Code-Request-ID" doc:"Names the request, for its cancellation"`
}

type handler func(w http.ResponseWriter, r *http.Request, who actor.Actor) error

// What the document says of members that exclude each other or belong together.
const (
	// A version of what is no skill.
	neverVersion = `{"required":["files"],"properties":{"files":{"type":"array","contains":{"type":"object","required":["version"],
		"properties":{"version":{"not":{"enum":["",null]}},"kind":{"not":{"const":"skill"}}}}}}}`
	noCode = `"code":{"type":["string","null"],"pattern":"^\\s*$"}`
	// No program.
	neverWithoutCode = `{"anyOf":[` + neverVersion + `,{"properties":{` + noCode + `}}]}`
	// Neither a program nor the token of one that waits.
	neverWithTools = `{"anyOf":[` + neverVersion + `,{"properties":{"continuation_token":{"type":"null"},` + noCode + `}}]}`
)

func (c controller) register(api *httpapi.API) {
	raw := func(op httpapi.Operation, fn handler) {
		op.Aliases, op.Path = []string{op.Path}, "/v1"+op.Path
		op.Tag, op.Refusal, op.Trusted, op.Access = tag, refusal, true, httpapi.Code
		api.Raw(op, profiled(fn))
	}
	raw(httpapi.Operation{
		ID: "exec", Method: http.MethodPost, Path: "/exec", Summary: "Run a program to its end",
		Description: "Python, bash, JavaScript or TypeScript, in /mnt/data with the files that the request names and those of the session it continues. " +
			"A program that fails is an answer: its traceback is in stderr.",
		Raw: httpapi.Description{Input: profileInput{}, Body: codeProgram{Lang: "py", Code: "print(6 * 7)"}, Answers: []any{codeEnded{}}}, BodyLimit: maxBody,
		Never: json.RawMessage(neverWithoutCode), Begins: httpapi.Always,
		Errors: []errs.Code{errs.Conflict, errs.RateLimited, errs.Unavailable},
	}, c.exec)
	raw(httpapi.Operation{
		ID: "exec-programmatic", Method: http.MethodPost, Path: "/exec/programmatic", Summary: "Run a program whose tools the caller executes",
		Description: "Answers tool_call_required with the calls the program waits for, and a continuation_token. Send the token with " +
			"tool_results to the same address. The program stays alive while it waits; its time limit counts while its code runs. " +
			"In bash, a tool that fails ends the script unless the script asks whether it failed (tool '{}' || …, if tool '{}'; …).",
		Raw: httpapi.Description{
			Input: requestInput{}, Answers: []any{codePaused{}, codeOver{}},
			Body: codeProgramWithTools{Code: "print(await get_weather(city='Rome'))", Tools: []callerTool{{Name: "get_weather", Description: "The weather in a city"}}},
		}, BodyLimit: maxBody, Never: json.RawMessage(neverWithTools), Begins: begins,
		Errors: []errs.Code{errs.NotFound, errs.TimedOut, errs.Conflict, errs.RateLimited, errs.Unavailable},
	}, c.programmatic)
	raw(httpapi.Operation{
		ID: "cancel-programmatic", Method: http.MethodPost, Path: "/exec/programmatic/cancel", Summary: "End a program by the id of its request",
		Description: "The id is that of the header " + headerRequest + ". 202 when the program was ended: no line of it runs any more. 200 when there is none.",
		Raw: httpapi.Description{
			Input: profileInput{}, Body: cancelBody{}, Answers: []any{cancelledBody{}}, Statuses: map[int]string{http.StatusAccepted: "The program was ended"},
		},
		Errors: []errs.Code{errs.Conflict},
	}, c.cancel)
	c.registerFiles(raw)
	api.Raw(httpapi.Operation{
		ID: "code-health", Method: http.MethodGet, Path: "/v1/health", Aliases: []string{"/health"}, Tag: tag,
		Summary: "Whether the server answers", Access: httpapi.Public, Raw: httpapi.Description{Answers: []any{codeHealth{Status: "ok"}}},
	}, func(w http.ResponseWriter, _ *http.Request, _ actor.Actor) error {
		return write(w, http.StatusOK, codeHealth{Status: "ok"})
	})
}

// begins implements httpapi.Begins for programs whose tools the caller executes.
func begins(body []byte) (begins, pauses bool) {
	var head struct {
		Token *string           `json:"continuation_token"`
		Tools []json.RawMessage `json:"tools"`
	}
	err := json.Unmarshal(body, &head)
	return err == nil && head.Token == nil, len(head.Tools) > 0
}

// profiled says which kind of execution this is: every program is alone.
func profiled(fn handler) handler {
	return func(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
		w.Header().Set(headerProfile, defaultProfile)
		if asked := r.Header.Get(headerExpectedProfile); asked != "" && asked != defaultProfile {
			return errs.New(errs.Conflict, "execution_profile_mismatch").Do("This server runs the profile default only.")
		}
		if err := ownWorker(r, who); err != nil {
			return err
		}
		return fn(w, r, who)
	}
}

func write(w http.ResponseWriter, status int, body any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a caller that is gone
	return nil
}

func (c controller) exec(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	var body codeProgram
	if err := httpapi.ReadJSON(r, &body); err != nil {
		return err
	}
	req, err := body.request()
	if err != nil {
		return err
	}
	result, err := c.executions.Exec(r.Context(), who, req)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, toCodeEnded(result))
}

func (c controller) programmatic(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	var body codeProgramWithTools
	if err := httpapi.ReadJSON(r, &body); err != nil {
		return err
	}
	var reply execution.Reply
	var err error
	if body.ContinuationToken != nil {
		reply, err = c.executions.Continue(r.Context(), who, *body.ContinuationToken, body.results(), r.Header.Get(headerRequest))
	} else {
		var req execution.ProgramRequest
		if req, err = body.request(r.Header.Get(headerRequest)); err == nil {
			req.Phrases = c.phrases(r, body)
			reply, err = c.executions.Start(r.Context(), who, req)
		}
	}
	if err != nil {
		return err
	}
	status, answer := c.answer(reply)
	return write(w, status, answer)
}

type cancelBody struct {
	_         struct{} `additionalProperties:"true"`
	RequestID string   `json:"request_id"`
}

type cancelledBody struct {
	Status string `json:"status" enum:"cancellation_requested,already_completed"`
}

func (c controller) cancel(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	var body cancelBody
	if err := httpapi.ReadJSON(r, &body); err != nil {
		return err
	}
	cancelled, err := c.executions.Cancel(r.Context(), who, body.RequestID)
	switch {
	case err != nil:
		return err
	case cancelled:
		return write(w, http.StatusAccepted, cancelledBody{"cancellation_requested"})
	}
	return write(w, http.StatusOK, cancelledBody{"already_completed"})
}
