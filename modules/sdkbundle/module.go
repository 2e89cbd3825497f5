// Package sdkbundle makes the Python SDK of a user's toolsets, publishes it to
// object storage and reads it from there: the files that a sandbox gets as
// refly_tools, and the documentation that a model is shown.
package sdkbundle

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/flight"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/objectstore"
)

// Location is where a bundle is: below PathPrefix, under its Hash. Without a
// hash, Deps.Publish names one.
type Location struct{ PathPrefix, Hash string }

// Deps is what the module needs.
type Deps struct {
	Objects objectstore.Store
	// Publish is a Publisher's, for installations that do not publish bundles
	// themselves.
	Publish func(ctx context.Context, a actor.Actor, prefix string) (hash string, err error)
}

// Module is the wired package.
type Module struct{ Service *Service }

// New wires the module and starts nothing.
func New(d Deps, at Location) *Module {
	s := &Service{objects: d.Objects, publish: d.Publish, bundles: map[Location]Bundle{}}
	s.Swap(at)
	return &Module{Service: s}
}

// Service hands out bundles.
type Service struct {
	objects  objectstore.Store
	publish  func(ctx context.Context, a actor.Actor, prefix string) (hash string, err error)
	location atomic.Pointer[Location]

	mu      sync.Mutex // held for the map only, never while something is read
	bundles map[Location]Bundle
	loading flight.Group[Location, Bundle]
}

// Swap makes later executions use another bundle.
func (s *Service) Swap(at Location) {
	at.PathPrefix = strings.Trim(at.PathPrefix, "/")
	s.location.Store(&at)
}

// Register adds the module's route.
func (m *Module) Register(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "ptc-context", Method: http.MethodGet, Path: "/v1/ptc/context", Tag: "ptc",
		Summary: "Code and documentation of the SDK for some toolsets",
		Errors:  []errs.Code{errs.Unavailable},
	}, m.context)
}

type contextInput struct {
	Toolsets string `query:"toolsets" maxLength:"4096" doc:"Toolset keys, comma-separated; empty for all of the bundle"`
}

func (m *Module) context(ctx context.Context, who actor.Actor, in *contextInput) (Context, error) {
	var keys []string
	for key := range strings.SplitSeq(in.Toolsets, ",") {
		if key = strings.TrimSpace(key); key != "" {
			keys = append(keys, key)
		}
	}
	return m.Service.Context(ctx, who, keys)
}
