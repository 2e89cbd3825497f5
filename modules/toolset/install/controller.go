package install

import (
	"context"
	"net/http"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
)

type controller struct{ service *Service }

func (c controller) registerChanges(api *httpapi.API) {
	op := func(id, path, summary string, codes ...errs.Code) httpapi.Operation {
		return httpapi.Operation{ID: id, Method: http.MethodPost, Path: "/v1/tool/toolset/" + path, Summary: summary, Tag: "toolsets", Errors: append(codes, errs.ToolsetMissing)}
	}
	httpapi.Register(api, op("create-toolset", "create", "Install a toolset of the inventory for the caller", errs.Conflict), c.create)
	httpapi.Register(api, op("update-toolset", "update", "Change a toolset of the caller's own"), c.update)
	httpapi.Register(api, op("delete-toolset", "delete", "Uninstall a toolset of the caller's own"), c.remove)
}

type upsertInput struct{ Body Upsert }

func (c controller) create(ctx context.Context, who actor.Actor, in *upsertInput) (instanceBody, error) {
	i, err := c.service.Install(ctx, who, in.Body)
	return toInstance(i), err
}

func (c controller) update(ctx context.Context, who actor.Actor, in *upsertInput) (instanceBody, error) {
	i, err := c.service.Update(ctx, who, in.Body)
	return toInstance(i), err
}

type removeInput struct {
	Body struct {
		ToolsetID string `json:"toolsetId" minLength:"1" maxLength:"64"`
	}
}

func (c controller) remove(ctx context.Context, who actor.Actor, in *removeInput) (*httpapi.None, error) {
	return nil, c.service.Uninstall(ctx, who, in.Body.ToolsetID)
}
