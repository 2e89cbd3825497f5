package tool_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool"
)

// What a call read is not shown where it is only listed.
func TestDisplayLeavesOutWhatWasRead(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		r, send := f.startRun(anna), serve(t, f)
		displayed := func(callID string) string {
			got := send("GET", "/v1/cli/tool-call/"+callID+"?sanitizeForDisplay=true", "")
			require.Equal(t, 200, got.status, got.body)
			output, err := json.Marshal(got.body["data"].(map[string]any)["output"])
			require.NoError(t, err)
			return string(output)
		}
		for name, c := range map[string]struct{ input, data, shown string }{
			"read_file":         {`{"name":"a.txt"}`, `{"text":"private","bytes":7}`, `{"content":"[Content omitted for display]"}`},
			"read_agent_result": {`{"result_id":"ar-1"}`, `{"title":"A title that is rather long","answer":"private"}`, `{"title":"A title that is rath...","resultId":"ar-1"}`},
			"read_tool_result":  {`{"call_id":"ptc:1"}`, `{"text":"private"}`, `{"callId":"ptc:1","toolName":"read_tool_result","status":"success"}`},
			"get_time":          {`{}`, `"2026"`, `"2026"`},
		} {
			call, _, err := f.Service.Perform(t.Context(), anna, r, tool.ModelCall{Tool: name, Arguments: []byte(c.input)}, func(context.Context) record.Answer {
				return record.Answer{Status: record.Success, Data: json.RawMessage(c.data)}
			})
			require.NoError(t, err)
			require.JSONEq(t, `{"status":"success","data":`+c.shown+`}`, displayed(call.CallID), name)
		}
		failed, _, err := f.Service.Perform(t.Context(), anna, r, tool.ModelCall{Tool: "read_file", Arguments: []byte(`{}`)}, func(context.Context) record.Answer {
			return record.Refuse("FAILED", "there is no file")
		})
		require.NoError(t, err)
		require.JSONEq(t, `{"status":"error","error":"there is no file","errorCode":"FAILED"}`, displayed(failed.CallID))
	})
}
