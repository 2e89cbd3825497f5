package app

import (
	"context"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/catalogue"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/ptc"
)

// dialogues wires what answers clients that keep a conversation themselves.
func (a *App) dialogues() *dialogue.Service {
	c := a.Config
	d := dialogue.Deps{
		DB: a.DB, Programs: dialogue.Running{Executions: a.CodeAPI.Executions, Sessions: a.CodeAPI.Sessions}, Toolsets: callable{usable{a.Installs.Service}, a},
		Approvals: a.Approvals.Service, Billing: a.Credits.Service, Hub: a.Hub,
		Settings: dialogue.Settings{
			Requests: c.Agent.MaxRequests, Wall: c.Agent.Timeout, Output: int(c.Agent.Output), Idle: c.CodeAPI.Idle, Peers: a.holders(),
			Window: func(model string) dialogue.Window {
				f := a.facts(model)
				return dialogue.Window{Context: f.Context, Answer: f.Answer}
			},
			Price: func(model string) price.Tokens { return a.facts(model).Price },
		},
	}
	if a.Models != nil {
		d.Model = a.Models
	}
	return dialogue.New(d, a.Logger)
}

// callable implements dialogue.Toolsets.
type callable struct {
	usable

	app *App
}

// Usable implements dialogue.Toolsets: nothing where the policy says that the user's
// programs call no tools.
func (c callable) Usable(ctx context.Context, a actor.Actor) ([]string, error) {
	keys, err := c.usable.Usable(ctx, a)
	if err != nil || !c.app.PTC.Service.Decide(ptc.Question{UID: a.UID, Toolsets: keys}).Enabled {
		return nil, err
	}
	return keys, nil
}

// Describe implements dialogue.Toolsets.
func (c callable) Describe(ctx context.Context, a actor.Actor, keys []string, selected map[string][]string) (*catalogue.Catalogue, []string, error) {
	return c.app.Programs.Service.DescribeSelected(ctx, a, keys, selected)
}

// State implements dialogue.Toolsets.
func (c callable) State(ctx context.Context, a actor.Actor, callID string, calls bool) (program.State, error) {
	return c.app.Programs.Service.State(ctx, a, callID, calls)
}
