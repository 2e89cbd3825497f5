package record_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
)

func TestRows(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) { record.CheckRows(t, db) })
}

// Each of ten runs of forty users has fifty calls, five of them of a program.
const manyCalls = `
INSERT INTO users (uid, name) SELECT 'u-' || u, 'u-' || u FROM generate_series(0, 39) u;
INSERT INTO tool_call_results (result_id, call_id, uid, toolset_id, tool_name, input, output, status, type, ptc_call_id, idempotency_key, lease_owner, lease_expires_at)
	SELECT 'ar-' || n / 50, 'call-' || n, 'u-' || n / 50 % 40, 'demo', 'list_cities', '{}', '{}',
		CASE WHEN n % 1000 = 7 THEN 'executing' ELSE 'completed' END, 'agent',
		CASE WHEN n % 50 BETWEEN 1 AND 5 THEN 'call-' || n / 50 * 50 END, CASE WHEN n % 50 > 45 THEN 'key of call-' || n END,
		CASE WHEN n % 1000 = 7 THEN 'pod' END, CASE WHEN n % 1000 = 7 THEN now() + interval '1 minute' END
	FROM generate_series(0, 19999) n;
ANALYZE tool_call_results`

// An index that no query uses is written with every call for nothing.
func TestEveryIndexIsUsedAndNoQueryReadsTheWholeTable(t *testing.T) {
	t.Parallel()
	address := databasetest.URL(t, database.Postgres)
	// One connection: it counts what it did itself.
	db, err := database.Open(t.Context(), database.Config{URL: address, MaxConnections: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error { return database.Unscoped(tx.Handle).Exec(manyCalls).Error }))
	scans := func() (whole int64) {
		t.Helper()
		g := database.Unscoped(db.Read(t.Context()))
		require.NoError(t, g.Exec("SELECT pg_stat_force_next_flush()").Error)
		require.NoError(t, g.Raw("SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'tool_call_results'").Scan(&whole).Error)
		return whole
	}
	before := scans()
	require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
		record.AskEverything(t, tx, run.Ref{UID: "u-1", ResultID: "ar-1"}, "call-50", "call-98")
		return nil
	}))
	require.Equal(t, before, scans(), "scans of the whole table")
	var unused []string
	require.NoError(t, database.Unscoped(db.Read(t.Context())).
		Raw("SELECT indexrelname FROM pg_stat_user_indexes WHERE relname = 'tool_call_results' AND idx_scan = 0").Scan(&unused).Error)
	// One is for what is kept no longer: modules/run/retention asks with it.
	require.Equal(t, []string{"tool_call_results_outside_idx"}, unused, "indexes that no query uses")
}

// A user may have very many calls that have ended. No query reads them all: its cost
// would grow with every call that was ever made.
func TestNoQueryReadsAllCallsOfAUser(t *testing.T) {
	t.Parallel()
	address := databasetest.URL(t, database.Postgres)
	db, err := database.Open(t.Context(), database.Config{URL: address, MaxConnections: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	const calls = 20_000
	require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
		return database.Unscoped(tx.Handle).Exec(strings.ReplaceAll(manyCalls, "'u-' || n / 50 % 40", "'u-1'")).Error
	}))
	read := func() (rows int64) {
		t.Helper()
		g := database.Unscoped(db.Read(t.Context()))
		require.NoError(t, g.Exec("SELECT pg_stat_force_next_flush()").Error)
		require.NoError(t, g.Raw("SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'tool_call_results'").Scan(&rows).Error)
		return rows
	}
	before := read()
	require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
		record.AskEverything(t, tx, run.Ref{UID: "u-1", ResultID: "ar-1"}, "call-50", "call-98")
		return nil
	}))
	all := read() - before
	t.Logf("%d rows were read", all)
	require.Less(t, all, int64(calls), "by all queries together, each of which was made eight times")
}
