package tool_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool"
)

// messages are those of a run, and what each says of its call.
func (f *fixture) messages(r run.Run) (list []run.Message, metas []run.CallMeta) {
	f.t.Helper()
	list, err := f.runs.Messages(f.t.Context(), anna, run.MessageFilter{ResultID: r.ResultID, Version: r.Version})
	require.NoError(f.t, err)
	metas = make([]run.CallMeta, len(list))
	for i, m := range list {
		require.NoError(f.t, json.Unmarshal(m.CallMeta, &metas[i]))
		require.Equal(f.t, m.CallID, metas[i].ToolCallID)
		require.Equal(f.t, ids.MessageOf(m.CallID), m.MessageID)
	}
	return list, metas
}

// Every call of a run has its message from its start on, in the order in which
// the calls were seen, and the message says how the call ended.
func TestEveryCallHasItsMessage(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		r := f.startRun(anna)
		p := f.open(anna, r)
		req := request(`{"city":"Rome"}`)
		req.Context.ParentID = p.CallID
		began, finish, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		f.upstream.will(func(context.Context, tool.Invocation) (tool.Outcome, error) {
			close(began)
			<-finish
			f.pass(3 * time.Second)
			return tool.Outcome{Data: json.RawMessage(`1`)}, nil
		})
		go func() {
			_, err := f.execute(context.WithoutCancel(t.Context()), anna, req)
			done <- err
		}()
		<-began
		list, metas := f.messages(r)
		require.Len(t, list, 2)
		require.Equal(t, run.CallMeta{
			ToolName: "forecast", ToolsetID: "weather", ToolsetKey: "weather", ToolCallID: list[1].CallID, Status: "executing", StartTS: f.clock().UnixMilli(),
		}, metas[1])
		close(finish)
		require.NoError(t, <-done)
		f.upstream.will(func(context.Context, tool.Invocation) (tool.Outcome, error) {
			return tool.Outcome{Data: json.RawMessage(`1`)}, nil
		})

		// A call that the user saw while a model wrote it keeps its id and its place.
		var seen int64
		require.NoError(t, f.db.InTx(t.Context(), func(tx database.Tx) (err error) {
			seen, err = f.runs.Append(t.Context(), tx, r.Ref(), run.NewEvent{Type: run.ToolCallStream})
			return err
		}))
		bad := request(`{"town":"Rome"}`)
		bad.Context.ParentID = p.CallID
		_, err := f.execute(t.Context(), anna, bad)
		require.NoError(t, err)
		shown := record.Shown{CallID: f.records.NewID(ids.Agent), Event: seen}
		c, _, err := f.Service.ExecuteForModel(t.Context(), anna, r, tool.ModelCall{Shown: shown, Toolset: "weather", Tool: "forecast", Arguments: json.RawMessage(`{"city":"Rome"}`)})
		require.NoError(t, err)
		require.Equal(t, shown.CallID, c.CallID)
		f.close(p)

		list, metas = f.messages(r)
		var order, states []string
		for i, m := range list {
			order, states = append(order, m.CallID), append(states, metas[i].Status)
		}
		calls := f.calls(anna)
		require.Equal(t, []string{p.CallID, calls[1].CallID, shown.CallID, calls[2].CallID}, order)
		require.Equal(t, []string{"completed", "completed", "completed", "failed"}, states)
		require.Equal(t, int64(3000), metas[1].EndTS-metas[1].StartTS)
		for i, m := range list {
			record, err := f.records.Call(t.Context(), anna, m.CallID)
			require.NoError(t, err)
			require.Equal(t, record.UpdatedAt.UnixMilli(), metas[i].EndTS, "the message ends when the record does")
		}
	})
}

// The messages of what a dead process left say that it failed; a call that ends
// after its run keeps its message in order, too.
func TestMessagesOfCallsThatEndLate(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		r, _, back := abandon(t, f)
		defer back()
		require.NoError(t, f.db.InTx(t.Context(), func(tx database.Tx) error {
			return f.runs.Finish(t.Context(), tx, r.Ref(), run.Finish{Status: run.Aborted})
		}))
		g := f.again("process-2")
		g.pass(leaseTime + time.Second)
		require.NoError(t, g.Keeper.Reap(t.Context()))
		_, metas := f.messages(r)
		require.Len(t, metas, 2)
		for _, m := range metas {
			require.Equal(t, "failed", m.Status)
			require.Equal(t, g.clock().UnixMilli(), m.EndTS)
		}
	})
}
