// Package openai serves OpenAI's API to clients of that vendor: Responses with stored
// conversations and programs, and Chat Completions.
package openai

import (
	"context"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/agent/openai/chat"
	"github.com/portico-run/portico/modules/agent/openai/history"
	"github.com/portico-run/portico/modules/agent/openai/responses"
	"github.com/portico-run/portico/modules/agent/openai/stored"
	"github.com/portico-run/portico/modules/model"
)

// Deps is what the module needs.
type Deps struct {
	DB        *database.DB
	Dialogues dialogue.Dialogues
	Toolsets  responses.Toolsets
	// Protocol is how the model of a name is spoken with.
	Protocol func(name string) model.Protocol
	// Box seals what clients carry of programs.
	Box      *secretbox.Box
	Settings Settings
}

// Settings are the limits of the module.
type Settings struct {
	// Off leaves the routes out; what is stored is deleted when it is over all the same.
	Off       bool
	Stored    stored.Settings
	Responses responses.Settings
	Chat      chat.Settings
}

// Module is the wired package.
type Module struct {
	stored    *stored.Service
	responses *responses.Service
	chat      *chat.Service
	off       bool
}

// New wires the module and starts nothing.
func New(d Deps) *Module {
	kept := stored.New(stored.Deps{DB: d.DB, Settings: d.Settings.Stored})
	return &Module{
		stored: kept, off: d.Settings.Off,
		chat: chat.New(chat.Deps{Dialogues: d.Dialogues, Toolsets: d.Toolsets, Settings: d.Settings.Chat, Now: d.DB.Now}),
		responses: responses.New(responses.Deps{
			Dialogues: d.Dialogues, Stored: kept, Toolsets: d.Toolsets, Protocol: d.Protocol, Settings: d.Settings.Responses, Now: d.DB.Now,
			Seals: history.Seals{Box: d.Box, Life: d.Settings.Stored.Life, Now: d.DB.Now},
		}),
	}
}

// Register adds the module's routes.
func (m *Module) Register(api *httpapi.API) {
	if !m.off {
		m.responses.Register(api)
		m.chat.Register(api)
	}
}

// Purge deletes the responses of all users that are over.
func (m *Module) Purge(ctx context.Context) error { return m.stored.Purge(ctx) }
