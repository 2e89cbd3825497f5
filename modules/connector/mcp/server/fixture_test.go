package server_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/connector/connectortest"
	"github.com/portico-run/portico/modules/connector/mcp/server"
)

var anna, ben = actor.Actor{UID: "u-anna", Scope: actor.Full}, actor.Actor{UID: "u-ben", Scope: actor.Full}

// service is a service of a database with two users and the toolset gmail.
func service(t *testing.T, db *database.DB, hub *wake.Hub) *server.Service {
	t.Helper()
	for _, a := range []actor.Actor{anna, ben} {
		connectortest.Exec(t, db, `INSERT INTO users (uid, name) VALUES (?, ?) ON CONFLICT DO NOTHING`, a.UID, a.UID)
	}
	box, err := secretbox.New(strings.Repeat("0a", 32))
	require.NoError(t, err)
	return server.New(server.Deps{
		DB: db, Box: box, Wake: hub,
		Taken:    func(_ context.Context, key string) (bool, error) { return key == "gmail", nil },
		Settings: server.Settings{PerUser: 3, Egress: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}},
	})
}

// web is a server of the public internet.
func web(name string) server.Spec {
	return server.Spec{Name: name, Transport: server.HTTP, URL: "https://mcp.example.com/mcp"}
}

func annasNetworks() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func dump(v any) string { return fmt.Sprintf("%+v", v) }
