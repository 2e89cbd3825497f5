package form_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
	"pgregory.net/rapid"

	"github.com/portico-run/portico/internal/schema/jsonschema"
	"github.com/portico-run/portico/modules/console/form"
)

// For every schema: whatever object is meant, the form that shows it posts it,
// exactly, and shows it again when it is wrong.
func TestAFormPostsWhatItShows(t *testing.T) {
	t.Parallel()
	for name, schema := range schemas(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := form.New(schema)
			require.NoError(t, err)
			var root map[string]any
			require.NoError(t, json.Unmarshal(schema, &root))
			rapid.Check(t, func(rt *rapid.T) {
				intended, err := json.Marshal(intendObject(rt, root, root, 0))
				require.NoError(rt, err)
				values, err := f.Values(intended)
				require.NoError(rt, err)
				got, problems := f.Read(submit(t, page(t, f.View("f", values, nil))))
				require.Equal(rt, canonical(t, intended), canonical(t, got))
				// Again, as it comes back with what is wrong.
				again, _ := f.Read(submit(t, page(t, f.View("f", values, problems))))
				require.Equal(rt, canonical(t, intended), canonical(t, again))
			})
		})
	}
}

// What breaks a rule is said at its field and in the list above, with a link, and
// everything that was typed stays.
func TestAProblemIsAtItsField(t *testing.T) {
	t.Parallel()
	all := schemas(t)
	const good = `{"name":"Anna","flag":false,"place":{"city":"Rome","at":{"lat":1.50}},"ids":[1,2],"tags":["a","b"],"level":2.5,"half":{"known":"x"}}`
	for _, c := range []struct{ field, typed, label, says string }{
		{"f/name", "A", "name", "at least 2 characters"},
		{"f/name", "", "name", "is required"},
		{"f/code", "nonsense", "code", "must match the pattern"},
		{"f/day", "2026-13-01", "day", "valid date"},
		{"f/when", "soon", "when", "valid date-time"},
		{"f/count", "twelve", "count", "must be a number"},
		{"f/count", "0", "count", "at least 1"},
		{"f/count", "1.5", "count", "must be integer"},
		{"f/share", "1", "share", "less than 1"},
		{"f/flag", "", "flag", "is required"},
		{"f/size", `"huge"`, "size", "one of the choices"},
		{"f/tags", "1\r\n2\r\n3\r\n4\r\n5\r\n6", "tags", "at most 5 items"},
		{"f/ids", "1\r\ntwo", "ids", "must be a number"},
		{"f/ids", "1\r\n1.5", "ids", "must be integer"},
		{"f/place/city", "", "city", "is required"},
		{"f/place/at/lat", "91", "lat", "at most 90"},
		{"f/either", "{", "either", "must be JSON"},
		{"f/either", "12", "either", "must be"},
		{"f/matrix", `[[1,"a"]]`, "matrix", "[0][1] must be number"},
		{"f/map", `{"x":"y"}`, "map", "x must be number"},
		{"r/half", `{"known":1}`, "Further members", "has a field of its own"},
		{"r/half", `{"other":"y"}`, "Further members", "other must be integer"},
		{"f/optional", "ab", "optional", "at least 3 characters"},
	} {
		t.Run(c.field+" "+c.typed, func(t *testing.T) {
			t.Parallel()
			f, err := form.New(all["everything"])
			require.NoError(t, err)
			values, err := f.Values(json.RawMessage(good))
			require.NoError(t, err)
			posted := submit(t, page(t, f.View("f", values, nil)))
			require.Contains(t, posted, c.field)
			posted.Set(c.field, c.typed)
			_, problems := f.Read(posted)
			shown := page(t, f.View("f", posted, problems))
			input, link := problemIn(t, shown)
			require.Equal(t, c.field, attr(input, "name"))
			require.Equal(t, "true", attr(input, "aria-invalid"))
			require.Equal(t, "#"+attr(input, "id"), attr(link, "href"))
			require.Equal(t, c.label, inside(link))
			require.Contains(t, described(t, shown, input), c.says)
			if c.field != "f/size" { // a browser posts one of the choices
				require.Equal(t, plain(posted), plain(submit(t, shown)), "what was typed stays")
			}
		})
	}
}

// plain is what was posted, with one kind of line ends.
func plain(posted url.Values) string {
	text, _ := url.QueryUnescape(posted.Encode())
	return strings.ReplaceAll(text, "\r\n", "\n")
}

// problemIn finds the only invalid input of a page, and the only link to a problem.
func problemIn(t *testing.T, page string) (input, link *html.Node) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	require.NoError(t, err)
	each(root, func(n *html.Node) {
		if has(n, "aria-invalid") {
			require.Nil(t, input, "one field is wrong")
			input = n
		}
		if n.Data == "a" {
			require.Nil(t, link)
			link = n
		}
	})
	require.NotNil(t, input, page)
	require.NotNil(t, link)
	return input, link
}

// described is the text of what describes an input.
func described(t *testing.T, page string, input *html.Node) string {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	require.NoError(t, err)
	var said []string
	for id := range strings.FieldsSeq(attr(input, "aria-describedby")) {
		each(root, func(n *html.Node) {
			if attr(n, "id") == id {
				said = append(said, inside(n))
			}
		})
	}
	return strings.Join(said, " ")
}

