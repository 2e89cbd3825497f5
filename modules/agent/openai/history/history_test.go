package history_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/modules/agent/openai/history"
)

var anna = actor.Actor{UID: "u-anna"}

func seals(t *testing.T, now time.Time) history.Seals {
	t.Helper()
	box, err := secretbox.New(strings.Repeat("0a", 32))
	require.NoError(t, err)
	return history.Seals{Box: box, Life: time.Hour, Now: func() time.Time { return now }}
}

func read(t *testing.T, native bool, items ...string) (history.Conversation, error) {
	t.Helper()
	in := history.In{User: anna, Seals: seals(t, time.Now()), Native: native}
	for _, text := range items {
		in.Input = append(in.Input, json.RawMessage(text))
	}
	return history.Read(in)
}

// token is that of a thought which stands for an item.
func token(item string) string {
	return "portico1." + base64.RawURLEncoding.EncodeToString([]byte(`{"m":"large","i":`+item+`,"c":true}`))
}

// A thought that stands for a whole message says its words and makes its calls; the
// words and the calls beside it are not repeated, others are.
func TestThoughtsAreNotSaidTwice(t *testing.T) {
	t.Parallel()
	whole := `{"role":"assistant","content":"Looking.","reasoning_content":"Hm.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	c, err := read(
		t, false, `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"`+token(whole)+`"}`,
		`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Looking. More."}]}`,
		`{"type":"function_call","call_id":"call_1","name":"f","arguments":"{}"}`,
		`{"type":"function_call","call_id":"call_2","name":"g","arguments":"{}"}`,
		`{"type":"function_call_output","call_id":"call_1","output":"1"}`,
		`{"type":"function_call_output","call_id":"call_2","output":"2"}`,
	)
	require.NoError(t, err)
	require.Nil(t, c.Continue)
	var texts []string
	for _, i := range c.Items {
		texts = append(texts, string(i))
	}
	require.Len(t, texts, 6, texts)
	require.Contains(t, texts[0], `"portico_model"`)
	require.Equal(t, whole, texts[1])
	require.Contains(t, texts[2], `" More."`)
	require.Contains(t, texts[3], `"call_2"`)
}

// Reasoning of another server goes back to a model that can read it, and to no other.
func TestForeignReasoning(t *testing.T) {
	t.Parallel()
	foreign := `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAAA"}`
	for native, want := range map[bool]int{true: 2, false: 1} {
		c, err := read(t, native, foreign, `{"role":"user","content":"Hi"}`)
		require.NoError(t, err)
		require.Len(t, c.Items, want)
	}
}

// A program is good for its user, its code and a time.
func TestFingerprints(t *testing.T) {
	t.Parallel()
	now := time.Now()
	seal := seals(t, now).Fingerprint(anna, "call_p", "print(1)")
	for name, one := range map[string]struct {
		who  actor.Actor
		at   time.Time
		says string
	}{
		"good":    {anna, now, ""},
		"another": {actor.Actor{UID: "u-ben"}, now, "not that of this program"},
		"old":     {anna, now.Add(time.Hour), "too old"},
	} {
		_, err := history.Read(history.In{User: one.who, Seals: seals(t, one.at), Input: []json.RawMessage{
			json.RawMessage(`{"type":"program","call_id":"call_p","code":"print(1)","fingerprint":"` + seal + `"}`),
			json.RawMessage(`{"type":"program_output","call_id":"call_p","result":"1","status":"completed"}`),
		}})
		if one.says == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, one.says, name)
	}
}

// What broke off and came again is not told to the model; a cut answer is.
func TestMessagesThatBrokeOff(t *testing.T) {
	t.Parallel()
	said := `{"type":"message","id":"ID","role":"assistant","status":"incomplete","content":[{"type":"output_text","text":"Half"}]}`
	for id, want := range map[string]int{"msg_" + strings.Repeat("0a", 16) + "_0": 1, "msg_68": 2} {
		c, err := read(t, false, strings.Replace(said, "ID", id, 1), `{"role":"user","content":"Hi"}`)
		require.NoError(t, err)
		require.Len(t, c.Items, want, id)
	}
}
