package run

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/portico-run/portico/modules/internal/actor"
	"github.com/portico-run/portico/modules/internal/errs"
	"github.com/portico-run/portico/modules/internal/httpapi"
)

type controller struct{ service *Service }

func (c controller) register(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "get-run", Method: http.MethodGet, Path: "/v1/action/result", Tag: "runs",
		Summary: "A run", Errors: []errs.Code{errs.ResultMissing},
	}, c.get)
	httpapi.Register(api, httpapi.Operation{
		ID: "list-runs", Method: http.MethodGet, Path: "/v1/action/list", Tag: "runs", Summary: "The caller's runs, newest first",
	}, c.list)
	httpapi.Register(api, httpapi.Operation{
		ID: "create-canvas", Method: http.MethodPost, Path: "/v1/canvas/create", Tag: "runs", Summary: "Create a canvas",
	}, c.createCanvas)
	httpapi.Register(api, httpapi.Operation{
		ID: "list-canvases", Method: http.MethodGet, Path: "/v1/canvas/list", Tag: "runs", Summary: "The caller's canvases, newest first",
	}, c.canvases)
}

type getInput struct {
	ResultID string `query:"resultId" required:"true" maxLength:"64" doc:"Id of the run"`
	Version  int    `query:"version" minimum:"-1" default:"-1" doc:"Version; the newest when left out"`
}

func (c controller) get(ctx context.Context, who actor.Actor, in *getInput) (runBody, error) {
	var version *int
	if in.Version >= 0 {
		version = &in.Version
	}
	r, err := c.service.Get(ctx, who, in.ResultID, version)
	return toBody(r), err
}

func (c controller) list(ctx context.Context, who actor.Actor, in *httpapi.PageQuery) (httpapi.Page[runBody], error) {
	page, err := c.service.List(ctx, who, *in)
	return httpapi.MapPage(page, toBody), err
}

type canvasInput struct {
	Body struct {
		Title string `json:"title,omitempty" maxLength:"1000"`
	}
}

func (c controller) createCanvas(ctx context.Context, who actor.Actor, in *canvasInput) (canvasBody, error) {
	canvas, err := c.service.CreateCanvas(ctx, who, in.Body.Title)
	return toCanvasBody(canvas), err
}

func (c controller) canvases(ctx context.Context, who actor.Actor, in *httpapi.PageQuery) (httpapi.Page[canvasBody], error) {
	page, err := c.service.Canvases(ctx, who, *in)
	return httpapi.MapPage(page, toCanvasBody), err
}

// runBody is a run on the wire. Times are milliseconds since 1970.
type runBody struct {
	ResultID   string          `json:"resultId"`
	Version    int             `json:"version"`
	Type       string          `json:"type"`
	Title      string          `json:"title"`
	TargetType string          `json:"targetType,omitempty"`
	TargetID   string          `json:"targetId,omitempty"`
	Input      json.RawMessage `json:"input,omitempty"`
	Toolsets   []string        `json:"toolsets,omitempty"`
	Status     Status          `json:"status" enum:"waiting,running,finish,error,aborted"`
	Errors     []string        `json:"errors,omitempty"`
	PTCEnabled bool            `json:"ptcEnabled"`
	CreatedAt  int64           `json:"createdAt"`
	UpdatedAt  int64           `json:"updatedAt"`
}

func toBody(r Run) runBody {
	b := runBody{
		ResultID: r.ResultID, Version: r.Version, Type: r.Type, Title: r.Title, Input: r.Input, Toolsets: r.Toolsets,
		Status: r.Status, Errors: r.Errors, PTCEnabled: r.PTCEnabled, CreatedAt: r.CreatedAt.UnixMilli(), UpdatedAt: r.UpdatedAt.UnixMilli(),
	}
	if r.CanvasID != "" {
		b.TargetType, b.TargetID = canvasTarget, r.CanvasID
	}
	return b
}

type canvasBody struct {
	CanvasID  string `json:"canvasId"`
	Title     string `json:"title"`
	CreatedAt int64  `json:"createdAt"`
	UpdatedAt int64  `json:"updatedAt"`
}

func toCanvasBody(c Canvas) canvasBody {
	return canvasBody{CanvasID: c.CanvasID, Title: c.Title, CreatedAt: c.CreatedAt.UnixMilli(), UpdatedAt: c.UpdatedAt.UnixMilli()}
}
