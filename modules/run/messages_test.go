package run_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/modules/run"
)

// Messages keep their order whatever the clock says, take any text, and end
// with their run.
func TestMessages(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := newService(t, db)
		r := create(t, s, anna, run.CreateParams{Title: "talk"})
		add := func(m run.NewMessage) error {
			return db.InTx(t.Context(), func(tx database.Tx) error {
				return s.AddMessage(t.Context(), tx, r.Ref(), m)
			})
		}
		require.NoError(t, add(run.NewMessage{Event: 1, Type: run.Human, Content: "What?\x00\xff"}))
		require.NoError(t, add(run.NewMessage{Event: 3, MessageID: "am-own", Type: run.AI, Content: "This.", Reasoning: "Hm.", Usage: json.RawMessage(`{"inputTokens":5}`)}))
		require.NoError(t, add(run.NewMessage{Event: 5, Type: run.Tool, CallID: "agent:1", CallMeta: json.RawMessage(`{"toolName":"x"}`)}))
		got, err := s.Messages(t.Context(), anna, run.MessageFilter{ResultID: r.ResultID, Version: r.Version})
		require.NoError(t, err)
		require.Len(t, got, 3)
		require.Equal(t, "What?\uFFFD\uFFFD", got[0].Content)
		require.Equal(t, run.Message{
			Seq: 3, MessageID: "am-own", Type: run.AI, Content: "This.", Reasoning: "Hm.", Usage: json.RawMessage(`{"inputTokens":5}`), CallMeta: json.RawMessage{}, CreatedAt: noon,
		}, got[1])
		require.Equal(t, "agent:1", got[2].CallID)
		require.NoError(t, finish(t, db, s, r, run.Finish{Status: run.Done}))
		require.ErrorIs(t, add(run.NewMessage{Type: run.AI}), run.ErrEnded)
	})
}
