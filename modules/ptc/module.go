package ptc

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
)

// Service answers by the policy in force, which can be replaced while it
// works.
type Service struct{ policy atomic.Pointer[Policy] }

// Module is the wired package.
type Module struct{ Service *Service }

// New returns a module with its first policy.
func New(p Policy) *Module {
	m := &Module{Service: &Service{}}
	m.Service.Swap(p)
	return m
}

// Swap puts another policy in force for every later decision.
func (s *Service) Swap(p Policy) { s.policy.Store(&p) }

// Decide answers whether PTC is on for a run.
func (s *Service) Decide(q Question) Decision { return s.policy.Load().Decide(q) }

// AllowsToolset reports whether the lists let code call a toolset.
func (s *Service) AllowsToolset(key string) bool { return s.policy.Load().AllowsToolset(key) }

// On reports whether PTC is on for anybody at all.
func (s *Service) On() bool { return s.policy.Load().mode != Off }

// SandboxDebug reports whether sandboxes are told that debugging is on.
func (s *Service) SandboxDebug() bool { return s.policy.Load().SandboxDebug() }

// Register adds the module's routes.
func (m *Module) Register(api *httpapi.API) {
	m.registerAdmin(api)
	httpapi.Register(api, httpapi.Operation{
		ID: "ptc-decision", Method: http.MethodGet, Path: "/v1/ptc/decision", Tag: "ptc",
		Summary: "Whether programmatic tool calling is on for the caller, and why",
	}, m.decide)
}

type decideInput struct {
	Toolsets string `query:"toolsets" maxLength:"4096" doc:"Toolset keys, comma-separated"`
	Title    string `query:"title" maxLength:"1000" doc:"Title of the run"`
}

func (m *Module) decide(_ context.Context, who actor.Actor, in *decideInput) (Decision, error) {
	return m.Service.Decide(Question{UID: who.UID, Toolsets: list(in.Toolsets), Title: in.Title}), nil
}
