package sealed_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/modules/toolset/sealed"
)

var first, second, third = strings.Repeat("0a", 32), strings.Repeat("0b", 32), strings.Repeat("0c", 32)

func box(t *testing.T, key string, old ...string) *secretbox.Box {
	t.Helper()
	b, err := secretbox.New(key, old...)
	require.NoError(t, err)
	return b
}

func exec(t *testing.T, db *database.DB, sql string, args ...any) {
	t.Helper()
	require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error { return database.Unscoped(tx.Handle).Exec(sql, args...).Error }))
}

// fill writes n rows into every column, sealed with a box.
func fill(t *testing.T, db *database.DB, b *secretbox.Box, n int) {
	t.Helper()
	later := time.Now().Add(time.Hour)
	exec(t, db, "INSERT INTO users (uid, name) VALUES ('u-anna', 'anna')")
	for i := range n {
		s := func(column string) string { return b.Seal(fmt.Appendf(nil, "%s %d", column, i)) }
		name := fmt.Sprint("t", i)
		exec(t, db, "INSERT INTO toolset_inventory (key, name, api_key) VALUES (?, 'T', ?)", name, s("toolset_inventory.api_key"))
		exec(t, db, "INSERT INTO toolsets (toolset_id, uid, name, key, auth_data) VALUES (?, 'u-anna', 'T', ?, ?)", name, name, s("toolsets.auth_data"))
		exec(t, db, "INSERT INTO toolset_grants (toolset_key, uid, version, tokens, updated_at) VALUES (?, 'u-anna', 'v', ?, ?)", name, s("toolset_grants.tokens"), later)
		exec(t, db, "INSERT INTO toolset_authorizations (toolset_key, uid, state, flow, expires_at) VALUES (?, 'u-anna', ?, ?, ?)", name, name, s("toolset_authorizations.flow"), later)
		exec(t, db, "INSERT INTO mcp_servers (name, type, uid, env, headers, client) VALUES (?, 'stdio', 'u-anna', ?, ?, ?)", name, s("mcp_servers.env"), s("mcp_servers.headers"), s("mcp_servers.client"))
		exec(t, db, "INSERT INTO mcp_credentials (server_pk, uid, version, placeholders, tokens, updated_at) SELECT pk, 'u-anna', 'v', ?, ?, ? FROM mcp_servers WHERE name = ?",
			s("mcp_credentials.placeholders"), s("mcp_credentials.tokens"), later, name)
		exec(t, db, "INSERT INTO mcp_authorizations (server_pk, uid, state, flow, expires_at) SELECT pk, 'u-anna', ?, ?, ? FROM mcp_servers WHERE name = ?", name, s("mcp_authorizations.flow"), later, name)
		exec(t, db, "INSERT INTO mcp_clients (issuer, redirect_uri, client) VALUES (?, 'x', ?)", name, s("mcp_clients.client"))
	}
}

// opened are the values of a column as a box opens them.
func opened(t *testing.T, db *database.DB, c sealed.Column, b *secretbox.Box) []string {
	t.Helper()
	var texts, plain []string
	require.NoError(t, database.Unscoped(db.Read(t.Context())).Table(c.Table).Where(c.Name+" IS NOT NULL").Order("pk").Pluck(c.Name, &texts).Error)
	for _, text := range texts {
		secret, err := b.Open(text)
		require.NoError(t, err, "%s.%s", c.Table, c.Name)
		plain = append(plain, string(secret))
	}
	return plain
}

