package tool_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool"
)

// door lets in whoever says who they are; keys ending in -tool are limited.
type door struct{}

func (door) Authenticate(_ context.Context, c httpapi.Credentials) (actor.Actor, error) {
	uid := strings.TrimPrefix(c.APIKey, "rf_")
	if rest, limited := strings.CutSuffix(uid, "-tool"); limited {
		return actor.Actor{UID: rest, Scope: actor.ToolExecute}, nil
	}
	return actor.Actor{UID: uid, Scope: actor.Full}, nil
}

type reply struct {
	status int
	header http.Header
	length int
	body   map[string]any
}

// serve answers requests as the server would.
func serve(t *testing.T, f *fixture) func(method, path, body string, headers ...string) reply {
	t.Helper()
	api := httpapi.New(httpapi.Deps{Auth: door{}, Logger: slog.New(slog.DiscardHandler), BodyLimit: 1 << 20, Version: "test"})
	f.Register(api)
	(&record.Module{Service: f.records}).Register(api)
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	return func(method, path, body string, headers ...string) reply {
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("X-API-Key", "rf_u-anna")
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		got := reply{status: resp.StatusCode, header: resp.Header, length: len(text)}
		require.NoError(t, json.Unmarshal(text, &got.body), string(text))
		return got
	}
}

func TestExecuteOverHTTP(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		send := serve(t, f)
		r := f.startRun(anna)
		p := f.open(anna, r, "weather")
		body := `{"toolsetKey":"weather","toolName":"forecast","arguments":{"city":"Rome"},"extra":1}`
		got := send("POST", "/v1/tool/execute", body, "x-ptc-call-id", p.CallID, "X-Refly-Result-Id", r.ResultID,
			"x-refly-result-version", "0", "X-API-Key", "rf_u-anna-tool")
		require.Equal(t, 200, got.status, got.body)
		require.Equal(t, map[string]any{"success": true, "data": map[string]any{"status": "success", "data": map[string]any{"sky": "clear"}}}, got.body)

		child := f.calls(anna)[1]
		got = send("GET", "/v1/tool/call/result?toolCallId="+child.CallID, "")
		require.Equal(t, 200, got.status)
		result := got.body["data"].(map[string]any)["result"].(map[string]any)
		require.Equal(t, "completed", result["status"])
		require.Equal(t, map[string]any{"input": map[string]any{"city": "Rome"}}, result["input"])
		require.Equal(t, p.CallID, result["ptcCallId"])
		require.Empty(t, result["error"])

		got = send("GET", "/v1/tool/call/output?toolCallId="+child.CallID, "")
		require.Equal(t, map[string]any{"sky": "clear"}, got.body["data"])

		var ids []string
		path := "/v1/tool/calls?limit=1&version=0&resultId=" + r.ResultID
		for cursor := ""; ; {
			got = send("GET", path+"&cursor="+cursor, "")
			require.Equal(t, 200, got.status, got.body)
			page := got.body["data"].(map[string]any)
			for _, item := range page["items"].([]any) {
				ids = append(ids, item.(map[string]any)["callId"].(string))
			}
			next, more := page["nextCursor"].(string)
			if !more {
				break
			}
			cursor = next
		}
		require.Equal(t, []string{p.CallID, child.CallID}, ids)
	})
}

// Pages of whole records end where they are large, and nothing is lost; a numbered page,
// which could not end early without a loss, is refused.
func TestLargeRecordsAreListedInParts(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		send := serve(t, f)
		r := f.startRun(anna)
		var want []string
		for range 5 {
			want = append(want, f.open(anna, r).CallID)
		}
		large := `{"input":{"text":"` + strings.Repeat("x", 3<<20) + `"}}`
		require.NoError(t, f.db.InTx(t.Context(), func(tx database.Tx) error {
			return database.Scoped(tx.Handle, anna.UID).Table("tool_call_results").Where("call_id <> ?", want[0]).Update("input", large).Error
		}))
		for path, name := range map[string]string{"/v1/tool/calls?": "items", "/v1/cli/tool-call?resultId=" + r.ResultID + "&": "toolCalls"} {
			var got []string
			parts := []int{}
			for cursor, more := "", true; more; {
				a := send("GET", path+"limit=200&cursor="+cursor, "")
				require.Equal(t, 200, a.status)
				require.Less(t, a.length, 9<<20)
				page := a.body["data"].(map[string]any)
				items := page[name].([]any)
				for _, item := range items {
					got = append(got, item.(map[string]any)["callId"].(string))
				}
				parts = append(parts, len(items))
				cursor, more = page["nextCursor"].(string)
			}
			require.Equal(t, want, got)
			require.Equal(t, []int{3, 2}, parts)

			a := send("GET", path+"page=1&pageSize=5", "")
			require.Equal(t, 400, a.status)
			require.Contains(t, a.body["errMsg"], "too large")
			a = send("GET", path+"page=2&pageSize=3", "")
			require.Equal(t, 200, a.status)
			require.Len(t, a.body["data"].(map[string]any)[name], 2)
			require.EqualValues(t, 5, a.body["data"].(map[string]any)["total"])
		}
		a := send("GET", "/v1/tool/calls?payload=false&page=1&pageSize=5", "")
		require.Len(t, a.body["data"].(map[string]any)["items"], 5)
		require.NoError(t, f.db.InTx(t.Context(), func(tx database.Tx) error {
			return database.Scoped(tx.Handle, anna.UID).Table("tool_call_results").Where("call_id = ?", want[0]).
				Update("input", strings.ReplaceAll(large, "x", "xxx")).Error
		}))
		a = send("GET", "/v1/tool/calls", "")
		require.Len(t, a.body["data"].(map[string]any)["items"], 1, "one that is larger than a page is a page")
	})
}

func TestHTTPRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		send := serve(t, f)
		r := f.startRun(anna)
		good := `{"toolsetKey":"weather","toolName":"forecast","arguments":{"city":"Rome"}}`
		for name, c := range map[string]struct {
			method, path, body string
			headers            []string
			status             int
		}{
			"not JSON":            {"POST", "/v1/tool/execute", `{`, nil, 400},
			"a list":              {"POST", "/v1/tool/execute", `[]`, nil, 400},
			"no body":             {"POST", "/v1/tool/execute", ``, nil, 400},
			"no toolset":          {"POST", "/v1/tool/execute", `{"toolName":"x"}`, nil, 400},
			"empty tool":          {"POST", "/v1/tool/execute", `{"toolsetKey":"x","toolName":""}`, nil, 400},
			"toolset a number":    {"POST", "/v1/tool/execute", `{"toolsetKey":1,"toolName":"x"}`, nil, 400},
			"arguments a list":    {"POST", "/v1/tool/execute", `{"toolsetKey":"weather","toolName":"forecast","arguments":[]}`, nil, 400},
			"arguments bad UTF-8": {"POST", "/v1/tool/execute", "{\"toolsetKey\":\"weather\",\"toolName\":\"forecast\",\"arguments\":{\"city\":\"\xff\"}}", nil, 400},
			"too large":           {"POST", "/v1/tool/execute", `{"toolsetKey":"` + strings.Repeat("x", 2<<20) + `"}`, nil, 413},
			"deep":                {"POST", "/v1/tool/execute", strings.Repeat(`{"a":`, 50_000), nil, 400},
			"not JSON by type":    {"POST", "/v1/tool/execute", good, []string{"Content-Type", "text/plain"}, 415},
			"version a word":      {"POST", "/v1/tool/execute", good, []string{"x-refly-result-version", "one"}, 400},
			"version negative":    {"POST", "/v1/tool/execute", good, []string{"x-refly-result-version", "-1"}, 400},
			"version too large":   {"POST", "/v1/tool/execute", good, []string{"x-refly-result-version", "99999999999"}, 400},
			"foreign run":         {"POST", "/v1/tool/execute", good, []string{"x-refly-result-id", r.ResultID, "X-API-Key", "rf_u-ben"}, 403},
			"GET":                 {"GET", "/v1/tool/execute", ``, nil, 405},
			"no id":               {"GET", "/v1/tool/call/result", ``, nil, 400},
			"unknown id":          {"GET", "/v1/tool/call/result?toolCallId=x", ``, nil, 404},
			"limited key":         {"GET", "/v1/tool/calls", ``, []string{"X-API-Key", "rf_u-anna-tool"}, 403},
			"foreign list":        {"GET", "/v1/tool/calls?resultId=" + r.ResultID, ``, []string{"X-API-Key", "rf_u-ben"}, 404},
			"bad cursor":          {"GET", "/v1/tool/calls?cursor=%21", ``, nil, 400},
			"bad limit":           {"GET", "/v1/tool/calls?limit=1000", ``, nil, 400},
			"bad version":         {"GET", "/v1/tool/calls?version=x", ``, nil, 400},
		} {
			got := send(c.method, c.path, c.body, c.headers...)
			require.Equal(t, c.status, got.status, "%s: %v", name, got.body)
			require.Equal(t, false, got.body["success"], name)
			require.NotEmpty(t, got.body["errCode"], name)
			require.NotEmpty(t, got.body["errMsg"], name)
		}
		require.Empty(t, f.calls(anna))
		require.Empty(t, f.upstream.seen())
	})
}

func TestInProgressSaysWhenToAskAgain(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		send := serve(t, f)
		began, finish := make(chan struct{}), make(chan struct{})
		f.upstream.will(func(context.Context, tool.Invocation) (tool.Outcome, error) {
			close(began)
			<-finish
			return tool.Outcome{}, nil
		})
		body := `{"toolsetKey":"weather","toolName":"forecast","arguments":{"city":"Rome"}}`
		first := make(chan reply)
		go func() { first <- send("POST", "/v1/tool/execute", body, "Idempotency-Key", "k") }()
		<-began
		got := send("POST", "/v1/tool/execute", body, "Idempotency-Key", "k")
		close(finish)
		require.Equal(t, 409, got.status)
		require.Equal(t, "1", got.header.Get("Retry-After"))
		require.Equal(t, map[string]any{"success": true, "data": map[string]any{"status": "success", "data": nil}}, (<-first).body)
	})
}
