package tool_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool"
)

// A program calls the functions it is lent, as any tool and for nothing, until
// they are taken back.
func TestAProgramCallsWhatItIsLent(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		p := f.open(anna, f.startRun(anna))
		f.Service.Lend(p.CallID, []tool.Function{{
			Name: "double", Schema: json.RawMessage(`{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}},"additionalProperties":false}`),
			Run: func(_ context.Context, arguments json.RawMessage) record.Answer {
				return record.Answer{Status: record.Success, Data: arguments}
			},
		}})
		call := func(parent, name, arguments string) record.Answer {
			answer, err := f.execute(t.Context(), anna, tool.Request{
				Toolset: ptc.Own, Tool: name, Arguments: json.RawMessage(arguments), Context: tool.Context{ParentID: parent},
			})
			require.NoError(t, err)
			return answer
		}
		got := call(p.CallID, "double", `{"n":12345678901234567890}`)
		require.Equal(t, record.Success, got.Status, got.Error)
		require.JSONEq(t, `{"n":12345678901234567890}`, string(got.Data))
		require.Equal(t, "INVALID_ARGUMENTS", call(p.CallID, "double", `{"n":"x"}`).ErrorCode)
		require.Equal(t, "METHOD_NOT_FOUND", call(p.CallID, "triple", `{}`).ErrorCode)
		require.Equal(t, "TOOLSET_NOT_ALLOWED", call("", "double", `{"n":1}`).ErrorCode)
		f.Service.TakeBack(p.CallID)
		require.Equal(t, "TOOLSET_NOT_ALLOWED", call(p.CallID, "double", `{"n":1}`).ErrorCode)
		f.close(p)
		require.Equal(t, "0", f.balance(anna))
	})
}

// What the upstream says a call costs is charged instead of the toolset's price,
// and never for a failure.
func TestTheUpstreamSaysWhatACallCosts(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		cost := 7 * money.Credit
		out := tool.Outcome{Data: json.RawMessage(`1`), Cost: &cost}
		f.upstream.will(func(context.Context, tool.Invocation) (tool.Outcome, error) { return out, nil })
		_, err := f.execute(t.Context(), anna, request(`{"city":"Rome"}`))
		require.NoError(t, err)
		require.Equal(t, "-7", f.balance(anna))
		out.Failure = &tool.Failure{Code: "X", Message: "no"}
		_, err = f.execute(t.Context(), anna, request(`{"city":"Rome"}`))
		require.NoError(t, err)
		require.Equal(t, "-7", f.balance(anna))
		require.Equal(t, record.Failed, f.calls(anna)[1].Status)
	})
}
