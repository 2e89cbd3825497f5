// Slow under the race detector: make test runs it without.
//go:build !race

package app_test

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/scripted"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/tool/approval"
)

// Conversations in every form of every vendor go on whichever process their requests
// come to; ids of another tenant's are refused by any of them as those that there never
// were, and the model is asked no more often.
func TestAnyProcessContinuesAConversation(t *testing.T) {
	testenv.Slow(t, "two whole servers at work")
	t.Parallel()
	script, err := scripted.Parse([]byte(tenantScript("alder") + tenantScript("birch")))
	require.NoError(t, err)
	model := scripted.New(script)
	upstream := httptest.NewServer(model)
	t.Cleanup(upstream.Close)
	all := together(t, 2, "MODEL_NAME=scripted", "MODEL_BASE_URL="+upstream.URL, "MODEL_API_KEY=none", "LOG_LEVEL=warn")
	front := balanced(t, all)
	both := [2]*tenant{all[0].tenant("alder"), all[0].tenant("birch")}
	for _, one := range both {
		one.s = front
	}
	const pairs = 8 // each form, in one piece and as a stream
	for n := range pairs {
		one, other := both[0].talk(n), both[1].talk(n)
		for _, step := range []func(one, other *tenantTalk) error{(*tenantTalk).begins, (*tenantTalk).triesCalls, (*tenantTalk).answers, (*tenantTalk).triesApproval, (*tenantTalk).ends} {
			require.NoError(t, step(one, other))
			require.NoError(t, step(other, one))
		}
	}
	for i, one := range both {
		require.NotEmpty(t, one.texts)
		other := both[1-i]
		for _, text := range one.texts {
			require.NotContains(t, text, tenantSecret+other.name)
		}
	}
	require.Len(t, model.Requests(), 2*2*pairs, "each conversation asks twice, and no attempt does")

	// A request that is sent again, to another process, is not worked on again.
	talk := both[0].talk(102)
	form, ok := talk.form.(*chatForm)
	require.True(t, ok)
	body := form.body(talk, object{"role": "user", "content": talk.says("plain")})
	first := all[0].send(both[0].key, "POST", "/v1/chat/completions", body, "X-Stainless-Retry-Count", "0")
	require.Equal(t, 200, first.status, first.raw)
	again := all[1].send(both[0].key, "POST", "/v1/chat/completions", body, "X-Stainless-Retry-Count", "1")
	require.Equal(t, first.raw, again.raw)
	require.Len(t, model.Requests(), 2*2*pairs+1)
}

// A session of an MCP client goes on whichever process its requests come to, also while
// somebody is asked in it, and is nobody else's at any of them.
func TestAnyProcessAnswersInASession(t *testing.T) {
	testenv.Slow(t, "two whole servers at work")
	t.Parallel()
	all := together(t, 2)
	front := balanced(t, all)
	require.NoError(t, all[0].app.Approvals.Service.SetRule(t.Context(), approval.Rule{Toolset: "demo", Level: approval.Always}))
	ben := all[0].another("ben")
	for range 2 { // one is begun at each process
		session := front.agent(front.key, "2025-11-25", willing(allowing()))
		require.NotEmpty(t, session.ID())
		for range 3 {
			r, text, _ := call(t, session, "run_code", map[string]any{"code": careful})
			require.Equal(t, "completed", r.Status, text)
		}
		for range 2 {
			list := map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
			a := front.send(ben, "POST", "/mcp", list, "Mcp-Session-Id", session.ID(), "Accept", "application/json, text/event-stream")
			require.Equal(t, 404, a.status, a.raw)
			require.Equal(t, 404, front.send(ben, "DELETE", "/mcp", nil, "Mcp-Session-Id", session.ID()).status)
		}
		require.Equal(t, 200, front.send(front.key, "DELETE", "/mcp", nil, "Mcp-Session-Id", session.ID()).status)
		require.Equal(t, 404, front.send(front.key, "DELETE", "/mcp", nil, "Mcp-Session-Id", session.ID()).status)
	}
	for _, s := range all {
		_, sessions := s.app.Clients.Kept.Kept()
		require.Zero(t, sessions)
	}
	gone := front.send(front.key, "DELETE", "/mcp", nil, "Mcp-Session-Id", "K7QF2XV5N3ZJ4T6WYB2DHMPRSA-proc-000000000000000000000000")
	require.Equal(t, 404, gone.status, gone.raw)
}
