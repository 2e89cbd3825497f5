package program

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/outside"
	"github.com/portico-run/portico/modules/run/record"
)

// How long a service may execute a program, unless it finishes it earlier.
const (
	outsideTime    = time.Hour
	maxOutsideTime = 24 * time.Hour
)

func (m *Module) registerOutside(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "register-action", Method: http.MethodPost, Path: "/v1/action/register", Tag: "action",
		Summary: "Register a run, and a program in it, that a service of yours executes",
		Description: "For sandboxes beside this server: what they run calls tools with POST /v1/tool/execute, with the answered toolCallId as x-ptc-call-id and " +
			"the resultId as x-refly-result-id, and is watched on /v1/action/{resultId}/events as any run. Several programs may be registered in a run; the same " +
			"request again answers the same. End each with POST /v1/action/finish: what nobody finishes fails at expiresAt, which calls do not prolong.",
		Errors: []errs.Code{errs.Forbidden, errs.ResultMissing, errs.CanvasMissing, errs.Conflict, errs.RateLimited}, BodyLimit: maxBody, Runs: true,
		Never: json.RawMessage(neverRegistered),
	}, m.registerAction)
	httpapi.Register(api, httpapi.Operation{
		ID: "finish-action", Method: http.MethodPost, Path: "/v1/action/finish", Tag: "action",
		Summary: "End a run, or a program in it, that a service of yours executed",
		Description: "With toolCallId it ends that program, otherwise the run with every program that is left in it. Calls of it that execute are waited for and new ones " +
			"refused; while some take long, the answer is 409 with Retry-After. An aborted run ends at once. The same request again answers the same.",
		Errors: []errs.Code{errs.NotFound, errs.ResultMissing, errs.Conflict}, Never: json.RawMessage(neverFinished), Runs: true,
	}, m.finishAction)
}

// What the document says of members that exclude each other or belong together.
const (
	// A key without a program, and an id that is the server's.
	neverRegistered = `{"anyOf":[
		{"required":["withKey"],"properties":{"withKey":{"const":true},"toolCallId":{"enum":["",null]},"code":{"enum":["",null]}}},
		{"required":["toolCallId"],"properties":{"toolCallId":{"type":"string","pattern":"^(ptc|standalone)[:_]` + uuid + `$"}}}]}`
	uuid = `[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}`
	// An output without a program, and an error of what finished well.
	neverFinished = `{"anyOf":[
		{"required":["output"],"properties":{"toolCallId":{"enum":["",null]}}},
		{"required":["error"],"properties":{"status":{"const":"finish"},"error":{"type":"string","minLength":1}}}]}`
)

type registerInput struct {
	Body struct {
		ResultID   string   `json:"resultId,omitempty" maxLength:"64" doc:"The run; made when left out"`
		Version    int      `json:"version,omitempty" minimum:"0" maximum:"2147483647" doc:"Which execution under the result id"`
		Title      string   `json:"title,omitempty" maxLength:"500" documented:"pattern=^[^\\x00]*$" doc:"Shown in lists"`
		CanvasID   string   `json:"canvasId,omitempty" maxLength:"64" doc:"The canvas it belongs to; made known to this server under that id where it is not yet"`
		Toolsets   []string `json:"toolsets,omitempty" maxItems:"200" documented:"items.maxLength=64 items.pattern=^[^\\x00]*$" doc:"The only toolsets it may call; empty for all that the user may"`
		ToolCallID string   `json:"toolCallId,omitempty" maxLength:"128" documented:"pattern=^([A-Za-z0-9][A-Za-z0-9:_.-]*)?$" example:"outside-1" doc:"Your id of the program, such as a UUID; made when left out. Without it and without code, only the run is registered"`
		Code       string   `json:"code,omitempty" maxLength:"4194304" doc:"The program, for those who watch"`
		Language   string   `json:"language,omitempty" maxLength:"32" doc:"python when left out"`
		TTLSeconds int      `json:"ttlSeconds,omitempty" minimum:"1" maximum:"86400" doc:"When it fails unless it was finished; 3600 when left out"`
		WithKey    bool     `json:"withKey,omitempty" doc:"Answer an API key for the program: it executes tools only, together with the id of an executing program, until the program ends. Each time it is asked for, the one before ends"`
	}
}

