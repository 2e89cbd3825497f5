package stream_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/sse"
	"github.com/portico-run/portico/modules/run"
)

// read asks for a run and returns the status and the data.
func (p *pod) read(t *testing.T, uid, query string) (int, map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/v1/action/result"+query, nil)
	require.NoError(t, err)
	r.Header.Set("X-Api-Key", uid)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	var answer map[string]any
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
	data, ok := answer["data"].(map[string]any)
	if !ok {
		return resp.StatusCode, answer
	}
	return resp.StatusCode, data
}

// record adds a call to a run as the tool module does: with a message that the
// event brings.
func (p *pod) record(t *testing.T, r run.Run, callID, parent, output string) {
	t.Helper()
	require.NoError(t, p.db.InTx(t.Context(), func(tx database.Tx) error {
		err := database.Unscoped(tx.Handle).Exec(`INSERT INTO tool_call_results
			(result_id, version, call_id, uid, toolset_id, tool_name, step_name, input, output, status, type, ptc_call_id)
			VALUES (?, ?, ?, ?, 'weather', 'forecast', 'execute_code', '{"input":{}}', ?, 'completed', 'ptc', ?)`,
			r.ResultID, r.Version, callID, r.UID, output, parent).Error
		if err != nil {
			return err
		}
		_, err = p.runs.Append(t.Context(), tx, r.Ref(), run.NewEvent{
			Type: run.ToolCallEnd, CallID: callID,
			Message: &run.NewMessage{MessageID: ids.MessageOf(callID), Type: run.Tool, CallID: callID, CallMeta: json.RawMessage(`{"toolCallId":"stale"}`)},
		})
		return err
	}))
}

// speak adds a message of a model with the event that shows it.
func (p *pod) speak(t *testing.T, r run.Run, text string) {
	t.Helper()
	require.NoError(t, p.db.InTx(t.Context(), func(tx database.Tx) error {
		_, err := p.runs.Append(t.Context(), tx, r.Ref(), run.NewEvent{
			Type: run.Stream, Payload: map[string]any{"content": text},
			Message: &run.NewMessage{Type: run.AI, Content: text, Reasoning: "Hm.", Usage: json.RawMessage(`{"inputTokens":3,"outputTokens":5}`)},
		})
		return err
	}))
}

func list(v any) []map[string]any {
	out := []map[string]any{}
	for _, item := range v.([]any) {
		out = append(out, item.(map[string]any))
	}
	return out
}

// A run that is read again has its messages in the order in which they were
// shown, each call as its event has it, and the steps made of both.
func TestARunIsReadAgain(t *testing.T) {
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			p := newPod(t, d, time.Minute, sse.Server{})
			r := p.create(t)
			p.speak(t, r, "I look. ")
			p.record(t, r, "agent:1", "agent:1", `{"status":"success","data":1}`)
			p.record(t, r, "ptc_legacy-1", "agent:1", `{"status":"success","data":2}`)
			p.speak(t, r, "Done.")
			require.NoError(t, p.finish(t.Context(), r))

			status, data := p.read(t, anna.UID, "?resultId="+r.ResultID)
			require.Equal(t, 200, status)
			require.Equal(t, r.ResultID, data["resultId"])
			require.Nil(t, data["messagesCursor"])
			messages := list(data["messages"])
			require.Len(t, messages, 4)
			child := messages[2]
			require.Equal(t, ids.MessageOf("ptc_legacy-1"), child["messageId"])
			require.Equal(t, true, child["isPtc"])
			require.Equal(t, "agent:1", child["toolCallResult"].(map[string]any)["ptcCallId"])

			var event map[string]any
			for f := framesOf(p.watch(t, anna, r.ResultID, "", "").Body); ; {
				e, err := f.next()
				require.NoError(t, err)
				if e.data["messageId"] == child["messageId"] {
					event = e.data
					break
				}
			}
			for _, member := range []string{"messageId", "isPtc", "toolCallMeta", "toolCallResult"} {
				require.Empty(t, cmp.Diff(event[member], child[member]), member)
			}

			steps := list(data["steps"])
			require.Len(t, steps, 2)
			require.Equal(t, "answer", steps[0]["name"])
			require.Equal(t, "I look. Done.", steps[0]["content"])
			require.Equal(t, "Hm.Hm.", steps[0]["reasoningContent"])
			require.Len(t, steps[0]["tokenUsage"], 2)
			require.InDelta(t, 5, list(steps[0]["tokenUsage"])[1]["outputTokens"], 0)
			require.Equal(t, "execute_code", steps[1]["name"])
			require.Empty(t, cmp.Diff([]any{messages[1]["toolCallResult"], messages[2]["toolCallResult"]}, steps[1]["toolCalls"]))

			foreign, refusal := p.read(t, ben.UID, "?resultId="+r.ResultID)
			require.Equal(t, 404, foreign)
			require.Equal(t, "E1011", refusal["errCode"])
			for _, query := range []string{"", "?resultId=", "?resultId=ar-1&version=x", "?resultId=ar-1&version=-2", "?resultId=" + r.ResultID + "&messagesAfter=!"} {
				status, refusal = p.read(t, anna.UID, query)
				require.Equal(t, 400, status, query)
				require.Equal(t, "E0003", refusal["errCode"], query)
			}
		})
	}
}

// A run with more than fits into one answer comes whole in several, and each
// but the last says that there is more.
func TestALargeRunIsReadInParts(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]struct {
		calls, bytes, atLeast int
	}{
		"many calls":  {1100, 10, 2},
		"large calls": {40, 512 << 10, 2},
		"an ordinary": {200, 100, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPod(t, database.SQLite, time.Minute, sse.Server{})
			r := p.create(t)
			p.record(t, r, "agent:1", "agent:1", "")
			for n := range size.calls {
				p.record(t, r, fmt.Sprintf("ptc:%d", n), "agent:1", fmt.Sprintf("%q", strings.Repeat("a", size.bytes)))
			}
			var got []string
			parts := 0
			for after, more := "", true; more; parts++ {
				status, data := p.read(t, anna.UID, "?resultId="+r.ResultID+"&version=0&messagesAfter="+after)
				require.Equal(t, 200, status)
				messages := list(data["messages"])
				require.LessOrEqual(t, len(messages), 1000+16)
				bytes := 0
				for _, m := range messages {
					got = append(got, m["toolCallId"].(string))
					result := m["toolCallResult"].(map[string]any)
					text, _ := result["output"].(string)
					bytes += len(text)
				}
				require.Less(t, bytes, 8<<20+16*(600<<10), "the memory of one answer is bounded")
				require.Len(t, list(data["steps"])[0]["toolCalls"], len(messages))
				after, more = data["messagesCursor"].(string)
			}
			require.GreaterOrEqual(t, parts, size.atLeast)
			if size.atLeast == 1 {
				require.Equal(t, 1, parts, "two hundred calls are one answer")
			}
			require.Len(t, got, size.calls+1)
			for n := range size.calls {
				require.Equal(t, fmt.Sprintf("ptc:%d", n), got[n+1])
			}
		})
	}
}
