package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/model"
)

// What a person may read of reasoning, whether a model refuses, and whether its words
// and calls are all that there is, follow from an item of any protocol.
func TestWhatItemsHold(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]struct {
		parsed model.Parsed
		plain  bool
	}{
		// Responses.
		`{"type":"reasoning","summary":[{"type":"summary_text","text":"A."},{"type":"summary_text","text":"B."}],"content":[{"type":"reasoning_text","text":"long"}],"encrypted_content":"x"}`: {model.Parsed{Thought: "A.\n\nB."}, false},
		`{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"long"}]}`:                                                                                                {model.Parsed{Thought: "long"}, false},
		`{"type":"reasoning","encrypted_content":"x"}`: {model.Parsed{}, false},
		`{"type":"message","id":"m","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Hi","annotations":[{"n":1}],"logprobs":[]}]}`: {model.Parsed{Text: "Hi"}, true},
		`{"type":"message","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"Hi"}]}`:                                                {model.Parsed{Text: "Hi"}, false},
		`{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"No."}]}`:                                                                     {model.Parsed{Text: "No.", Refused: true}, false},
		`{"type":"function_call","id":"fc","call_id":"c","name":"add","arguments":"{}","status":"completed"}`:                                                      {model.Parsed{Calls: []model.Call{{ID: "c", Name: "add", Arguments: "{}"}}}, true},
		`{"type":"function_call","call_id":"c","name":"add","arguments":"{}","caller":{"type":"program"}}`:                                                         {model.Parsed{Calls: []model.Call{{ID: "c", Name: "add", Arguments: "{}"}}}, false},
		`{"type":"program","code":"x"}`: {model.Parsed{}, false},
		// Chat Completions.
		`{"role":"assistant","content":"Hi","refusal":null,"annotations":[],"audio":null,"function_call":null,"reasoning_content":""}`:                                                    {model.Parsed{Text: "Hi"}, true},
		`{"role":"assistant","content":[{"type":"text","text":"Hi"}],"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"add","arguments":"{}"}}]}`:                   {model.Parsed{Text: "Hi", Calls: []model.Call{{ID: "c", Name: "add", Arguments: "{}"}}}, true},
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"add","arguments":"{}"},"extra_content":{"google":{"thought_signature":"x"}}}]}`: {model.Parsed{Calls: []model.Call{{ID: "c", Name: "add", Arguments: "{}"}}}, false},
		`{"role":"assistant","content":"Hi","reasoning_content":"Hm"}`:                                                                                                                    {model.Parsed{Text: "Hi", Thought: "Hm"}, false},
		`{"role":"assistant","content":"Hi","reasoning":"Hm","reasoning_details":[{"n":1}]}`:                                                                                              {model.Parsed{Text: "Hi", Thought: "Hm"}, false},
		`{"role":"assistant","content":null,"refusal":"No."}`:                                                                                                                             {model.Parsed{Text: "No.", Refused: true}, false},
		`{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm"}]}]}`:                                                                                   {model.Parsed{}, false},
		// Messages.
		`{"type":"thinking","thinking":"Hm","signature":"s"}`:                                   {model.Parsed{Thought: "Hm"}, false},
		`{"type":"redacted_thinking","data":"x"}`:                                               {model.Parsed{}, false},
		`{"type":"text","text":"Hi","citations":[{"n":1}]}`:                                     {model.Parsed{Text: "Hi"}, true},
		`{"type":"tool_use","id":"c","name":"add","input":{"n":1.50}}`:                          {model.Parsed{Calls: []model.Call{{ID: "c", Name: "add", Arguments: `{"n":1.50}`}}}, true},
		`{"type":"tool_use","id":"c","name":"add","input":{},"caller":{"type":"of_a_program"}}`: {model.Parsed{Calls: []model.Call{{ID: "c", Name: "add", Arguments: `{}`}}}, false},
		`not JSON`: {model.Parsed{}, false}, `null`: {model.Parsed{}, false}, `[]`: {model.Parsed{}, false}, `{}`: {model.Parsed{}, false},
	} {
		require.Equal(t, want.parsed, model.Parse(model.Item(raw)), raw)
		require.Equal(t, want.plain, model.Plain(model.Item(raw)), raw)
	}
}
