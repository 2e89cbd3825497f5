package tool_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool"
)

// limited is the key of anna's programs.
var limited = actor.Actor{UID: anna.UID, KeyID: "k-program", Scope: actor.ToolExecute}

// The key of a program counts while that program executes, for the toolsets
// that the program has, and for nothing else.
func TestKeysOfProgramsCountWithAnExecutingProgram(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		elsewhere := f.again("process-2")
		r := f.startRun(anna)
		p, other := f.open(anna, r, "weather"), f.open(ben, f.startRun(ben))
		_, direct, err := f.Service.ExecuteForModel(t.Context(), anna, r, tool.ModelCall{Toolset: "weather", Tool: "free", Arguments: json.RawMessage(`{}`)})
		require.NoError(t, err)
		require.Equal(t, record.Success, direct.Status)
		calls := f.calls(anna)
		ask := func(g *fixture, parent string) error {
			req := request(`{"city":"Rome"}`)
			req.IdempotencyKey, req.Context.ParentID = "k", parent
			_, err := g.execute(t.Context(), limited, req)
			return err
		}
		require.ErrorIs(t, ask(f, ""), record.ErrProgramMissing)
		require.ErrorIs(t, ask(f, other.CallID), record.ErrParentForeign)
		require.ErrorIs(t, ask(f, "agent:none"), record.ErrParentForeign)
		require.ErrorIs(t, ask(f, calls[len(calls)-1].CallID), record.ErrParentForeign, "a call that is no program")
		for _, g := range []*fixture{f, elsewhere} {
			require.NoError(t, ask(g, p.CallID))
		}
		req := tool.Request{Toolset: "other", Tool: "go", Context: tool.Context{ParentID: p.CallID}}
		answer, err := f.execute(t.Context(), limited, req)
		require.NoError(t, err)
		require.Equal(t, tool.CodeNotAllowed, answer.ErrorCode)

		f.close(p)
		for _, g := range []*fixture{elsewhere, f} {
			require.ErrorIs(t, ask(g, p.CallID), record.ErrParentEnded, "also for a request that was answered before")
		}
	})
}

// A program whose record cannot be read, or that has no tools, gets none.
func TestUnreadableProgramsCallNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		for _, input := range []string{
			`not JSON`, `{}`, `{"input":{}}`, `{"input":{"code":"x","language":"python","toolsets":"weather"}}`, `{"input":{"code":"x","language":"python","plain":true}}`,
		} {
			p := f.open(anna, f.startRun(anna))
			tool.Exec(t, f.db, `UPDATE tool_call_results SET input = ? WHERE call_id = ?`, input, p.CallID)
			req := request(`{"city":"Rome"}`)
			req.Context.ParentID = p.CallID
			answer, err := f.execute(t.Context(), anna, req)
			require.NoError(t, err)
			require.Equal(t, tool.CodeNotAllowed, answer.ErrorCode, input)
			require.Contains(t, answer.Error, "it was given none")
			_, err = f.execute(t.Context(), limited, req)
			require.ErrorIs(t, err, record.ErrParentForeign, input)
		}
		require.Empty(t, f.upstream.seen())
	})
}

// A program reads the outputs of its own run, and no others of its user.
func TestProgramsReadOutputsOfTheirRun(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		send := serve(t, f)
		f.answers(rows(500))
		p, q := f.open(anna, f.startRun(anna)), f.open(anna, f.startRun(anna))
		require.Equal(t, 200, send("POST", tool.ExecutePath, forecast, "x-ptc-call-id", p.CallID).status)
		require.Equal(t, 200, send("POST", tool.ExecutePath, forecast).status)
		calls := f.calls(anna)
		child, outside := calls[2].CallID, calls[3].CallID
		get := func(callID, program string) int {
			return send("GET", record.OutputPath+"?toolCallId="+callID, "", "X-API-Key", "rf_u-anna-tool", "x-ptc-call-id", program).status
		}
		require.Equal(t, 200, get(child, p.CallID))
		require.Equal(t, 404, get(child, q.CallID))
		require.Equal(t, 404, get(outside, p.CallID))
		require.Equal(t, 403, get(child, ""))
		f.close(p)
		require.Equal(t, 409, get(child, p.CallID))
	})
}
