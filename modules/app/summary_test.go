package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/testenv"
)

// summary is an event of a stream of summaries.
type summary struct {
	Event     string          `json:"event"`
	MessageID string          `json:"messageId"`
	IsPTC     bool            `json:"isPtc"`
	Meta      json.RawMessage `json:"toolCallMeta"`
	Result    json.RawMessage `json:"toolCallResult"`
	Call      struct {
		CallID    string `json:"callId"`
		ParentID  string `json:"parentId"`
		Toolset   string `json:"toolset"`
		Tool      string `json:"tool"`
		Line      int    `json:"line"`
		Status    string `json:"status"`
		Arguments string `json:"arguments"`
		Error     string `json:"error"`
		Credits   string `json:"credits"`
		Bytes     *int64 `json:"bytes"`
		Tokens    *int64 `json:"tokens"`
		StartedAt int64  `json:"startedAt"`
		EndedAt   int64  `json:"endedAt"`
	} `json:"call"`
}

// summaries reads the stream of a run that has ended.
func (s *instance) summaries(key, resultID, query string) (status int, text string, events []summary) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+"/v1/action/"+resultID+"/events?detail=summary"+query, nil)
	require.NoError(s.t, err)
	r.Header.Set("X-API-Key", key)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	for line := range strings.Lines(string(body)) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			var e summary
			require.NoError(s.t, json.Unmarshal([]byte(data), &e))
			events = append(events, e)
		}
	}
	return resp.StatusCode, string(body), events
}

const threeKinds = `from refly_tools.demo import Demo
print(Demo.convert_currency(file_name_title="x", amount=9007199254740993, from_="USD", to="EUR")["status"])
print(Demo.fail(file_name_title="x" * 500)["status"])
print(len(Demo.list_cities(file_name_title="x")["data"]["cities"]))
`

