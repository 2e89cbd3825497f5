package agent

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/portico-run/portico/modules/internal/actor"
	"github.com/portico-run/portico/modules/internal/errs"
	"github.com/portico-run/portico/modules/internal/httpapi"
	"github.com/portico-run/portico/modules/model"
)

type invokeInput struct{ Body invokeBody }

// invokeBody takes the message as query, or inside input.
type invokeBody struct {
	Query string `json:"query,omitempty" maxLength:"200000" doc:"What the user says"`
	Input struct {
		Query string `json:"query,omitempty" maxLength:"200000"`
	} `json:"input,omitzero" doc:"The same, for clients that send it here"`
	Title      string   `json:"title,omitempty" maxLength:"500" doc:"Shown in lists; the PTC decision may look at it"`
	Toolsets   []string `json:"toolsets,omitempty" maxItems:"200" doc:"Keys of the toolsets that it may use"`
	ResultID   string   `json:"resultId,omitempty" maxLength:"64" doc:"The id of a run to create, or of an own run to run again"`
	CanvasID   string   `json:"canvasId,omitempty" maxLength:"64" doc:"The canvas it belongs to"`
	ToolChoice any      `json:"toolChoice,omitempty" doc:"auto, none, required, a function, or allowed tools"`
	History    []string `json:"history,omitempty" maxItems:"100" doc:"The resultIds of runs that this one continues, in order"`
	PTC        string   `json:"ptc,omitempty" enum:"auto,off,on" doc:"Programmatic tool calling: auto leaves it to the policy, off has the tools called plainly, on refuses the request where the policy says no"`
	Parallel   *bool    `json:"parallelToolCalls,omitempty" doc:"Whether the model may call several tools at once; true when left out"`
}

// maxQuery is the longest message of a user's, in characters.
const maxQuery = 200_000

func (b invokeBody) request() (Request, error) {
	req := Request{
		Query: b.Query, Title: b.Title, Toolsets: b.Toolsets, ResultID: b.ResultID, CanvasID: b.CanvasID, History: b.History,
		OneByOne: b.Parallel != nil && !*b.Parallel, Code: Code(b.PTC),
	}
	if req.Query == "" {
		req.Query = b.Input.Query
	}
	if utf8.RuneCountInString(req.Query) > maxQuery {
		return req, errs.Newf(errs.Invalid, "query must not be longer than %d characters.", maxQuery)
	}
	if strings.TrimSpace(req.Query) == "" {
		return req, errs.New(errs.Invalid, "query is empty.").Do(`Send what the user says, such as {"query":"What is the weather in Oslo?"}.`)
	}
	if !slices.Contains([]Code{"", CodeAuto, CodeOff, CodeOn}, req.Code) {
		return req, errs.Newf(errs.Invalid, "ptc %q is not auto, off or on.", b.PTC)
	}
	if b.ToolChoice != nil {
		raw, err := json.Marshal(b.ToolChoice)
		if err == nil {
			req.Choice, err = model.Choice(raw)
		}
		if err != nil {
			return req, errs.New(errs.Invalid, "toolChoice is not understood.").Do(err.Error())
		}
	}
	return req, nil
}

type startedBody struct {
	ResultID string `json:"resultId"`
	Version  int    `json:"version"`
}

func (m *Module) invoke(ctx context.Context, who actor.Actor, in *invokeInput) (startedBody, error) {
	req, err := in.Body.request()
	if err != nil {
		return startedBody{}, err
	}
	r, err := m.Service.Invoke(ctx, who, req)
	return startedBody{r.ResultID, r.Version}, err
}

func (m *Module) streamInvoke(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	var body invokeBody
	if err := httpapi.ReadJSON(r, &body); err != nil {
		return err
	}
	req, err := body.request()
	if err != nil {
		return err
	}
	started, err := m.Service.Invoke(r.Context(), who, req)
	if err != nil {
		return err
	}
	return m.Service.Streams.Watch(w, r, who, started.ResultID, &started.Version, 0)
}

type abortInput struct {
	Body struct {
		ResultID string `json:"resultId" minLength:"1" maxLength:"64" doc:"The run"`
		Version  *int   `json:"version,omitempty" minimum:"0" doc:"Which execution; the newest when left out"`
	}
}

type abortedBody struct {
	Aborted bool `json:"aborted" doc:"False when it had ended before"`
}

func (m *Module) abort(ctx context.Context, who actor.Actor, in *abortInput) (abortedBody, error) {
	aborted, err := m.Service.Abort(ctx, who, in.Body.ResultID, in.Body.Version)
	return abortedBody{aborted}, err
}
