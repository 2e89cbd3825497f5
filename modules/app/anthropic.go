package app

import (
	"github.com/portico-run/portico/modules/agent/anthropic"
	"github.com/portico-run/portico/modules/model/named"
)

// anthropic wires the API in the form of Anthropic's; nil where it is off.
func (a *App) anthropic() *anthropic.Module {
	c := a.Config
	if !c.Anthropic.API {
		return nil
	}
	return anthropic.New(anthropic.Deps{
		Dialogues: a.Dialogues, Sessions: a.CodeAPI.Sessions, Models: a.Models,
		Settings: anthropic.Settings{Tools: c.CodeAPI.MaxTools, Output: int(c.Agent.Output), MaxFile: c.CodeAPI.MaxFile, Endpoint: c.Server.Endpoint},
	})
}

// models wires the list of models, in each form that there is.
func (a *App) models(m *anthropic.Module) named.Module {
	list := named.Module{Set: a.Models, Keys: a.Accounts.Service}
	if m != nil {
		list.Other = m.List()
	}
	return list
}
