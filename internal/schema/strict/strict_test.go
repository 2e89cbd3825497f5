package strict_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/schema/jsonschema"
	"github.com/portico-run/portico/internal/schema/strict"
)

type server struct {
	Tools []struct {
		Name        string
		InputSchema json.RawMessage
	}
}

func corpus(t *testing.T) map[string]server {
	t.Helper()
	files, err := filepath.Glob("../../../modules/catalogue/signature/testdata/corpus/*.json")
	require.NoError(t, err)
	require.Len(t, files, 17)
	servers := map[string]server{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		var s server
		require.NoError(t, json.Unmarshal(text, &s))
		servers[filepath.Base(f)] = s
	}
	return servers
}

// Every schema of the corpus becomes strict, or says why it does not; nothing
// fails.
func TestCorpus(t *testing.T) {
	t.Parallel()
	tools, loose := 0, map[string]string{}
	for name, s := range corpus(t) {
		for _, tool := range s.Tools {
			tools++
			got := strict.Convert(tool.InputSchema)
			require.True(t, json.Valid(got.Parameters))
			if got.Strict {
				require.Empty(t, got.Reason)
				require.NoError(t, strict.Verify(got.Parameters), "%s %s: %s", name, tool.Name, got.Parameters)
				require.NotContains(t, string(got.Parameters), `"default":`)
			} else {
				require.NotEmpty(t, got.Reason)
				loose[name+" "+tool.Name] = got.Reason
			}
			_, err := jsonschema.Compile(got.Parameters)
			require.NoError(t, err, "%s %s", name, tool.Name)
		}
	}
	require.Equal(t, 376, tools)
	require.Less(t, len(loose), tools/10, "%v", loose)
	for tool, reason := range loose {
		t.Logf("%s: %s", tool, reason)
	}
}

// Optional parameters that a model leaves null are left out again, and the
// tool's own schema takes what is left. Every schema of the corpus that was
// not relaxed is tried with arguments of all kinds.
func TestArgumentsComeBack(t *testing.T) {
	t.Parallel()
	tried := 0
	for name, s := range corpus(t) {
		for _, tool := range s.Tools {
			got := strict.Convert(tool.InputSchema)
			if !got.Strict || len(got.Relaxed) > 0 {
				continue
			}
			sent, err := jsonschema.Compile(got.Parameters)
			require.NoError(t, err)
			own, err := jsonschema.Compile(tool.InputSchema)
			require.NoError(t, err)
			var schema map[string]any
			require.NoError(t, json.Unmarshal(got.Parameters, &schema))
			for _, null := range []int{0, 1, 2, 3, 100} { // how often what may be null is
				m := maker{root: schema, null: null}
				written, ok := m.value(schema, 0).(map[string]any)
				require.True(t, ok)
				if m.patterns {
					continue
				}
				require.Empty(t, sent.Check(copied(t, written)), "%s %s: %v", name, tool.Name, written)
				text, err := json.Marshal(written)
				require.NoError(t, err)
				back, err := got.Restore(text)
				require.NoError(t, err)
				var restored map[string]any
				require.NoError(t, json.Unmarshal(back, &restored))
				require.Empty(t, own.Check(restored), "%s %s: %s", name, tool.Name, back)
				tried++
			}
		}
	}
	require.Greater(t, tried, 1000)
}

func copied(t *testing.T, v map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	var out map[string]any
	require.NoError(t, json.Unmarshal(text, &out))
	return out
}

// maker writes arguments as a model would: every property is there.
type maker struct {
	root     map[string]any
	null     int // every so manieth value that may be null is; 0: none
	count    int
	patterns bool // there are texts of a form that it does not know
}

