package tool_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool"
)

// What a model calls is recorded as its own, shown in its run, and free where
// the server is the tool itself; a panic costs that call only.
func TestCallsOfAModel(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		r := f.startRun(anna)
		c, answer, err := f.Service.Perform(t.Context(), anna, r, tool.ModelCall{Tool: "get_time", Arguments: json.RawMessage(`{"zone":"UTC"}`)}, func(context.Context) tool.Answer {
			return tool.Answer{Status: tool.Success, Data: json.RawMessage(`"noon"`)}
		})
		require.NoError(t, err)
		require.Equal(t, tool.Success, answer.Status)
		_, answer, err = f.Service.Perform(t.Context(), anna, r, tool.ModelCall{Tool: "broken", Arguments: json.RawMessage(`{}`)}, func(context.Context) tool.Answer { panic("inside") })
		require.NoError(t, err)
		require.Equal(t, tool.CodeInternal, answer.ErrorCode)
		require.NotContains(t, answer.Error, "inside")

		req := request(`{"city":"Rome"}`)
		executed, answer, err := f.Service.ExecuteForModel(t.Context(), anna, r, tool.ModelCall{Toolset: req.Toolset, Tool: req.Tool, Arguments: req.Arguments})
		require.NoError(t, err)
		require.Equal(t, tool.Success, answer.Status)

		calls := f.calls(anna)
		require.Len(t, calls, 3)
		require.Equal(t, c.CallID, calls[0].CallID)
		require.Equal(t, executed.CallID, calls[2].CallID)
		require.JSONEq(t, `{"input":{"zone":"UTC"}}`, string(calls[0].Input))
		for _, made := range calls {
			require.Equal(t, ids.Agent, made.Origin)
			require.Empty(t, made.ParentID)
		}
		require.Equal(t, record.Completed, calls[0].Status)
		require.Equal(t, record.Failed, calls[1].Status)
		require.Equal(t, record.Builtin, calls[0].Toolset)
		require.Len(t, f.events(anna, r), 1+6)
	})
}
