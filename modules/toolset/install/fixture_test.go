package install_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/egress"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/connector/composio"
	"github.com/portico-run/portico/modules/connector/composio/composiotest"
	"github.com/portico-run/portico/modules/connector/connectortest"
	"github.com/portico-run/portico/modules/toolset/file"
)

const key = "sk-upstream-1234"

var anna, ben = actor.Actor{UID: "u-anna", Scope: actor.Full}, actor.Actor{UID: "u-ben", Scope: actor.Full}

// connected is a process with a stand-in for Composio, and two toolsets of
// Composio's.
func connected(t *testing.T, db *database.DB) *connectortest.Toolsets {
	t.Helper()
	for _, a := range []actor.Actor{anna, ben} {
		connectortest.Exec(t, db, `INSERT INTO users (uid, name) VALUES (?, ?)`, a.UID, a.UID)
	}
	server := composiotest.Start(t)
	e := egress.New(egress.Config{})
	t.Cleanup(e.Close)
	s := connectortest.New(t, db, composio.NewClient(composio.ClientDeps{
		BaseURL: server.URL, Version: "v3", Key: composiotest.Key, Egress: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Timeout: 5 * time.Second, CacheLife: time.Minute, Upstream: upstream.New(upstream.Deps{Client: e, ResponseCap: 1 << 20}),
	}), map[string]string{"WEATHER_URL": "http://127.0.0.1:9", "WEATHER_KEY": key})
	s.Fill(t, `
{key: gmail, name: Gmail, labels: {en: Gmail}, type: external_oauth, global: false}
---
{key: alpha_vantage, name: Alpha, type: external_apikey, billing: 2, credential: {value: the-shared-key}}
`)
	return s
}

// weather is the toolset file that other tests use.
func weather(t *testing.T) []file.File {
	t.Helper()
	files, err := file.Read("../testdata/weather.yaml")
	require.NoError(t, err)
	return files
}
