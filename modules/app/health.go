package app

import (
	"context"
	"net/http"
	"time"

	"github.com/portico-run/portico/modules/internal/actor"
	"github.com/portico-run/portico/modules/internal/errs"
	"github.com/portico-run/portico/modules/internal/httpapi"
)

// health answers whether the server lives and whether it can work.
type health struct{ app *App }

// Register adds the routes.
func (h health) Register(api *httpapi.API) {
	op := func(id, path, summary string, codes ...errs.Code) httpapi.Operation {
		return httpapi.Operation{ID: id, Method: http.MethodGet, Path: path, Tag: "health", Summary: summary, Access: httpapi.Public, Errors: codes}
	}
	httpapi.Register(api, op("healthz", "/healthz", "Whether the server lives"), h.live)
	httpapi.Register(api, op("readyz", "/readyz", "Whether the server can work", errs.Unavailable), h.ready)
}

type healthBody struct {
	Status  string `json:"status"`
	Version string `json:"version"`
}

func (health) live(context.Context, actor.Actor, *struct{}) (healthBody, error) {
	return healthBody{Status: "ok", Version: Version}, nil
}

// readyTimeout is how long a database may take to answer at all.
const readyTimeout = 2 * time.Second

type readyBody struct {
	Status  string      `json:"status"`
	Version string      `json:"version"`
	Sandbox sandboxBody `json:"sandbox"`
}

type sandboxBody struct {
	Idle    int `json:"idle"`
	Running int `json:"running"`
	Queued  int `json:"queued"`
}

func (h health) ready(ctx context.Context, _ actor.Actor, _ *struct{}) (readyBody, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := h.app.DB.Ping(ctx); err != nil {
		return readyBody{}, errs.New(errs.Unavailable, "The database does not answer.").With(err)
	}
	s := h.app.Engine.Stats()
	return readyBody{
		Status: "ok", Version: Version,
		Sandbox: sandboxBody{Idle: s.Idle, Running: s.Running, Queued: s.Queued},
	}, nil
}
