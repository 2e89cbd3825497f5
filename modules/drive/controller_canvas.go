package drive

import (
	"context"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
)

type previewInput struct {
	FileID string `path:"fileId" maxLength:"64" doc:"The file"`
}

type previewBody struct {
	File DriveFile `json:"file"`
	Preview
}

func (c controller) preview(ctx context.Context, who actor.Actor, in *previewInput) (previewBody, error) {
	f, p, err := c.Preview(ctx, who, in.FileID)
	return previewBody{c.Describe(who.UID, f), p}, err
}

type removeCanvasInput struct {
	CanvasID string `path:"canvasId" maxLength:"64" doc:"The canvas"`
	Force    string `query:"force" enum:"true,false" doc:"Delete its files with it"`
}

func (c controller) removeCanvas(ctx context.Context, who actor.Actor, in *removeCanvasInput) (*httpapi.None, error) {
	return nil, c.DeleteCanvas(ctx, who, in.CanvasID, in.Force == "true")
}