// An input left empty leaves its member out; a box says to send it empty.
func TestEmptyIsNotAbsent(t *testing.T) {
	t.Parallel()
	f, err := form.New(schemas(t)["everything"])
	require.NoError(t, err)
	got, problems := f.Read(url.Values{
		"f/name": {"Anna"}, "f/flag": {"false"}, "f/place/city": {"Rome"}, "e/ids": {"1"}, "e/note": {"1"}, "f/tags": {"\r\n \r\n"}, "e/place/at/deep": {"1"}, "f/maybe": {""},
	})
	require.JSONEq(t, `{"name":"Anna","note":"","flag":false,"ids":[],"place":{"city":"Rome","at":{"deep":{}}}}`, string(got))
	require.Equal(t, []form.Problem{{Path: "place.at.lat", Message: "is required"}}, problems)
}

// The whole object can be written as JSON, whatever the schema is.
func TestTheWholeAsJSON(t *testing.T) {
	t.Parallel()
	f, err := form.New(schemas(t)["everything"])
	require.NoError(t, err)
	posted := submit(t, page(t, f.View("f", url.Values{"j": {`{"name":"Anna","flag":true,"place":{"city":"Rome"},"ids":[]}`}}, nil)))
	require.Len(t, posted, 1)
	got, problems := f.Read(posted)
	require.Empty(t, problems)
	require.JSONEq(t, `{"name":"Anna","flag":true,"place":{"city":"Rome"},"ids":[]}`, string(got))

	for _, wrong := range []string{"[1]", "{", "12", "null", `{} {}`} {
		_, problems := f.Read(url.Values{"j": {wrong}})
		require.NotEmpty(t, problems, wrong)
	}
}

// A form says which schemas it cannot be made of, and is never partly made.
func TestASchemaThatIsNone(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{`{`, `12`, `true`, `{"type":"magic"}`, `{"$ref":"https://example.com/schema"}`} {
		_, err := form.New(json.RawMessage(schema))
		require.Error(t, err, schema)
	}
	f, err := form.New(nil)
	require.NoError(t, err)
	got, problems := f.Read(url.Values{"r": {`{"a":1}`}})
	require.Empty(t, problems)
	require.JSONEq(t, `{"a":1}`, string(got))
}

// A schema with more fields than a page should have is written as JSON.
func TestAVastSchemaIsOneField(t *testing.T) {
	t.Parallel()
	properties := map[string]any{}
	for i := range 1000 {
		properties["p"+strings.Repeat("x", i)] = map[string]any{"type": "string"}
	}
	raw, err := json.Marshal(map[string]any{"type": "object", "properties": properties})
	require.NoError(t, err)
	f, err := form.New(raw)
	require.NoError(t, err)
	require.Len(t, f.View("f", nil, nil).Fields, 1)
	got, _ := f.Read(url.Values{"r": {`{"px":"1"}`}})
	require.JSONEq(t, `{"px":"1"}`, string(got))
}

// Items of toolsets become fields with their words, and values as the API wants
// them. A secret is never shown again, wherever the problem is.
func TestItemsOfAToolset(t *testing.T) {
	t.Parallel()
	var items []form.Item
	require.NoError(t, json.Unmarshal([]byte(`[
		{"key":"apiKey","inputMode":"text","required":true,"labelDict":{"en":"API key"},"descriptionDict":{"en":"From the account page"}},
		{"key":"region","inputMode":"select","options":[{"value":"eu","labelDict":{"en":"Europe"}},{"value":"us"}],"defaultValue":"eu"},
		{"key":"batch","inputMode":"number","inputProps":{"min":1,"max":10,"step":3}},
		{"key":"formats","inputMode":"multiSelect","options":[{"value":"text"},{"value":"html"}]},
		{"key":"quiet","inputMode":"switch","defaultValue":true}]`), &items))
	f := form.OfItems(items, true)
	got, problems := f.Read(url.Values{"f/apiKey": {"sk-secret"}, "f/region": {`"us"`}, "f/batch": {"4"}, "f/formats": {`"text"`, `"html"`}, "f/quiet": {"false"}})
	require.Empty(t, problems)
	require.JSONEq(t, `{"apiKey":"sk-secret","region":"us","batch":4,"formats":["text","html"],"quiet":false}`, string(got))

	values, err := f.Values(got)
	require.NoError(t, err)
	values.Set("j/apiKey", `"sk-secret"`)
	shown := page(t, f.View("f", values, []form.Problem{{Path: "batch", Message: "is not a step"}}))
	require.NotContains(t, shown, "sk-secret")
	for _, want := range []string{"API key", "From the account page", "Europe", "default: eu", "at least 1; at most 10; in steps of 3", "is not a step"} {
		require.Contains(t, shown, want)
	}
}

// Whatever is posted, reading ends with an object or a problem.
func FuzzRead(f *testing.F) {
	f.Add("f/name=A&j/ids=%5B", uint8(0))
	f.Add("r=%7B%7D&f/tree/value=1e9", uint8(1))
	all := schemas(f)
	names := []string{"everything", "names", "references", "alternatives"}
	f.Fuzz(func(t *testing.T, query string, which uint8) {
		posted, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		schema := all[names[int(which)%len(names)]]
		made, err := form.New(schema)
		require.NoError(t, err)
		got, problems := made.Read(posted)
		page(t, made.View("f", posted, problems))
		compiled, err := jsonschema.Compile(schema)
		require.NoError(t, err)
		if _, err := compiled.Arguments(got); len(problems) == 0 {
			require.NoError(t, err)
		}
	})
}
