package jsonschema_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/schema/jsonschema"
)

func object(t testing.TB, text string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v map[string]any
	require.NoError(t, d.Decode(&v))
	return v
}

func compile(t testing.TB, text string) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.Compile(json.RawMessage(text))
	require.NoError(t, err)
	return s
}

const weather = `{
	"type": "object", "additionalProperties": false, "required": ["city"],
	"properties": {
		"city": {"type": "string", "minLength": 2, "maxLength": 5},
		"days": {"type": "integer", "minimum": 1, "maximum": 14, "default": 3},
		"unit": {"enum": ["celsius", "kelvin"]},
		"when": {"type": "string", "format": "date"},
		"share": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5},
		"tags": {"type": "array", "minItems": 1, "uniqueItems": true, "items": {"type": "string"}},
		"either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
		"stops": {"type": "array", "items": {"$ref": "#/$defs/stop"}}
	},
	"$defs": {"stop": {"type": "object", "additionalProperties": false, "required": ["name"],
		"properties": {"name": {"type": "string"}, "wait": {"type": "integer", "default": 5}}}}
}`

func TestCheckSaysWhatIsWrongFieldByField(t *testing.T) {
	t.Parallel()
	s := compile(t, weather)
	for _, c := range []struct{ value, want string }{
		{`{"city":"Rome"}`, ""},
		{`{}`, "city: is required"},
		{`{"city":7}`, "city: must be string"},
		{`{"city":"R"}`, "city: must have at least 2 characters, has 1"},
		{`{"city":"Reykjavik"}`, "city: must have at most 5 characters, has 9"},
		{`{"city":"Rome","days":15}`, "days: must be at most 14"},
		{`{"city":"Rome","days":0}`, "days: must be at least 1"},
		{`{"city":"Rome","days":1.5}`, "days: must be integer"},
		{`{"city":"Rome","unit":"secret-value"}`, `unit: must be one of "celsius", "kelvin"`},
		{`{"city":"Rome","when":"2026-13-01"}`, "when: must be a valid date"},
		{`{"city":"Rome","share":0}`, "share: must be more than 0"},
		{`{"city":"Rome","share":0.7}`, "share: must be a multiple of 0.5"},
		{`{"city":"Rome","tags":[]}`, "tags: must have at least 1 items, has 0"},
		{`{"city":"Rome","tags":["a","b","a"]}`, "tags: must not repeat items: 0 and 2 are equal"},
		{`{"city":"Rome","tags":["a",2]}`, "tags[1]: must be string"},
		{`{"city":"Rome","either":true}`, "either: must be integer or string"},
		{`{"city":"Rome","dais":2}`, "dais: is not a known parameter; did you mean days?"},
		{
			`{"city":"Rome","stops":[{"name":"a"},{"nam":"b"}]}`,
			"stops[1].nam: is not a known parameter; did you mean name?|stops[1].name: is required",
		},
	} {
		var lines []string
		for _, p := range s.Check(object(t, c.value)) {
			lines = append(lines, p.String())
		}
		got := strings.Join(lines, "|")
		require.Equal(t, c.want, got, c.value)
		require.NotContains(t, got, "secret-value")
	}
}

func TestCheckReportsManyProblemsBriefly(t *testing.T) {
	t.Parallel()
	value := map[string]any{"city": "Rome"}
	for i := range 100 {
		value[strings.Repeat("z", i+1)] = true
	}
	problems := compile(t, weather).Check(value)
	require.Len(t, problems, 21)
	require.Equal(t, "and 80 more problems", problems[20].String())
}

func TestCheckFillsDefaults(t *testing.T) {
	t.Parallel()
	s := compile(t, `{"type":"object","properties":{
		"n": {"type":"integer","default":3},
		"nul": {"default":null},
		"list": {"type":"array","default":[1]},
		"opt": {"properties":{"deep":{"type":"object","properties":{"x":{"default":"y"}}}}},
		"partial": {"type":"object","required":["id"],"properties":{"id":{"type":"string"},"size":{"default":1}}},
		"items": {"type":"array","items":{"properties":{"k":{"default":true}}}},
		"tree": {"$ref":"#/$defs/tree"}},
		"$defs":{"tree":{"type":"object","properties":{"leaf":{"default":0},"left":{"$ref":"#/$defs/tree"}}}}}`)
	for _, c := range []struct{ given, want string }{
		{
			`{"n":null,"tree":{}}`,
			`{"n":3,"nul":null,"list":[1],"opt":{"deep":{"x":"y"}},"tree":{"leaf":0}}`,
		},
		{
			`{"n":5,"opt":null,"list":[],"items":[{},{"k":false},3],"partial":{"id":"a"},"tree":{"leaf":1}}`,
			`{"n":5,"nul":null,"opt":null,"list":[],"items":[{"k":true},{"k":false},3],"partial":{"id":"a","size":1},"tree":{"leaf":1}}`,
		},
	} {
		got := object(t, c.given)
		require.Empty(t, s.Check(got))
		require.Equal(t, object(t, c.want), got)
	}
	// What one caller does to a default is not the next one's.
	first := object(t, `{"tree":{}}`)
	s.Check(first)
	first["list"].([]any)[0] = "changed"
	second := object(t, `{"tree":{}}`)
	s.Check(second)
	require.Equal(t, []any{json.Number("1")}, second["list"])
}

