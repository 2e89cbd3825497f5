package messages_test

import (
	"encoding/base64"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/modules/agent/anthropic/answer"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/codeapi/session"
	"github.com/portico-run/portico/modules/sandbox"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// What a stream told in its order is the conversation in the model's.
func TestTokensThatCameLateStandBeforeTheWords(t *testing.T) {
	t.Parallel()
	asked := read(t, talk(said, assistant(`{"type":"thinking","thinking":"Hm.","signature":""}`, `{"type":"text","text":"Hello"}`,
		`{"type":"redacted_thinking","data":"`+token(t)+`"}`, `{"type":"text","text":"covered, too"}`), said))
	require.Len(t, asked.Items, 3, items(t, asked))
	require.Contains(t, string(asked.Items[1]), "reasoning_content")
}

// token is that of an answer of Chat Completions, which has its words in it.
func token(t *testing.T) string {
	t.Helper()
	const item = `{"m":"","i":{"role":"assistant","content":"Hello","reasoning_content":"Hm."},"c":true}`
	text := "portico1." + strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(base64.StdEncoding.EncodeToString([]byte(item)))
	_, covers, ok := dialogue.Restore(text)
	require.True(t, ok && covers)
	return text
}

// An answer goes back as the conversation that it was.
func TestAnAnswerGoesBack(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("s", 21)
	a := dialogue.Answer{Stop: dialogue.StopEnd, Parts: []dialogue.Part{
		dialogue.Text{Text: "Let me see."},
		dialogue.OwnCall{ID: "S", Name: "tool_search_tool_regex", Arguments: json.RawMessage(`{"pattern":"a"}`)},
		dialogue.OwnOutput{ID: "S", Name: "tool_search_tool_regex", Result: dialogue.OwnResult{Loads: []string{"later"}}},
		dialogue.Program{ID: "P0", Code: "print(1)"},
		dialogue.Output{Program: "P0", Stdout: "1\n", Files: []session.File{{ID: strings.Repeat("f", 21), SessionID: id, Name: "a.txt"}}},
		dialogue.Program{ID: "P2", Code: "while True: pass"},
		dialogue.Output{Program: "P2", Stdout: "so far", Failure: sandbox.FailedTimeout, Why: "It took too long."},
	}}
	text, err := json.Marshal(answer.View{Model: "m", Caller: "code_execution_20260120"}.Reply(a).Content)
	require.NoError(t, err)
	asked, err := reader().Read(t.Context(), actor.Actor{UID: "u"}, body(talk(said, `{"role":"assistant","content":`+string(text)+`}`, said)+
		`,"tools":[`+codeTool+`,{"name":"later","input_schema":{"type":"object"},"defer_loading":true}]`))
	require.NoError(t, err)
	golden(t, "answer_back.jsonl", items(t, asked))
}
