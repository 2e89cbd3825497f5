// Slow under the race detector: make test runs it without.
//go:build !race

package app_test

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/knowledge"
	"github.com/portico-run/portico/modules/knowledge/knowledgetest"
	reading "github.com/portico-run/portico/modules/knowledge/read"
)

// Programs search what their user added over HTTP and what the operator shares,
// and ask questions about it; nothing that adds or removes is among their tools.
func TestProgramsSearchAndAskTheKnowledgeStore(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	for _, d := range databasetest.Both() {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			service := httptest.NewServer(&knowledgetest.Embeddings{})
			t.Cleanup(service.Close)
			_, env := script(t, "- output: [{text: \"Nine hours [1].\"}]")
			s := serve(t, databasetest.URL(t, d), append(env, "EMBEDDING_URL="+service.URL, "EMBEDDING_API_KEY="+knowledgetest.Key, "EMBEDDING_MODEL="+knowledgetest.Model,
				"MODEL_INPUT_PRICE=1000000", "MODEL_OUTPUT_PRICE=1000000")...)
			chapters, err := knowledgetest.Manual()
			require.NoError(t, err)
			_, err = s.app.Knowledge.Service.Add(t.Context(), knowledge.Shared(), knowledge.Addition{Collection: "manual", Source: chapters[0]})
			require.NoError(t, err)
			_, err = s.app.Knowledge.Service.Add(t.Context(), knowledge.Shared(), knowledge.Addition{
				Collection: knowledge.Apple, Source: reading.Source{Name: "docc://view"}, Document: &reading.Document{
					Title: "View", Framework: "SwiftUI", Symbol: "View", Sections: []reading.Section{{Text: "A part of the user interface."}},
				},
			})
			require.NoError(t, err)
			added := s.send(s.key, "POST", "/v1/knowledge/documents", `{"source":"mine.md","text":"The lantern is red."}`)
			require.Equal(t, 200, added.status, added.raw)
			require.Equal(t, 200, s.send(s.another("ben"), "POST", "/v1/knowledge/documents", `{"source":"bens.md","text":"The lantern is green."}`).status)
			o := s.run(map[string]any{"code": `
found = search_knowledge("burning wood through the night", 2)
print(len(found), found[0]["source"], found[0]["title"], found[0]["section"], found[0]["collection"], found[0]["score"] > 0)
print([p["source"] for p in search_knowledge("lantern", top_k=1)])
print([p["symbol"] for p in apple_search("user interface", "SwiftUI")], apple_search("user interface", framework="UIKit"))
answer = ask_knowledge("How long does the cabin keep warm through the night?")
print(answer["answer"], [s["source"] for s in answer["sources"]])
answer = ask_knowledge("Who won the zoological xylophone contest?")
print(answer["answer"], answer["sources"])
print([name for name in globals() if "knowledge" in name and not name.startswith("_")])
`})
			require.Equal(t, "completed", o.Status, o.Stderr)
			require.Equal(t, `2 01-heating.md Heating Burning through the night manual True
['mine.md']
['View'] []
Nine hours [1]. ['01-heating.md']
Nothing in the knowledge store answers this question. []
['search_knowledge', 'ask_knowledge']
`, o.Stdout)
			require.Equal(t, 1, s.count("SELECT count(*) FROM credit_usages WHERE action_result_id = ? AND amount > 0 AND usage_type = 'model_call'", o.ResultID), "one question reached the model")
			require.Equal(t, 4, s.count("SELECT count(*) FROM tool_call_results WHERE ptc_call_id = ? AND toolset_id = 'portico' AND tool_name IN ('search_knowledge', 'apple_search')", o.CallID))
		})
	}
}