func (m *maker) value(schema map[string]any, depth int) any {
	if ref, ok := schema["$ref"].(string); ok {
		target := m.root
		if ref != "#" {
			target = m.root["$defs"].(map[string]any)[filepath.Base(ref)].(map[string]any)
		}
		return m.value(target, depth+1)
	}
	if list, ok := schema["anyOf"].([]any); ok {
		m.count++
		at := m.count % len(list)
		if depth > 6 { // recursive ones end with their last, null
			at = len(list) - 1
		}
		return m.value(list[at].(map[string]any), depth+1)
	}
	kind := schema["type"]
	if list, ok := kind.([]any); ok {
		m.count++
		if list[len(list)-1] == "null" && (m.null > 0 && m.count%m.null == 0 || m.null == 100) {
			return nil
		}
		kind = list[0]
	}
	if values, ok := schema["enum"].([]any); ok {
		return values[0]
	}
	number := func(fallback float64) float64 {
		if low, ok := schema["minimum"].(float64); ok {
			return low
		}
		if low, ok := schema["exclusiveMinimum"].(float64); ok {
			return low + 1
		}
		if high, ok := schema["maximum"].(float64); ok {
			return min(high, fallback)
		}
		return fallback
	}
	switch kind {
	case "object":
		out := map[string]any{}
		for name, sub := range schema["properties"].(map[string]any) {
			out[name] = m.value(sub.(map[string]any), depth+1)
		}
		return out
	case "array":
		n := 1
		if low, ok := schema["minItems"].(float64); ok {
			n = int(low)
		}
		list := make([]any, n)
		for i := range list {
			list[i] = m.value(schema["items"].(map[string]any), depth+1)
		}
		return list
	case "string":
		m.patterns = m.patterns || schema["pattern"] != nil || schema["format"] != nil
		return "text"
	case "number":
		return number(1.5)
	case "integer":
		return number(2)
	case "boolean":
		return true
	}
	return nil
}

func TestForms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ schema, want, reason string }{
		"none":       {``, `{"type":"object","properties":{},"required":[],"additionalProperties":false}`, ""},
		"optional":   {`{"type":"object","properties":{"b":{"type":"integer"},"a":{"type":"string"}},"required":["a"]}`, `{"type":"object","properties":{"b":{"type":["integer","null"]},"a":{"type":"string"}},"required":["b","a"],"additionalProperties":false}`, ""},
		"enum":       {`{"properties":{"a":{"enum":["x","y"]}}}`, `{"type":"object","properties":{"a":{"type":["string","null"],"enum":["x","y",null]}},"required":["a"],"additionalProperties":false}`, ""},
		"const":      {`{"properties":{"a":{"const":5}},"required":["a"]}`, `{"type":"object","properties":{"a":{"type":"integer","enum":[5]}},"required":["a"],"additionalProperties":false}`, ""},
		"default":    {`{"properties":{"a":{"type":"boolean","default":true,"description":"Whether."}}}`, `{"type":"object","properties":{"a":{"description":"Whether. Default: true.","type":["boolean","null"]}},"required":["a"],"additionalProperties":false}`, ""},
		"format":     {`{"properties":{"a":{"type":"string","format":"uri"},"b":{"type":"string","format":"date"}},"required":["a","b"]}`, `{"type":"object","properties":{"a":{"type":"string","description":"Format: uri."},"b":{"type":"string","format":"date"}},"required":["a","b"],"additionalProperties":false}`, ""},
		"union":      {`{"properties":{"a":{"type":["string","integer"]}},"required":["a"]}`, `{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"integer"}]}},"required":["a"],"additionalProperties":false}`, ""},
		"reference":  {`{"properties":{"a":{"$ref":"#/$defs/x","description":"Where it is"}},"$defs":{"x":{"type":"object","properties":{"next":{"$ref":"#/$defs/x"}}}}}`, `{"type":"object","properties":{"a":{"description":"Where it is","anyOf":[{"$ref":"#/$defs/x"},{"type":"null"}]}},"required":["a"],"additionalProperties":false,"$defs":{"x":{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/$defs/x"},{"type":"null"}]}},"required":["next"],"additionalProperties":false}}}`, ""},
		"all of":     {`{"allOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"b":{"type":"null"}}}]}`, `"properties":{"a":{"type":"string"},"b":{"type":"null"}},"required":["a","b"]`, ""},
		"in lists":   {`{"properties":{"a":{"type":"array","items":{"type":"object","properties":{"x":{"type":"number"}}}}},"required":["a"]}`, `"items":{"type":"object","properties":{"x":{"type":["number","null"]}},"required":["x"],"additionalProperties":false}`, ""},
		"open":       {`{"properties":{"a":{"type":"object","additionalProperties":{"type":"string"}}}}`, `"additionalProperties":{"type":"string"}`, "a is a map with keys of the caller's"},
		"anything":   {`{"properties":{"a":{}}}`, `{"type":"object","properties":{"a":{}}}`, "a takes anything"},
		"top any of": {`{"anyOf":[{"type":"object"},{"type":"null"}]}`, `{"type":"object","properties":{}}`, "the schema has anyOf at its top"},
		"no JSON":    {`{`, `{"type":"object","properties":{}}`, "it is not JSON: EOF"},
		"no object":  {`[]`, `{"type":"object","properties":{}}`, "it is not a schema of an object"},
		"an array":   {`{"type":"array"}`, `{"type":"object","properties":{}}`, "the schema is not one of an object"},
		"elsewhere":  {`{"properties":{"a":{"$ref":"https://x/y"}}}`, ``, "a refers to another document"},
		"nowhere":    {`{"properties":{"a":{"$ref":"#/$defs/none"}}}`, ``, "a refers to nothing"},
	} {
		got := strict.Convert(json.RawMessage(c.schema))
		require.Equal(t, c.reason, got.Reason, name)
		require.Equal(t, c.reason == "", got.Strict, name)
		if c.want != "" {
			require.Contains(t, string(got.Parameters), c.want, name)
		}
	}
	deep := `{"type":"string"}`
	for range 12 {
		deep = `{"type":"object","properties":{"a":` + deep + `}}`
	}
	require.Contains(t, strict.Convert(json.RawMessage(deep)).Reason, "nested deeper than 10")
}