func TestSummariesSayWhatTheRecordsSay(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		id := ids.New(ids.Run)
		o := s.run(map[string]any{"code": threeKinds, "resultId": id, "toolsets": []string{"demo"}, "timeout": 12_345})
		require.Equal(t, "completed", o.Status, o.Stderr)
		status, text, events := s.summaries(s.key, id, "")
		require.Equal(t, 200, status)
		require.True(t, strings.HasPrefix(text, "retry: 500\n"), text[:min(len(text), 40)])
		schema := document(t, s).Components.Schemas["Event"].Value
		for line := range strings.Lines(text) {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				var e map[string]any
				require.NoError(t, json.Unmarshal([]byte(data), &e))
				require.NoError(t, schema.VisitJSON(e), data)
			}
		}
		starts, ends := map[string]summary{}, map[string]summary{}
		for _, e := range events {
			switch e.Event {
			case "tool_call_start":
				starts[e.Call.CallID] = e
			case "tool_call_end", "tool_call_error":
				ends[e.Call.CallID] = e
			default:
				continue
			}
			require.Empty(t, e.Meta)
			require.Empty(t, e.Result)
			require.Equal(t, e.IsPTC, e.MessageID == "", "messages of calls that programs make are not stored")
		}
		require.Len(t, starts, 4)
		require.Len(t, ends, 4)

		var calls struct {
			Items []struct {
				CallID, PTCCallID, ToolsetID, ToolName, Status, Error string
				CreatedAt, UpdatedAt                                  int64
				Input                                                 struct{ Input json.RawMessage }
				Output                                                struct{ Data json.RawMessage }
			}
		}
		require.NoError(t, json.Unmarshal(s.send(s.key, "GET", "/v1/tool/calls?resultId="+id, nil).body.Data, &calls))
		require.Len(t, calls.Items, 4)
		made, program := int64(0), int64(0)
		for _, c := range calls.Items {
			began, ended := starts[c.CallID], ends[c.CallID]
			require.Equal(t, "executing", began.Call.Status)
			require.Nil(t, began.Call.Bytes)
			require.Empty(t, began.Call.Credits)
			require.Zero(t, began.Call.EndedAt)
			got := ended.Call
			require.Equal(t, c.PTCCallID, began.Call.ParentID)
			require.Empty(t, got.ParentID)
			require.Equal(t, c.PTCCallID != "", ended.IsPTC)
			require.Equal(t, []string{c.ToolsetID, c.ToolName, c.Status}, []string{got.Toolset, got.Tool, got.Status})
			require.Equal(t, []int64{c.CreatedAt, c.UpdatedAt}, []int64{got.StartedAt, got.EndedAt})
			size := int64(len(c.Output.Data))
			if c.PTCCallID == "" { // the program, which gives back what it printed
				var printed struct{ Stdout, Stderr string }
				require.NoError(t, json.Unmarshal(c.Output.Data, &printed))
				size = int64(len(printed.Stdout) + len(printed.Stderr))
			}
			require.Equal(t, size, *got.Bytes)
			require.Equal(t, (size+3)/4, *got.Tokens)
			whole := string(c.Input.Input)
			if len([]rune(whole)) > 160 {
				whole = string([]rune(whole)[:159]) + "…"
			}
			require.Equal(t, whole, got.Arguments)
			require.Equal(t, c.Error, got.Error)
			switch c.ToolName {
			case "convert_currency":
				require.Equal(t, "0.5", got.Credits)
				require.Contains(t, got.Arguments, "9007199254740993")
			case "fail":
				require.Empty(t, got.Credits)
				require.Equal(t, "failed", got.Status)
				require.NotEmpty(t, got.Error)
				require.True(t, strings.HasSuffix(got.Arguments, "…"))
			}
			if c.PTCCallID == "" {
				program += size
			} else {
				made += int64(len(c.Output.Data))
			}
		}
		s.checkTotals(id, made, program)
		s.checkProgram(id, o, threeKinds)

		s.checkFilters(id, o.CallID)

		// A stream that is resumed has the rest, and another user has none.
		_, _, rest := s.summaries(s.key, id, "&lastEventId=3")
		require.Len(t, rest, len(events)-3)
		other := s.another("ben")
		for _, path := range []string{"/events?detail=summary", "/programs"} {
			foreign := s.send(other, "GET", "/v1/action/"+id+path, nil)
			absent := s.send(other, "GET", "/v1/action/"+ids.New(ids.Run)+path, nil)
			require.Equal(t, 404, foreign.status)
			require.Equal(t, absent.status, foreign.status)
		}
		require.Equal(t, 400, s.send(s.key, "GET", "/v1/action/"+id+"/events?detail=some", nil).status)
	})
}

// checkTotals compares the totals of the run of threeKinds with its records.
func (s *instance) checkTotals(id string, made, program int64) {
	s.t.Helper()
	tokens := func(bytes int64) int64 { return (bytes + 3) / 4 }
	var bill struct{ Charged json.Number }
	require.NoError(s.t, json.Unmarshal(s.send(s.key, "GET", "/v1/credit/result?resultId="+id, nil).body.Data, &bill))
	want := fmt.Sprintf(`{"calls":3,"running":0,"waiting":0,"failed":1,"credits":"`+bill.Charged.String()+`","resultTokens":%d,"programTokens":%d,"keptOut":%d}`,
		tokens(made), tokens(program), max(tokens(made)-tokens(program), 0))
	var one struct{ Totals json.RawMessage }
	require.NoError(s.t, json.Unmarshal(s.send(s.key, "GET", "/v1/action/result?resultId="+id, nil).body.Data, &one))
	require.NotEqual(s.t, "0", bill.Charged.String())
	require.JSONEq(s.t, want, string(one.Totals))
	var list struct {
		Items []struct{ Totals json.RawMessage }
	}
	require.NoError(s.t, json.Unmarshal(s.send(s.key, "GET", "/v1/action/list", nil).body.Data, &list))
	require.JSONEq(s.t, want, string(list.Items[0].Totals))
}