func TestCompileLoadsNothing(t *testing.T) {
	t.Parallel()
	secret := t.TempDir() + "/schema.json"
	require.NoError(t, os.WriteFile(secret, []byte(`{}`), 0o600))
	for _, ref := range []string{"file://" + secret, "https://example.com/schema.json", "other.json"} {
		_, err := jsonschema.Compile(json.RawMessage(`{"$ref":"` + ref + `"}`))
		require.Error(t, err, ref)
	}
	for _, bad := range []string{`{`, `{"type":"strin"}`, `{"minimum":"x"}`, `{"pattern":"("}`, `{} {}`} {
		_, err := jsonschema.Compile(json.RawMessage(bad))
		require.Error(t, err, bad)
	}
	for _, good := range []string{``, ` `, `{}`, `true`, `{"$schema":"http://json-schema.org/draft-07/schema#"}`} {
		_, err := jsonschema.Compile(json.RawMessage(good))
		require.NoError(t, err, good)
	}
}

func TestCacheCompilesOnce(t *testing.T) {
	t.Parallel()
	var c jsonschema.Cache
	a, err := c.Get(json.RawMessage(weather))
	require.NoError(t, err)
	b, err := c.Get(json.RawMessage(weather))
	require.NoError(t, err)
	require.Same(t, a, b)
	_, err = c.Get(json.RawMessage(`{`))
	require.Error(t, err)
}

// Large schemas do not stay in memory because there are few of them.
func TestCacheIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	large := func(n int) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"description":"%d%s"}`, n, strings.Repeat("x", 1<<20)))
	}
	var c jsonschema.Cache
	first, err := c.Get(large(0))
	require.NoError(t, err)
	again, err := c.Get(large(0))
	require.NoError(t, err)
	require.Same(t, first, again)
	for n := range 8 {
		_, err = c.Get(large(n + 1))
		require.NoError(t, err)
	}
	again, err = c.Get(large(0))
	require.NoError(t, err)
	require.NotSame(t, first, again)
}

// knot is a short schema of a value that would be held against others for years.
func knot(word, end string) json.RawMessage {
	defs := ""
	for i := range 20 {
		branches := strings.Repeat(fmt.Sprintf(`,{"$ref":"#/$defs/l%d"}`, i+1), 10)[1:]
		defs += fmt.Sprintf(`"l%d":{"%s":[%s]},`, i, word, branches)
	}
	return json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"#/$defs/l0"}},"$defs":{` + defs + `"l20":` + end + `}}`)
}

func TestSchemasThatTakeTooLongAreNotChecked(t *testing.T) {
	t.Parallel()
	deep := any("end")
	for range 40 {
		deep = map[string]any{"a": deep}
	}
	var many strings.Builder
	for n := range 5000 {
		fmt.Fprintf(&many, `,"%d":{"$ref":"#/$defs/d"}`, n)
	}
	defaults := `{"properties":{` + many.String()[1:] + `},"$defs":{"d":{"default":[` + strings.Repeat("1,", 50_000) + `1]}}}`
	for what, c := range map[string]struct {
		schema json.RawMessage
		value  map[string]any
		why    string
	}{
		"all":      {knot("allOf", `{"type":"string"}`), map[string]any{"a": "x"}, "too many ways"},
		"any":      {knot("anyOf", `{"type":"string"}`), map[string]any{"a": json.Number("1")}, "too many ways"},
		"nested":   {json.RawMessage(`{"properties":{"a":{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}}}`), map[string]any{"a": deep}, "too many ways"},
		"defaults": {json.RawMessage(defaults), map[string]any{}, "too many ways"},
		"itself":   {json.RawMessage(`{"properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"$ref":"#/$defs/a"}}}`), map[string]any{"a": "x"}, "too many ways"},
		"dynamic":  {json.RawMessage(`{"properties":{"a":{"$dynamicRef":"#/$defs/a"}},"$defs":{"a":{"$dynamicAnchor":"a"}}}`), map[string]any{"a": "x"}, "$dynamicRef"},
	} {
		s, err := jsonschema.Compile(c.schema)
		require.NoError(t, err, what)
		require.Contains(t, s.Check(c.value).String(), c.why, what)
	}
}

// Much data is no reason to refuse it.
func TestMuchDataIsChecked(t *testing.T) {
	t.Parallel()
	row := `{"type":"object","properties":{"a":{"anyOf":[{"type":"integer"},{"type":"string"},{"type":"null"}]},"b":{"enum":["x","y"],"default":"x"},"next":{"$ref":"#/$defs/row"}},"required":["a"]}`
	s, err := jsonschema.Compile(json.RawMessage(`{"properties":{"rows":{"type":"array","items":{"$ref":"#/$defs/row"}}},"$defs":{"row":` + row + `}}`))
	require.NoError(t, err)
	rows := make([]any, 20_000)
	for i := range rows {
		rows[i] = map[string]any{"a": "x", "next": map[string]any{"a": nil}}
	}
	require.Empty(t, s.Check(map[string]any{"rows": rows}))
	require.Equal(t, "x", rows[0].(map[string]any)["b"])
	rows[19_999] = map[string]any{"a": true}
	require.Contains(t, s.Check(map[string]any{"rows": rows}).String(), "rows[19999]")
}
