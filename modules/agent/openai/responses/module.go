// Package responses serves OpenAI's Responses API.
package responses

import (
	"context"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/sse"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/agent/openai/history"
	"github.com/portico-run/portico/modules/agent/openai/made"
	"github.com/portico-run/portico/modules/agent/openai/stored"
	"github.com/portico-run/portico/modules/model"
)

// Toolsets says which toolsets and MCP servers a user may use, by their keys.
type Toolsets interface {
	Usable(ctx context.Context, a actor.Actor) ([]string, error)
}

// Settings are the limits of requests.
type Settings struct {
	// MaxTools is how many tools a request may have.
	MaxTools int
	// Output is the most that a client is shown of what a program printed, in bytes.
	Output int
	// First is the model that answers where none is named.
	First  string
	Stream sse.Server
}

// Deps is what the service needs.
type Deps struct {
	Dialogues dialogue.Dialogues
	Stored    *stored.Service
	Toolsets  Toolsets
	// Protocol is how the model of a name is spoken with.
	Protocol func(name string) model.Protocol
	Seals    history.Seals
	Settings Settings
	Now      func() time.Time
}

// Service answers requests of the Responses API.
type Service struct {
	deps   Deps
	memory made.Memory
}

// New wires the service.
func New(d Deps) *Service { return &Service{deps: d} }