// A schema that is in the subset already is taken as it is; one that lacks a
// required property is refused with the provider's own sentence.
func TestTheChartOfTheNotes(t *testing.T) {
	t.Parallel()
	const chart = `{"type":"object","properties":{"df_name":{"type":"string"},"logical_name":{"type":"string","default":""},
		"chart_type":{"type":"string","enum":["bar","column","stacked_column","line","scatter"]},"x_field":{"type":"string"},
		"x_label":{"type":"string","default":""},"y_label":{"type":"string","default":""},
		"series":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"y_field":{"type":"string"}},
		"required":["name","y_field"],"additionalProperties":false},"minItems":1,"maxItems":10},"title":{"type":"string","default":""},
		"note":{"type":"string","default":""}},
		"required":["df_name","logical_name","chart_type","x_field","x_label","y_label","series","title","note"],"additionalProperties":false}`
	require.NoError(t, strict.Verify(json.RawMessage(chart)))
	short := `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a"],"additionalProperties":false}`
	require.ErrorContains(t, strict.Verify(json.RawMessage(short)),
		"required is required to be supplied and to be an array including every key in properties")
	for _, bad := range []string{
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{"x":{"type":"string"}},"required":[],"additionalProperties":false}}},"required":["a"],"additionalProperties":false}`,
		`{"type":"object","properties":{},"required":[]}`,
		`{"type":"object","properties":{"a":{"type":"string","format":"uri"}},"required":["a"],"additionalProperties":false}`,
		`{"type":"object","properties":{"a":{}},"required":["a"],"additionalProperties":false}`,
		`{"type":"object","properties":{"a":{"type":"array"}},"required":["a"],"additionalProperties":false}`,
		`{"type":"string"}`, `{`, `null`,
	} {
		require.Error(t, strict.Verify(json.RawMessage(bad)), bad)
	}
}

func TestRestoreIsDeep(t *testing.T) {
	t.Parallel()
	s := strict.Convert(json.RawMessage(`{"properties":{"list":{"type":"array","items":{"anyOf":[
		{"type":"object","properties":{"kind":{"const":"a"},"x":{"type":"string"}},"required":["kind"]},
		{"type":"object","properties":{"kind":{"const":"b"},"y":{"type":["string","null"]}},"required":["kind","y"]}]}},
		"tree":{"$ref":"#"}}}`))
	require.True(t, s.Strict, s.Reason)
	got, err := s.Restore(json.RawMessage(`{"list":[{"kind":"a","x":null},{"kind":"b","y":null}],"tree":{"list":null,"tree":null},"more":null}`))
	require.NoError(t, err)
	require.JSONEq(t, `{"list":[{"kind":"a"},{"kind":"b","y":null}],"tree":{},"more":null}`, string(got))
	_, err = s.Restore(json.RawMessage(`{`))
	require.Error(t, err)
}

func FuzzConvert(f *testing.F) {
	for _, seed := range []string{`{}`, `{"$ref":"#"}`, `{"properties":{"a":{"allOf":[{"$ref":"#/properties/a"}]}}}`, `{"allOf":[{"$ref":"#"}]}`, `{"properties":{"a":{"$ref":"#/properties/a"}}}`} {
		f.Add([]byte(seed), []byte(`{"a":null}`))
	}
	f.Fuzz(func(t *testing.T, schema, arguments []byte) {
		s := strict.Convert(schema)
		require.True(t, json.Valid(s.Parameters))
		if s.Strict {
			require.NoError(t, strict.Verify(s.Parameters), "%s", s.Parameters)
		}
		if back, err := s.Restore(arguments); err == nil && json.Valid(arguments) {
			require.True(t, json.Valid(back))
		}
	})
}

// An empty text stands for an optional text that is left out, unless the schema
// says that it means something. A required text stays what it is.
func TestEmptyTexts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ schema, want string }{
		"optional":          {`{"properties":{"a":{"type":"string"}}}`, `{}`},
		"required":          {`{"properties":{"a":{"type":"string"}},"required":["a"]}`, `{"a":""}`},
		"nullable":          {`{"properties":{"a":{"type":["string","null"]}}}`, `{}`},
		"required nullable": {`{"properties":{"a":{"type":["string","null"]}},"required":["a"]}`, `{"a":""}`},
		"enum":              {`{"properties":{"a":{"enum":["x","y"]}}}`, `{}`},
		"enum with it":      {`{"properties":{"a":{"enum":["x",""]}}}`, `{"a":""}`},
		"const":             {`{"properties":{"a":{"const":"x"}}}`, `{}`},
		"const of it":       {`{"properties":{"a":{"const":""}}}`, `{"a":""}`},
		"minLength 0":       {`{"properties":{"a":{"type":"string","minLength":0}}}`, `{"a":""}`},
		"minLength 1":       {`{"properties":{"a":{"type":"string","minLength":1}}}`, `{}`},
		"any of":            {`{"properties":{"a":{"anyOf":[{"type":"integer"},{"type":"string"}]}}}`, `{}`},
		"any of with it":    {`{"properties":{"a":{"anyOf":[{"type":"integer"},{"const":""}]}}}`, `{"a":""}`},
		"all of":            {`{"properties":{"a":{"allOf":[{"type":"string"},{"maxLength":5}]}}}`, `{}`},
		"reference":         {`{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"string"}}}`, `{}`},
		"number":            {`{"properties":{"a":{"type":"integer"}}}`, `{"a":""}`},
		"deep":              {`{"properties":{"o":{"type":"object","properties":{"a":{"type":"string"}}}},"required":["o"]}`, `{"o":{}}`},
		"in a list":         {`{"properties":{"l":{"type":"array","items":{"type":"string"}}}}`, `{"l":[""]}`},
	} {
		s := strict.Convert(json.RawMessage(c.schema))
		require.True(t, s.Strict, "%s: %s", name, s.Reason)
		sent := map[string]string{"deep": `{"o":{"a":""}}`, "in a list": `{"l":[""]}`}[name]
		if sent == "" {
			sent = `{"a":""}`
		}
		got, err := s.Restore(json.RawMessage(sent))
		require.NoError(t, err)
		require.JSONEq(t, c.want, string(got), name)
	}
}

// Of every tool of the corpus, arguments with an empty text for each optional
// text are those without it.
func TestEmptyTextsOfTheCorpus(t *testing.T) {
	t.Parallel()
	tried := 0
	for name, s := range corpus(t) {
		for _, tool := range s.Tools {
			got := strict.Convert(tool.InputSchema)
			var schema struct {
				Properties map[string]struct {
					Type      any
					Enum      []any
					MinLength *int
				}
				Required []string
			}
			require.NoError(t, json.Unmarshal(tool.InputSchema, &schema))
			if !got.Strict {
				continue
			}
			for property, p := range schema.Properties {
				if p.Type != "string" || slices.Contains(p.Enum, any("")) || p.MinLength != nil && *p.MinLength == 0 {
					continue
				}
				sent, err := json.Marshal(map[string]any{property: "", "other": ""})
				require.NoError(t, err)
				back, err := got.Restore(sent)
				require.NoError(t, err)
				require.Equal(t, slices.Contains(schema.Required, property), strings.Contains(string(back), `"`+property+`"`), "%s %s %s: %s", name, tool.Name, property, back)
				require.Contains(t, string(back), `"other":""`, "what the schema does not know stays")
				tried++
			}
		}
	}
	require.Greater(t, tried, 500)
}

// Parts of a short schema may refer to each other so that it would never be converted,
// or be larger than any memory.
func TestShortSchemasThatWouldBeLong(t *testing.T) {
	t.Parallel()
	knot := func(word string) string {
		defs := ""
		for i := range 4 {
			branches := strings.Repeat(fmt.Sprintf(`,{"$ref":"#/$defs/l%d"}`, i+1), 20)[1:]
			defs += fmt.Sprintf(`"l%d":{"%s":[%s]},`, i, word, branches)
		}
		return `{"type":"object","properties":{"a":{"$ref":"#/$defs/l0"}},"$defs":{` + defs + `"l4":{"type":"string"}}}`
	}
	layers := ""
	for i := range 4 {
		members := ""
		for j := range 40 {
			members += fmt.Sprintf(`,"x%d":{"$ref":"#/properties/p%d"}`, j, i+1)
		}
		layers += fmt.Sprintf(`"p%d":{"type":"object","properties":{%s}},`, i, members[1:])
	}
	long := strings.Repeat("n", 100_000)
	words := ""
	for i := range 4000 {
		words += fmt.Sprintf(`,"%d":{"type":"string","minLength":1}`, i)
	}
	for schema, reason := range map[string]string{
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"$ref":"#/$defs/A"}}}`:                          "a refers to itself",
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"$ref":"#/$defs/B"},"B":{"$ref":"#/$defs/A"}}}`: "a refers to itself",
		knot("allOf"): "the schema has too many parts that refer to others",
		knot("anyOf"): "the schema has too many parts that refer to others",
		`{"type":"object","properties":{` + layers + `"p4":{"type":"string"}}}`:                              "the schema has more than 5000 properties",
		`{"type":"object","properties":{"` + long + `":{"type":"object","properties":{` + words[1:] + `}}}}`: "the schema has too many parts that refer to others",
	} {
		s := strict.Convert(json.RawMessage(schema))
		require.False(t, s.Strict, "%.200s", schema)
		require.Equal(t, reason, s.Reason)
		_, err := s.Restore(json.RawMessage(`{"a":1}`))
		require.NoError(t, err)
	}
}
