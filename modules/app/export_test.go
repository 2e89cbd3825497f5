package app

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/internal/database"
)

// Count runs a query for one number.
func Count(t testing.TB, db *database.DB, sql string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw(sql, args...).Scan(&n).Error)
	return n
}
