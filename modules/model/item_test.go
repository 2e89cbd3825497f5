package model_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/model"
)

// Each item is what the provider documents, byte for byte.
func TestItemsAreWhatTheProviderTakes(t *testing.T) {
	t.Parallel()
	for want, made := range map[string]model.Item{
		`{"content":"Hi","role":"user","type":"message"}`:                                         model.User("Hi"),
		`{"content":"Be kind.","role":"system","type":"message"}`:                                 model.System("Be kind."),
		`{"content":[{"text":"Hello","type":"output_text"}],"role":"assistant","type":"message"}`: model.Assistant("Hello"),
		`{"call_id":"call_1","output":"{\"a\":1}","type":"function_call_output"}`:                 model.Output("call_1", `{"a":1}`),
		"{\"content\":\"half \\ufffd\",\"role\":\"user\",\"type\":\"message\"}":                   model.User("half \xff"),
	} {
		require.Equal(t, want, string(made))
	}
}

// What is known of an answer is read, in order; items of other forms say nothing.
func TestAnswersAreRead(t *testing.T) {
	t.Parallel()
	r := model.Response{Output: []model.Item{
		[]byte(`{"type":"reasoning","encrypted_content":"x"}`),
		[]byte(`{"type":"message","content":[{"type":"output_text","text":"I "},{"type":"refusal","refusal":"won't. "}]}`),
		[]byte(`{"type":"function_call","call_id":"c1","name":"add","arguments":"{\"n\":1}"}`),
		[]byte(`{"type":"web_search_call","name":"not mine","call_id":"c9"}`),
		[]byte(`not JSON`), []byte(`[1]`), []byte(`{"type":"function_call","call_id":7}`),
		[]byte(`{"type":"function_call","call_id":"c2","name":"add","arguments":"{"}`),
		[]byte(`{"type":"message","content":[{"type":"output_text","text":"Done."}]}`),
	}}
	text, calls := r.Read()
	require.Equal(t, "I won't. Done.", text)
	require.Equal(t, []model.Call{{ID: "c1", Name: "add", Arguments: `{"n":1}`}, {ID: "c2", Name: "add", Arguments: "{"}}, calls)
	require.Equal(t, model.Parsed{}, model.Parse(model.Output("c1", "x")), "what a model does not write")
}

// Every form of a choice says which tools may be called, whether one must be,
// and goes to the provider in the flat form.
func TestChoicesAreRead(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]struct {
		sent           string
		a, b, demanded bool
	}{
		``:                               {`"auto"`, true, true, false},
		`null`:                           {`"auto"`, true, true, false},
		`"auto"`:                         {`"auto"`, true, true, false},
		`"none"`:                         {`"none"`, false, false, false},
		`"required"`:                     {`"required"`, true, true, true},
		`{"type":"function","name":"a"}`: {`{"type":"function","name":"a"}`, true, false, true},
		`{"type":"function","function":{"name":"b"}}`:                                         {`{"name":"b","type":"function"}`, false, true, true},
		`{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"a"}]}`:     {`{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"a"}]}`, true, false, false},
		`{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"b"}]}`: {`{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"b"}]}`, false, true, true},
	} {
		c, err := model.ParseChoice(json.RawMessage(raw))
		require.NoError(t, err, raw)
		sent, err := json.Marshal(c)
		require.NoError(t, err)
		require.Equal(t, want.sent, string(sent), raw)
		require.Equal(t, []bool{want.a, want.b, want.demanded}, []bool{c.Allows("a"), c.Allows("b"), c.Demands()}, raw)
	}
	for _, bad := range []string{`"maybe"`, `5`, `{"type":"function"}`, `{"type":"x"}`, `{"type":"allowed_tools","mode":"auto"}`, `{"type":"allowed_tools","mode":"often","tools":[{"name":"a"}]}`} {
		_, err := model.ParseChoice(json.RawMessage(bad))
		require.Error(t, err, bad)
	}
}

// A tool is told to the provider in the subset of JSON Schema that it holds
// models to, and what the model writes for it comes back as the tool's own
// schema has it.
func TestToolsAreFitted(t *testing.T) {
	t.Parallel()
	provider := new(model.Client)
	foreign := model.Tool{Name: "find", Description: "Finds.", Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"},"n":{"type":"integer"}},"required":["a"]}`)}
	f, err := provider.Fit(foreign)
	require.NoError(t, err)
	require.Empty(t, f.Loose)
	text, err := json.Marshal(f.Definition)
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"function","name":"find","description":"Finds.","strict":true,"parameters":{"type":"object","properties":{"a":{"type":"string"},
		"n":{"type":["integer","null"]}},"required":["a","n"],"additionalProperties":false}}`, string(text))
	for written, want := range map[string]string{`{"a":"x","n":null}`: `{"a":"x"}`, " ": `{}`, `{"a":"x","n":5}`: `{"a":"x","n":5}`} {
		arguments, err := f.Arguments(written)
		require.NoError(t, err)
		require.Equal(t, want, string(arguments), written)
	}
	_, err = f.Arguments(`{"a":`)
	require.Error(t, err)

	open := foreign
	open.Schema = json.RawMessage(`{"type":"object","properties":{"a":{"type":"object","additionalProperties":true}}}`)
	f, err = provider.Fit(open)
	require.NoError(t, err, "what cannot be fitted is told as it is")
	require.False(t, f.Definition.Strict)
	require.Contains(t, f.Loose, "a is a map with keys of the caller's")

	own := foreign
	own.Own = true
	_, err = provider.Fit(own)
	require.ErrorContains(t, err, "'additionalProperties' is required", "ours must fit as they are")
	for want, name := range map[string]string{"1 to 64 letters": "a b", "64 letters": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"} {
		bad := foreign
		bad.Name = name
		_, err = provider.Fit(bad)
		require.ErrorContains(t, err, want)
	}
	foreign.Description = " \n"
	_, err = provider.Fit(foreign)
	require.ErrorContains(t, err, "no description")
}
