package holdings_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/modules/run/retention/holdings"
)

// What a row names and nobody stored is missing, and what nobody names is orphaned, but
// for what is on its way out.
func TestMissingAndOrphanedObjectsAreNamed(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		folder, err := objectstore.NewFolder(t.TempDir())
		require.NoError(t, err)
		for _, sql := range []string{
			"INSERT INTO users (uid, name) VALUES ('u', 'anna')",
			"INSERT INTO drive_files (file_id, uid, canvas_id, name, type, category, storage_key) VALUES ('1', 'u', 'c', 'a', 'x', 'x', 'drive/u/c/a'), ('2', 'u', 'c', 'b', 'x', 'x', 'drive/u/c/b')",
			"INSERT INTO code_sessions (session_id, uid, expires_at) VALUES ('s', 'u', '2040-01-01')",
			"INSERT INTO code_files (file_id, session_id, uid, name, size, content_type, digest) VALUES ('f', 's', 'u', 'x', 1, 'x', 'x'), ('g', 's', 'u', 'y', 1, 'x', 'x')",
			// The second holds the answer of another call, and is whole.
			`INSERT INTO tool_call_results (call_id, result_id, uid, toolset_id, tool_name, input, output, status) VALUES
				('ptc:1', 'r', 'u', 'demo', 'x', '{}', '{"truncated":{"bytes":1,"ref":"/v1/tool/call/output?toolCallId=ptc%3A1"}}', 'completed'),
				('ptc:2', 'r', 'u', 'demo', 'x', '{}', '{"data":{"truncated":{"bytes":1,"ref":"/v1/tool/call/output?toolCallId=ptc%3A1"}}}', 'completed')`,
			"INSERT INTO object_deletions (uid, key, due_at) VALUES ('u', 'drive/u/c/leaving', '2040-01-01')",
		} {
			require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error { return database.Unscoped(tx.Handle).Exec(sql).Error }), sql)
		}
		for _, key := range []string{"drive/u/c/a", "drive/u/c/nobody", "drive/u/c/leaving", "code/u/s/f", "temporary/1/u/x", "sdk/x"} {
			require.NoError(t, folder.Put(t.Context(), key, strings.NewReader("x"), ""))
		}
		got, err := holdings.New(holdings.Deps{DB: db, Objects: folder}).Verify(t.Context())
		require.NoError(t, err)
		require.Equal(t, holdings.Report{Named: 5, Missing: []string{"code/u/s/g", "drive/u/c/b", "tool-output/u/ptc:1.json"}, Orphans: []string{"drive/u/c/nobody"}}, got)
	})
}

// seen lists an object that is gone a moment later.
type seen struct {
	objectstore.Store

	once sync.Once
}

func (s *seen) List(ctx context.Context, prefix string) ([]string, error) {
	keys, err := s.Store.List(ctx, prefix)
	s.once.Do(func() { keys = append(keys, "drive/u/c/gone") })
	return keys, err
}

// What is taken away while it is compared is no orphan.
func TestWhatGoesMeanwhileIsNoOrphan(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.SQLite, nil)
	folder, err := objectstore.NewFolder(t.TempDir())
	require.NoError(t, err)
	got, err := holdings.New(holdings.Deps{DB: db, Objects: &seen{Store: folder}}).Verify(t.Context())
	require.NoError(t, err)
	require.Equal(t, holdings.Report{}, got)
}
