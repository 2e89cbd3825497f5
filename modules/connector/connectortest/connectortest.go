// Package connectortest wires toolsets for tests: every kind that the server has,
// and files that fill the inventory.
package connectortest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/connector/composio"
	"github.com/portico-run/portico/modules/connector/rest"
	"github.com/portico-run/portico/modules/connector/vendors"
	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/file"
	"github.com/portico-run/portico/modules/toolset/install"
	"github.com/portico-run/portico/modules/toolset/mark"
	"github.com/portico-run/portico/modules/toolset/store"
)

// SharedUser has the accounts at Composio that all users share.
const SharedUser = "refly_global"

// Toolsets are what one process has.
type Toolsets struct {
	*toolset.Service
	Installs    *install.Service
	Files       *file.Service
	Connector   *composio.Connector
	Connections *composio.Service
	Box         *secretbox.Box
	// Time is what the clock of the process says; nil for the wall clock.
	Time *time.Time
}

// New wires the toolsets of one process with a client of Composio; nil for one
// that is not connected. Variables are what files may name.
func New(t testing.TB, db *database.DB, client *composio.Client, variables map[string]string) *Toolsets {
	t.Helper()
	if client == nil {
		client = composio.NewClient(composio.ClientDeps{})
	}
	box, err := secretbox.New(strings.Repeat("0a", 32))
	require.NoError(t, err)
	pricer := price.NewPricer(120 * money.Credit)
	s := &Toolsets{Box: box}
	now := func() time.Time {
		if s.Time != nil {
			return *s.Time
		}
		return database.Now()
	}
	clients, err := vendors.New(vendors.Deps{})
	require.NoError(t, err)
	s.Connector = composio.New(composio.Deps{
		DB: db, Client: client, Pricer: pricer, Rates: billing.New(billing.Deps{DB: db}).Service, SharedUser: SharedUser, Now: now,
	})
	kinds := toolset.NewKinds(rest.New(rest.Deps{Pricer: pricer}), clients, composio.OAuth{Connector: s.Connector}, composio.APIKey{Connector: s.Connector})
	s.Service = toolset.New(toolset.Deps{DB: db, Box: box, Kinds: kinds}).Service
	s.Installs = install.New(install.Deps{DB: db, Box: box, Toolsets: s.Service, Kinds: kinds, Details: details{}, Now: now}).Service
	s.Files = file.New(file.Deps{Inventory: store.New(store.Deps{DB: db, Box: box, Now: now}), Variables: variables, Pricer: pricer, Kinds: kinds})
	s.Connections = composio.NewModule(s.Connector, s.Installs).Service
	return s
}

// Fill applies one toolset file.
func (s *Toolsets) Fill(t testing.TB, text string) {
	t.Helper()
	_, err := s.Files.Apply(t.Context(), []file.File{{Name: "test.yaml", Content: []byte(text)}})
	require.NoError(t, err)
}

// Exec runs SQL.
func Exec(t testing.TB, db *database.DB, sql string, args ...any) {
	t.Helper()
	require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
		return database.Unscoped(tx.Handle).Exec(sql, args...).Error
	}))
}

// details knows nothing of tools.
type details struct{}

func (details) Lines(toolset.Definition) map[string]string { return nil }

func (details) Hints(context.Context, actor.Actor, string, string) (readOnly, idempotent *bool, err error) {
	return nil, nil, nil
}

func (details) Health(context.Context, actor.Actor, string) (install.ServerHealth, error) {
	return install.ServerHealth{}, nil
}

func (details) Marks(context.Context, string) ([]mark.Mark, error) { return nil, nil }
