package toolset_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/connector/connectortest"
	"github.com/portico-run/portico/modules/connector/rest"
	"github.com/portico-run/portico/modules/toolset"
)

// A change of a toolset counts at once in the process that makes it, and within a
// second in one that is told nothing. What is known of one user's toolset is
// nothing to another. The clock stands still.
func TestWhatAKeyMeansIsNeverMoreThanASecondOld(t *testing.T) {
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			url, now := databasetest.URL(t, d), database.Now()
			box, err := secretbox.New("0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a")
			require.NoError(t, err)
			process := func() (*connectortest.Toolsets, *toolset.Service) {
				var hub wake.Hub
				db := databasetest.OpenURL(t, url, hub.Publish)
				kinds := toolset.NewKinds(rest.New(rest.Deps{Pricer: price.NewPricer(120 * money.Credit)}))
				s := toolset.New(toolset.Deps{DB: db, Box: box, Kinds: kinds, Now: func() time.Time { return now }, Wake: &hub}).Service
				return connectortest.New(t, db, nil, nil), s
			}
			files, here := process()
			_, there := process()
			users, anna, ben := []string{"u-anna", "u-ben"}, actor.Actor{UID: "u-anna"}, actor.Actor{UID: "u-ben"}
			db := databasetest.OpenURL(t, url, nil) // whose changes nobody is told of
			for _, uid := range users {
				connectortest.Exec(t, db, `INSERT INTO users (uid, name) VALUES (?, ?)`, uid, uid)
			}
			domain := func(s *toolset.Service, a actor.Actor) string {
				found, err := s.Identify(t.Context(), a, "x")
				require.NoError(t, err)
				return found.Domain + found.ToolsetID
			}
			files.Fill(t, "{key: x, name: X, billing: 0, domain: 'https://one.example.com', methods: [{name: go, endpoint: /}]}")
			first := domain(here, anna)
			require.Equal(t, first, domain(there, anna))
			files.Fill(t, "{key: x, name: X, billing: 0, domain: 'https://two.example.com', methods: [{name: go, endpoint: /}]}")
			require.Contains(t, domain(here, anna), "two")
			require.Equal(t, first, domain(there, anna))
			now = now.Add(time.Second)
			require.Contains(t, domain(there, anna), "two")

			shared := domain(here, ben)
			connectortest.Exec(t, db, `INSERT INTO toolsets (toolset_id, uid, is_global, name, key, enabled) VALUES ('own', 'u-anna', ?, 'X', 'x', ?)`, false, true)
			now = now.Add(time.Second)
			require.NotEqual(t, shared, domain(here, anna))
			require.Equal(t, shared, domain(here, ben))
			require.NotEqual(t, shared, domain(here, anna))
		})
	}
}
