package tool

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/run"
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

// Adjust changes the settings of a service.
func Adjust(s *Service, change func(*Settings)) { change(&s.settings) }

// RegisterDecoder adds the execution route with nothing behind the decoder:
// it answers with the arguments as they were understood.
func RegisterDecoder(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{ID: "execute-tool", Method: "POST", Path: ExecutePath, Access: httpapi.Tools},
		func(_ context.Context, _ actor.Actor, in *executeInput) (map[string]any, error) {
			if _, err := run.ParseVersion("x-refly-result-version", in.Version); err != nil {
				return nil, err
			}
			read, err := Request{
				Toolset: in.Body.ToolsetKey, Tool: in.Body.ToolName, Arguments: in.Body.Arguments, IdempotencyKey: in.IdempotencyKey,
				Context: Context{ParentID: in.ParentID, ResultID: in.ResultID, CanvasID: in.CanvasID},
			}.decode()
			return read.arguments, err
		})
}
