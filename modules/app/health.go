package app

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
)

// health answers whether the server lives and whether it can work.
type health struct{ app *App }

// Register adds the routes.
func (h health) Register(api *httpapi.API) {
	op := func(id, path, summary string, codes ...errs.Code) httpapi.Operation {
		return httpapi.Operation{ID: id, Method: http.MethodGet, Path: path, Tag: "health", Summary: summary, Access: httpapi.Public, Errors: codes}
	}
	httpapi.Register(api, op("healthz", "/healthz", "Whether the server lives"), h.live)
	httpapi.Register(api, op("readyz", "/readyz", "Whether the server can work; ?verbose says what is not in force", errs.Unavailable), h.ready)
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

type readyInput struct{ verbose bool }

// Resolve reads a flag that has no value: /readyz?verbose.
func (in *readyInput) Resolve(c huma.Context) []error {
	u := c.URL()
	in.verbose = u.Query().Has("verbose")
	return nil
}

type readyBody struct {
	Status  string         `json:"status"`
	Version string         `json:"version"`
	Sandbox sandboxBody    `json:"sandbox"`
	MCP     map[string]int `json:"mcpServers,omitempty" doc:"With ?verbose: MCP servers that were asked, by how they do"`
	Invalid []invalidFile  `json:"invalidToolsetFiles,omitempty" doc:"With ?verbose: toolset files that are not valid; what the files said before is in force"`
	Redis   *redisBody     `json:"redis,omitempty" doc:"With ?verbose: how publishing events goes, where there is a Redis"`
}

type sandboxBody struct {
	Idle    int `json:"idle"`
	Running int `json:"running"`
	Queued  int `json:"queued"`
}

func (h health) ready(ctx context.Context, _ actor.Actor, in *readyInput) (readyBody, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if h.app.ending.begun() {
		return readyBody{}, errs.New(errs.Unavailable, "This server process is about to end.").AsPlanned()
	}
	if err := h.app.DB.Ping(ctx); err != nil {
		return readyBody{}, errs.New(errs.Unavailable, "The database does not answer.").With(err)
	}
	s := h.app.Engine.Stats()
	body := readyBody{
		Status: "ok", Version: Version,
		Sandbox: sandboxBody{Idle: s.Idle, Running: s.Running, Queued: s.Queued},
	}
	if in.verbose {
		body.Invalid = h.app.invalidFiles()
		body.MCP = h.app.serverStates()
		body.Redis = h.app.redisHealth()
	}
	return body, nil
}
