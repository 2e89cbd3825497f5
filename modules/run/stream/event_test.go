package stream

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestEveryEventHasItsForm(t *testing.T) {
	t.Parallel()
	began := time.UnixMilli(1_772_600_000_000)
	ended := began.Add(1500 * time.Millisecond)
	payload := func(s string) json.RawMessage { return json.RawMessage(s) }
	calls := map[string]record.Call{
		"ptc:ok": {
			CallID: "ptc:ok", ParentID: "agent:text", Origin: ids.PTC, Toolset: "weather", Tool: "forecast", Status: record.Completed,
			Input: payload("{\n  \"input\": {\"city\": \"Zürich <b>\"}\n}"), Output: payload(`{"status":"success","data":[1,2.50]}`),
			CreatedAt: began, UpdatedAt: ended,
		},
		"ptc:bad": {
			CallID: "ptc:bad", Origin: ids.PTC, Toolset: "weather", Tool: "forecast", StepName: "tools", Status: record.Failed,
			Input: payload("not JSON"), Output: payload(""), Error: "upstream said no", CreatedAt: began, UpdatedAt: ended,
		},
		"agent:text": {
			CallID: "agent:text", Origin: ids.Agent, Toolset: "builtin", Tool: "execute_code", Status: record.Completed,
			Input: payload(`{"input":{"code":"print(1)"}}`), Output: payload("line 1\r\nline 2\u2028"), CreatedAt: began, UpdatedAt: ended,
		},
	}
	for name, e := range map[string]run.Event{
		"start":                 {Type: run.Start, Payload: payload(`{}`)},
		"tool_call_start":       {Type: run.ToolCallStart, CallID: "agent:text", Payload: payload(`{}`)},
		"tool_call_start_child": {Type: run.ToolCallStart, CallID: "ptc:ok", Payload: payload(`{}`)},
		"tool_call_end":         {Type: run.ToolCallEnd, CallID: "agent:text", Payload: payload(`{}`)},
		"tool_call_end_child":   {Type: run.ToolCallEnd, CallID: "ptc:ok", Payload: payload(`{}`)},
		"tool_call_error_child": {Type: run.ToolCallError, CallID: "ptc:bad", Payload: payload(`{}`)},
		"tool_call_end_gone":    {Type: run.ToolCallEnd, CallID: "ptc:2f1f3c4e-8a0b-4c7d-9e6f-0a1b2c3d4e5f", Payload: payload(`{}`)},
		"log": {Type: run.Log, CallID: "agent:text", Payload: payload(
			`{"log":{"level":"info","stream":"stdout","content":"a < b\n"}}`)},
		"log_without_call": {Type: run.Log, Payload: payload(`{"log":{"level":"error","stream":"stderr","content":"x"}}`)},
		"error": {Type: run.Error, Payload: payload(
			`{"error":{"success":false,"errCode":"E0000","errMsg":"failed"},"originError":"cause","event":"forged"}`)},
		"stream":      {Type: run.Stream, Payload: payload(`{"content":"Hi","messageId":"am-2"}`)},
		"token_usage": {Type: run.TokenUsage, Payload: payload(`{"tokenUsage":{"inputTokens":12345678901234567890}}`)},
		"end":         {Type: run.End, Payload: payload(`{"status":"finish"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e.Seq = 7
			got, err := render(run.Run{ResultID: "ar-1", Version: 2}, e, calls)
			require.NoError(t, err)
			require.NotContains(t, string(got), "\n")
			require.NotContains(t, string(got), "\r")
			require.True(t, json.Valid(got), string(got))
			path := filepath.Join("testdata", name+".json")
			if *update {
				require.NoError(t, os.WriteFile(path, append(got, '\n'), 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(string(want), string(got)+"\n"))
		})
	}
}

func TestPayloadThatIsNoObjectIsAnError(t *testing.T) {
	t.Parallel()
	for _, typ := range []run.EventType{run.Log, run.ToolCallEnd} {
		_, err := render(run.Run{}, run.Event{Seq: 7, Type: typ, Payload: json.RawMessage(`[]`)}, nil)
		require.ErrorContains(t, err, "event 7")
	}
}
