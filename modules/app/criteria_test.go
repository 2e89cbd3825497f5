// Slow under the race detector: make test runs it without.
//go:build !race

package app_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/knowledge"
	reading "github.com/portico-run/portico/modules/knowledge/read"
)

// One program uses every function of the knowledge store beside the question to
// a model; what is unknown or not marked is refused, also when it is called by hand.
func TestOneProgramUsesAllPlainFunctions(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `<html><head><title>Keys</title></head><body><main><h1>Keys</h1><p>A key is <b>revoked</b> at once.</p></main></body></html>`)
	}))
	t.Cleanup(web.Close)
	for _, d := range databasetest.Both() {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			_, env := script(t, "- output: [{text: Hello.}]\n- on: Which auth patterns\n  output: [{text: \"Links and keys [1].\"}]")
			s := serve(t, databasetest.URL(t, d), append(env, "FETCH_EGRESS=127.0.0.0/8", "LLM_QUERY_MODEL=scripted")...)
			for collection, document := range map[string]*reading.Document{
				"handbook":      {Title: "Signing in", Sections: []reading.Section{{Text: "The service knows two auth patterns: links and keys."}}},
				knowledge.Apple: {Title: "View", Framework: "SwiftUI", Symbol: "View", Sections: []reading.Section{{Text: "A part of the user interface."}}},
			} {
				_, err := s.app.Knowledge.Service.Add(t.Context(), knowledge.Shared(), knowledge.Addition{Collection: collection, Source: reading.Source{Name: document.Title}, Document: document})
				require.NoError(t, err)
			}
			canvas := s.canvas("Sales")
			s.store(canvas, "settings.json", `{"a": [1, 2]}`)
			o := s.run(map[string]any{"canvasId": canvas, "code": `
import json, urllib.error, urllib.request

def by_hand(tool):
    request = urllib.request.Request("http://127.0.0.1:5800/tool_call", json.dumps({"tool": tool, "input": {}}).encode(), {"Content-Type": "application/json"})
    try:
        return urllib.request.urlopen(request).status
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["errMsg"], tool in globals()

print(search_knowledge("auth patterns")[0]["text"])
print(ask_knowledge("Which auth patterns are there?")["answer"])
print(fetch_url("` + web.URL + `").splitlines()[-1])
load_file("settings.json", "settings")
print(settings["a"])
print(apple_search("user interface", "SwiftUI")[0]["symbol"])
print(llm_query("Say hello."))
print(by_hand("search_knowlege"))
print(by_hand("save_note"))
`})
			require.Equal(t, "completed", o.Status, o.Stderr)
			require.Equal(t, `The service knows two auth patterns: links and keys.
Links and keys [1].
A key is **revoked** at once.
[1, 2]
View
Hello.
(404, 'There is no tool "search_knowlege" that may be called here.', False)
(404, 'There is no tool "save_note" that may be called here.', False)
`, o.Stdout)
			require.Equal(t, 6, s.count("SELECT count(*) FROM tool_call_results WHERE ptc_call_id = ? AND toolset_id = 'portico' AND status = 'completed'", o.CallID))
		})
	}
}