// Everything that is sealed at rest is sealed again, in batches; the new key alone
// opens it, and another run finds nothing to do.
func TestEverythingIsSealedAgain(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		const n = 5
		fill(t, db, box(t, first), n)
		s := sealed.New(sealed.Deps{DB: db, Box: box(t, second, first), Batch: 2})
		for _, step := range []struct {
			work                   func(ctx context.Context) ([]sealed.Report, error)
			current, old, resealed int64
		}{{s.Check, 0, n, 0}, {s.Rotate, n, 0, n}, {s.Rotate, n, 0, 0}, {s.Check, n, 0, 0}} {
			reports, err := step.work(t.Context())
			require.NoError(t, err)
			require.Len(t, reports, len(sealed.Columns()))
			for _, r := range reports {
				require.Equal(t, sealed.Report{Column: r.Column, Current: step.current, Old: step.old, Resealed: step.resealed}, r)
			}
		}
		for _, c := range sealed.Columns() {
			var want []string
			for i := range n {
				want = append(want, fmt.Sprintf("%s.%s %d", c.Table, c.Name, i))
			}
			require.Equal(t, want, opened(t, db, c, box(t, second)))
		}
		var audited int64
		require.NoError(t, database.Unscoped(db.Read(t.Context())).Table("audit_events").Where("action = 'key.rotate' AND uid = 'operator'").Count(&audited).Error)
		require.Equal(t, int64(3*len(sealed.Columns())), audited)
	})
}

// What no key opens is counted, and neither changed nor passed over in silence; the
// rest is sealed again.
func TestWhatNoKeyOpensIsCounted(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		fill(t, db, box(t, first), 1)
		lost := box(t, third).Seal([]byte("lost"))
		exec(t, db, "INSERT INTO mcp_clients (issuer, redirect_uri, client) VALUES ('lost', 'x', ?)", lost)
		exec(t, db, "INSERT INTO mcp_servers (name, type, uid, env) VALUES ('plain', 'stdio', 'u-anna', ?)", `{"KEY":"of another program"}`)
		reports, err := sealed.New(sealed.Deps{DB: db, Box: box(t, second, first)}).Rotate(t.Context())
		require.NoError(t, err)
		for _, r := range reports {
			want := sealed.Report{Column: r.Column, Current: 1, Resealed: 1}
			if r.Table == "mcp_clients" {
				want.Unknown = 1
			}
			require.Equal(t, want, r)
		}
		var after string
		require.NoError(t, database.Unscoped(db.Read(t.Context())).Table("mcp_clients").Where("issuer = 'lost'").Pluck("client", &after).Error)
		require.Equal(t, lost, after)
	})
}

// Tokens that a process is refreshing are left: it finds its row by their text, and the
// authorization server takes the refresh token once. A claim that is over holds nobody.
func TestTokensThatAreBeingRefreshedAreLeft(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		fill(t, db, box(t, first), 2)
		now := database.Now()
		for _, table := range []string{"toolset_grants", "mcp_credentials"} {
			exec(t, db, "UPDATE "+table+" SET refreshing_until = ? WHERE pk = (SELECT min(pk) FROM "+table+")", now.Add(time.Minute))
			exec(t, db, "UPDATE "+table+" SET refreshing_until = ? WHERE pk = (SELECT max(pk) FROM "+table+")", now.Add(-time.Minute))
		}
		clock := now
		s := sealed.New(sealed.Deps{DB: db, Box: box(t, second, first), Now: func() time.Time { return clock }})
		old := func() map[string]int64 {
			reports, err := s.Rotate(t.Context())
			require.NoError(t, err)
			left := map[string]int64{}
			for _, r := range reports {
				if r.Old > 0 {
					left[r.Table+"."+r.Name] = r.Old
				}
			}
			return left
		}
		require.Equal(t, map[string]int64{"toolset_grants.tokens": 1, "mcp_credentials.tokens": 1}, old())
		clock = now.Add(2 * time.Minute)
		require.Empty(t, old())
	})
}

// A value that is written while it is sealed again stays as it was written.
func TestAConcurrentChangeIsNotOverwritten(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		fill(t, db, box(t, first), 2)
		both := box(t, second, first)
		clients := sealed.Columns()[len(sealed.Columns())-1]
		require.Equal(t, "mcp_clients", clients.Table)
		n, err := sealed.New(sealed.Deps{DB: db, Box: both}).InTwo(t.Context(), clients, func() {
			exec(t, db, "UPDATE mcp_clients SET client = ? WHERE issuer = 't0'", both.Seal([]byte("changed meanwhile")))
		})
		require.NoError(t, err)
		require.Equal(t, int64(1), n)
		require.Equal(t, []string{"changed meanwhile", "mcp_clients.client 1"}, opened(t, db, clients, box(t, second)))
	})
}
