package ptc

import (
	"context"
	"net/http"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
)

func (m *Module) registerAdmin(api *httpapi.API) {
	op := func(id, path, summary string) httpapi.Operation {
		return httpapi.Operation{ID: id, Method: http.MethodGet, Path: "/v1/admin/ptc/" + path, Tag: "admin", Access: httpapi.Admin, Summary: summary}
	}
	httpapi.Register(api, op("admin-ptc-decision", "decision", "Whether programmatic tool calling is on for any user, and why: the checks in their order"), m.decideFor)
	httpapi.Register(api, op("admin-ptc-policy", "policy", "The settings of programmatic tool calling that are in force"), m.inForce)
}

type decideForInput struct {
	UID      string `query:"uid" required:"true" minLength:"1" maxLength:"64" doc:"The user; one that does not exist is decided for as any other"`
	Toolsets string `query:"toolsets" maxLength:"4096" doc:"Toolset keys, comma-separated"`
	Title    string `query:"title" maxLength:"1000" doc:"Title of the run"`
}

func (m *Module) decideFor(_ context.Context, _ actor.Actor, in *decideForInput) (Decision, error) {
	return m.Service.Decide(Question{UID: in.UID, Toolsets: list(in.Toolsets), Title: in.Title}), nil
}

// InForce is a policy as administrators see it.
type InForce struct {
	Mode       Mode     `json:"mode" enum:"off,on,partial"`
	Users      []string `json:"users" nullable:"false" doc:"PTC_USER_ALLOWLIST; counts where the mode is partial"`
	Allow      []string `json:"toolsetAllowlist" doc:"null where none is set; an empty one allows no toolset"`
	Block      []string `json:"toolsetBlocklist" nullable:"false"`
	Percent    float64  `json:"rolloutPercent"`
	Salt       string   `json:"rolloutSalt"`
	Debug      Debug    `json:"debug" doc:"opt-in, opt-out, or empty where no title is filtered"`
	Sequential bool     `json:"sequential"`
	BreakEven  bool     `json:"breakEven" doc:"Agent runs may call tools plainly where that costs fewer tokens"`
}

func (m *Module) inForce(context.Context, actor.Actor, *struct{}) (InForce, error) {
	return m.Service.policy.Load().inForce(), nil
}

func (p Policy) inForce() InForce {
	f := InForce{
		Mode: p.mode, Users: append([]string{}, p.users...), Block: append([]string{}, p.block...), Percent: p.percent, Salt: p.salt,
		Debug: p.debug, Sequential: p.sequential, BreakEven: p.breakEven,
	}
	if p.allowSet {
		f.Allow = append([]string{}, p.allow...)
	}
	return f
}