func (s *instance) checkProgram(id string, o outcome, code string) {
	s.t.Helper()
	var programs struct {
		Items []struct {
			CallID, Code, Language, Status, Stdout, Stderr string
			Toolsets                                       []string
			TimeoutMS                                      int64 `json:"timeoutMs"`
			ExitCode                                       *int
			Cut                                            bool
			Calls                                          int
			CreatedAt, EndedAt                             int64
		}
		NextCursor string
	}
	a := s.send(s.key, "GET", "/v1/action/"+id+"/programs", nil)
	require.Equal(s.t, 200, a.status, a.raw)
	require.NoError(s.t, json.Unmarshal(a.body.Data, &programs))
	require.Len(s.t, programs.Items, 1)
	require.Empty(s.t, programs.NextCursor)
	p := programs.Items[0]
	require.Equal(s.t, []string{o.CallID, code, "python", "completed", o.Stdout, o.Stderr}, []string{p.CallID, p.Code, p.Language, p.Status, p.Stdout, p.Stderr})
	require.Equal(s.t, []string{"demo"}, p.Toolsets)
	require.Equal(s.t, int64(12_345), p.TimeoutMS)
	require.Zero(s.t, *p.ExitCode)
	require.Equal(s.t, 3, p.Calls)
	require.False(s.t, p.Cut)
	require.GreaterOrEqual(s.t, p.EndedAt, p.CreatedAt)
}

// checkFilters narrows lists of the calls of threeKinds, and of runs.
func (s *instance) checkFilters(id, program string) {
	s.t.Helper()
	for query, want := range map[string]int{
		"": 4, "&parentId=" + program: 3, "&line=3": 1, "&status=failed": 1, "&status=executing": 0, "&toolset=demo": 3, "&tool=fail": 1,
		"&toolset=demo&tool=execute_code": 0, "&from=2100-01-01T00:00:00Z": 0, "&until=2100-01-01T00:00:00Z": 4, "&page=1&pageSize=2": 2, "&limit=1": 1,
	} {
		for _, payload := range []string{"", "&payload=false"} {
			a := s.send(s.key, "GET", "/v1/tool/calls?resultId="+id+query+payload, nil)
			require.Equal(s.t, 200, a.status, a.raw)
			var page struct {
				Items []struct {
					Input, Output     json.RawMessage
					Arguments         string
					ToolName, Credits string
					Bytes             *int64
				}
				Total *int
			}
			require.NoError(s.t, json.Unmarshal(a.body.Data, &page))
			require.Len(s.t, page.Items, want, query)
			if strings.Contains(query, "page=") {
				require.Equal(s.t, 4, *page.Total)
			}
			for _, c := range page.Items {
				require.Equal(s.t, payload == "", len(c.Input) > 0 && len(c.Output) > 0, a.raw)
				require.Equal(s.t, payload != "", c.Arguments != "")
				require.Equal(s.t, c.ToolName == "convert_currency", c.Credits == "0.5")
				require.NotNil(s.t, c.Bytes)
			}
		}
	}
	s.run(map[string]any{"code": "1", "title": "100%_Sure \\ else"})
	for query, want := range map[string]int{
		"": 2, "?status=finish": 2, "?status=running": 0, "?toolset=demo": 1, "?toolset=none": 0, "?canvasId=c-none": 0, "?q=100%25_sure": 1, "?q=%25_%25": 0,
		"?q=%5C": 1, "?from=2100-01-01T00:00:00Z": 0, "?until=2100-01-01T00:00:00Z&limit=5": 2,
	} {
		a := s.send(s.key, "GET", "/v1/action/list"+query, nil)
		var page struct{ Items []json.RawMessage }
		require.NoError(s.t, json.Unmarshal(a.body.Data, &page), a.raw)
		require.Len(s.t, page.Items, want, query)
	}
	require.Equal(s.t, 400, s.send(s.key, "GET", "/v1/action/list?status=done", nil).status)
}
