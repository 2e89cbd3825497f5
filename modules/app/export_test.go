package app

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
)

// Count runs a query for one number.
func Count(t testing.TB, db *database.DB, sql string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw(sql, args...).Scan(&n).Error)
	return n
}

// CheckObjects is the doctor's look at the object storage.
func (a *App) CheckObjects(ctx context.Context) Check { return a.checkObjects(ctx) }

// Exec runs a statement.
func Exec(t testing.TB, db *database.DB, sql string, args ...any) {
	t.Helper()
	require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error { return database.Unscoped(tx.Handle).Exec(sql, args...).Error }))
}
