package composio

import (
	"context"
	"net/http"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
)

type controller struct{ service *Service }

func (c controller) register(api *httpapi.API) {
	op := func(id, method, path, summary string, codes ...errs.Code) httpapi.Operation {
		return httpapi.Operation{ID: id, Method: method, Path: "/v1/tool/composio/{app}/" + path, Summary: summary, Tag: "connections", Errors: append(codes, errs.ToolsetMissing, errs.Unavailable)}
	}
	httpapi.RegisterPlain(api, op("authorize-connection", http.MethodPost, "authorize", "Begin the connection of the caller's account"), c.authorize)
	httpapi.RegisterPlain(api, op("connection-status", http.MethodGet, "status", "Whether the caller's account is connected"), c.connection)
	httpapi.RegisterPlain(api, op("revoke-connection", http.MethodPost, "revoke", "End the connection of the caller's account", errs.NotFound), c.disconnect)
}

type authorizeInput struct {
	App         string `path:"app" maxLength:"64" doc:"Key of the toolset"`
	CallbackURL string `query:"callbackUrl" maxLength:"2048" format:"uri" doc:"Where the user comes back to"`
}

func (c controller) authorize(ctx context.Context, who actor.Actor, in *authorizeInput) (Authorization, error) {
	return c.service.Authorize(ctx, who, in.App, in.CallbackURL)
}

type appInput struct {
	App string `path:"app" maxLength:"64" doc:"Key of the toolset"`
}

func (c controller) connection(ctx context.Context, who actor.Actor, in *appInput) (ConnectionStatus, error) {
	return c.service.Connection(ctx, who, in.App)
}

// revokedBody is the answer to a revocation: docs/wire/refly.md#connections.
type revokedBody struct {
	Success bool   `json:"success"`
	Message string `json:"message"`
}

func (c controller) disconnect(ctx context.Context, who actor.Actor, in *appInput) (revokedBody, error) {
	err := c.service.Disconnect(ctx, who, in.App)
	return revokedBody{Success: err == nil, Message: "The connection is revoked."}, err
}
