package run

import (
	"context"
	"net/http"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
)

// Register adds the module's routes.
func (m *Module) Register(api *httpapi.API) {
	c := controller{m.Service}
	httpapi.Register(api, httpapi.Operation{
		ID: "list-action-results", Method: http.MethodGet, Path: "/v1/action/list", Tag: "action",
		Summary: "List your runs, newest first",
	}, c.list)
	httpapi.Register(api, httpapi.Operation{
		ID: "create-canvas", Method: http.MethodPost, Path: "/v1/canvas/create", Tag: "canvas",
		Summary: "Create a canvas, a place that groups runs and files",
	}, c.createCanvas)
	httpapi.Register(api, httpapi.Operation{
		ID: "list-canvases", Method: http.MethodGet, Path: "/v1/canvas/list", Tag: "canvas",
		Summary: "List your canvases, newest first",
	}, c.canvases)
	c.registerCanvas(api)
	c.registerAdmin(api)
}

type controller struct{ service *Service }

func (c controller) list(ctx context.Context, who actor.Actor, in *listInput) (httpapi.Page[ResultBody], error) {
	f := Filter{Status: Status(in.Status), CanvasID: in.CanvasID, Toolset: in.Toolset, Text: in.Text, From: in.From, Until: in.Until}
	page, err := c.service.List(ctx, who, f, in.PageQuery)
	if err != nil {
		return httpapi.Page[ResultBody]{}, err
	}
	refs := make([]Ref, len(page.Items))
	for i, r := range page.Items {
		refs[i] = r.Ref()
	}
	totals, err := c.service.Totals(ctx, who, refs)
	return httpapi.MapPage(page, func(r Run) ResultBody {
		b := NewResultBody(r)
		b.Totals = NewTotalsBody(totals[r.Ref()])
		return b
	}), err
}

func (c controller) createCanvas(ctx context.Context, who actor.Actor, in *canvasInput) (canvasBody, error) {
	canvas, err := c.service.CreateCanvas(ctx, who, in.Body.Title)
	return canvasBody(canvas), err
}

func (c controller) canvases(ctx context.Context, who actor.Actor, in *httpapi.PageQuery) (httpapi.Page[canvasBody], error) {
	page, err := c.service.Canvases(ctx, who, *in)
	return httpapi.MapPage(page, func(v Canvas) canvasBody { return canvasBody(v) }), err
}