type registeredBody struct {
	ResultID   string    `json:"resultId"`
	Version    int       `json:"version"`
	ToolCallID string    `json:"toolCallId,omitempty" doc:"Of the program; absent when only the run was registered"`
	ExpiresAt  time.Time `json:"expiresAt" doc:"When it fails unless it was finished"`
	APIKey     string    `json:"apiKey,omitempty" doc:"With withKey; shown this once"`
}

func (m *Module) registerAction(ctx context.Context, who actor.Actor, in *registerInput) (registeredBody, error) {
	b := in.Body
	ttl := outsideTime
	if b.TTLSeconds > 0 {
		ttl = min(time.Duration(b.TTLSeconds)*time.Second, maxOutsideTime)
	}
	p := outside.Registration{Time: ttl, CallID: b.ToolCallID, Run: run.OutsideParams{
		ResultID: b.ResultID, Version: b.Version, Title: b.Title, CanvasID: b.CanvasID, Toolsets: b.Toolsets,
	}}
	if b.ToolCallID != "" || b.Code != "" {
		p.Program = &record.ProgramInput{Code: b.Code, Language: b.Language, Toolsets: b.Toolsets}
	} else if b.WithKey {
		return registeredBody{}, errs.New(errs.Invalid, "A key belongs to a program.").Do("Send toolCallId or code, or leave withKey out.")
	}
	return m.Service.registerOutside(ctx, who, p, b.WithKey)
}

func (s *Service) registerOutside(ctx context.Context, a actor.Actor, p outside.Registration, withKey bool) (registeredBody, error) {
	if err := s.decide(ptc.Question{UID: a.UID, Toolsets: p.Run.Toolsets, Title: p.Run.Title}); err != nil {
		return registeredBody{}, err
	}
	r, c, err := s.deps.Outside.Register(ctx, a, p)
	if err != nil {
		return registeredBody{}, err
	}
	body := registeredBody{ResultID: r.ResultID, Version: r.Version, ExpiresAt: r.ExpiresAt}
	if c == nil {
		return body, nil
	}
	body.ToolCallID, body.ExpiresAt = c.CallID, c.ExpiresAt
	if withKey {
		key, err := s.deps.Access.Keys.CallKey(ctx, a, c.CallID, c.ExpiresAt)
		if err != nil {
			return registeredBody{}, err
		}
		body.APIKey = key.Reveal()
	}
	return body, nil
}

type finishInput struct {
	Body struct {
		ResultID   string          `json:"resultId" minLength:"1" maxLength:"64" doc:"The run"`
		Version    int             `json:"version,omitempty" minimum:"0" maximum:"2147483647" doc:"Which execution under the result id"`
		ToolCallID string          `json:"toolCallId,omitempty" maxLength:"128" doc:"The program to end; without it, the run ends"`
		Status     run.Status      `json:"status" enum:"finish,error,aborted"`
		Output     json.RawMessage `json:"output,omitempty" doc:"What the program answered, any JSON"`
		Error      string          `json:"error,omitempty" maxLength:"10000" doc:"Why it did not finish well"`
	}
}

type finishedBody struct {
	ResultID   string     `json:"resultId"`
	Version    int        `json:"version"`
	ToolCallID string     `json:"toolCallId,omitempty"`
	Status     run.Status `json:"status" enum:"running,finish,error,aborted" doc:"Of the run"`
}

func (m *Module) finishAction(ctx context.Context, who actor.Actor, in *finishInput) (finishedBody, error) {
	b := in.Body
	r, err := m.Service.finishOutside(ctx, who, outside.Ending{
		ResultID: b.ResultID, Version: b.Version, CallID: b.ToolCallID, Status: b.Status, Output: b.Output, Error: b.Error,
	})
	return finishedBody{ResultID: r.ResultID, Version: r.Version, ToolCallID: b.ToolCallID, Status: r.Status}, err
}

// finishOutside ends a program or a run, and the keys with it. A key counts only
// while its program executes, so one that cannot be revoked opens nothing.
func (s *Service) finishOutside(ctx context.Context, a actor.Actor, e outside.Ending) (run.Run, error) {
	r, ended, err := s.deps.Outside.Finish(ctx, a, e)
	if err != nil {
		return run.Run{}, err
	}
	var failures []error
	for _, callID := range ended {
		failures = append(failures, s.deps.Access.Keys.EndCallKey(ctx, a, callID))
	}
	if err := errors.Join(failures...); err != nil {
		s.deps.Logger.WarnContext(ctx, "keys of programs that ended were not revoked", "resultId", r.ResultID, "error", err)
	}
	return r, nil
}
