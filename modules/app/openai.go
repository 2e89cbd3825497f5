package app

import (
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/modules/agent/openai"
	"github.com/portico-run/portico/modules/agent/openai/chat"
	"github.com/portico-run/portico/modules/agent/openai/responses"
	"github.com/portico-run/portico/modules/agent/openai/stored"
	"github.com/portico-run/portico/modules/model"
)

// openAI wires what serves OpenAI's API.
func (a *App) openAI(box *secretbox.Box) *openai.Module {
	c, first := a.Config, ""
	if a.Models != nil {
		first = a.Models.Names()[0]
	}
	return openai.New(openai.Deps{
		DB: a.DB, Dialogues: a.Dialogues, Toolsets: callable{usable{a.Installs.Service}, a}, Box: box,
		Protocol: func(name string) model.Protocol {
			if a.Models == nil {
				return ""
			}
			return a.Models.Protocol(name)
		},
		Settings: openai.Settings{
			Off:       !c.OpenAI.API,
			Stored:    stored.Settings{Life: c.OpenAI.StoredLife, Max: c.OpenAI.MaxStored, MaxBytes: c.OpenAI.MaxStoredBytes},
			Responses: responses.Settings{MaxTools: c.CodeAPI.MaxTools, Output: int(c.Agent.Output), First: first},
			Chat:      chat.Settings{MaxTools: c.CodeAPI.MaxTools, First: first},
		},
	})
}
