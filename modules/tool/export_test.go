package tool

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/httpapi"
)

// Exec runs SQL for a test.
func Exec(t testing.TB, db *database.DB, sql string, args ...any) {
	t.Helper()
	require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
		return database.Unscoped(tx.Handle).Exec(sql, args...).Error
	}))
}

// Count runs a query for one number.
func Count(t testing.TB, db *database.DB, sql string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw(sql, args...).Scan(&n).Error)
	return n
}

// CheckRows compares the row struct with the schema.
func CheckRows(t *testing.T, db *database.DB) {
	t.Helper()
	databasetest.CheckRow(t, db, callRow{})
}

// Renew prolongs a keeper's leases once.
func Renew(ctx context.Context, k *Keeper) error { return k.renew(ctx) }

// SetPatience sets how long the end of a program waits for its calls.
func SetPatience(s *Service, d time.Duration) { s.patience = d }

// RegisterDecoder adds the execution route with nothing behind the decoder:
// it answers with the arguments as they were understood.
func RegisterDecoder(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{ID: "execute-tool", Method: "POST", Path: ExecutePath, Access: httpapi.Tools},
		func(_ context.Context, _ actor.Actor, in *executeInput) (map[string]any, error) {
			if _, err := parseVersion("x-refly-result-version", in.Version); err != nil {
				return nil, err
			}
			return decodeArguments(Request{
				Toolset: in.Body.ToolsetKey, Tool: in.Body.ToolName, Arguments: in.Body.Arguments, IdempotencyKey: in.IdempotencyKey,
				Context: Context{ParentID: in.ParentID, ResultID: in.ResultID, CanvasID: in.CanvasID},
			})
		})
}

// Displayed is the output of a call as it is shown.
func Displayed(c Call) (json.RawMessage, error) { return displayed(c) }
