package run

import (
	"context"
	"net/http"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
)

func (c controller) registerCanvas(api *httpapi.API) {
	op := func(id, method, summary string) httpapi.Operation {
		return httpapi.Operation{ID: id, Method: method, Path: "/v1/canvas/{canvasId}", Tag: "canvas", Summary: summary, Errors: []errs.Code{errs.CanvasMissing}}
	}
	httpapi.Register(api, op("get-canvas", http.MethodGet, "A canvas of yours"), c.canvas)
	httpapi.Register(api, op("rename-canvas", http.MethodPatch, "Give a canvas of yours another title"), c.rename)
}

type canvasPath struct {
	CanvasID string `path:"canvasId" maxLength:"64" doc:"The canvas"`
}

func (c controller) canvas(ctx context.Context, who actor.Actor, in *canvasPath) (canvasBody, error) {
	canvas, err := c.service.Canvas(ctx, who, in.CanvasID)
	return canvasBody(canvas), err
}

type renameCanvasInput struct {
	CanvasID string `path:"canvasId" maxLength:"64" doc:"The canvas"`
	Body     struct {
		Title string `json:"title" documented:"minLength=1 maxLength=200 pattern=^[^\\x00]*$" doc:"1 to 200 characters"`
	}
}

func (c controller) rename(ctx context.Context, who actor.Actor, in *renameCanvasInput) (canvasBody, error) {
	canvas, err := c.service.RenameCanvas(ctx, who, in.CanvasID, in.Body.Title)
	return canvasBody(canvas), err
}
