// Slow under the race detector: make test runs it without.
//go:build !race

package app_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
)

// wordsOfGo are in messages of the language and its libraries, which mean
// nothing to a caller.
var wordsOfGo = regexp.MustCompile(`json: |Go struct|Go value|strconv|unexpected EOF|unexpected end of JSON|invalid character|cannot unmarshal|interface ?\{|\*errors|mime: |http: |multipart: |reflect|runtime error|nil pointer|\[\]uint8|RawMessage|goroutine|sql: |gorm|EOF`)

// fill is a value for a schema, that is valid as far as types go.
func fill(s *openapi3.SchemaRef, depth int) any {
	switch {
	case s == nil || s.Value == nil || depth > 4 || s.Value.Type == nil:
		return nil
	case len(s.Value.Enum) > 0:
		return s.Value.Enum[0]
	case s.Value.Type.Includes("object"):
		object := map[string]any{}
		for name, p := range s.Value.Properties {
			object[name] = fill(p, depth+1)
		}
		return object
	case s.Value.Type.Includes("array"):
		return []any{fill(s.Value.Items, depth+1)}
	case s.Value.Type.Includes("integer"), s.Value.Type.Includes("number"):
		return 1
	case s.Value.Type.Includes("boolean"):
		return true
	}
	return "x"
}

// wrong are bodies that differ from a good one in one place.
func wrong(good map[string]any) map[string]string {
	whole, _ := json.Marshal(good)
	bodies := map[string]string{
		"cut": string(whole[:len(whole)/2]), "trailing": string(whole) + "}", "control": "{\"a\":\"\x01\"}", "empty": "", "null": "null", "text": `"x"`, "many": "{}{}",
	}
	for _, name := range slices.Sorted(maps.Keys(good)) {
		for _, value := range []string{`1`, `1.5`, `1e400`, `123456789012345678901234567890`, `-1.0`, `"x"`, `[]`, `[1]`, `[{"a":1}]`, `{}`, `true`, `null`} {
			body := maps.Clone(good)
			body[name] = json.RawMessage(value)
			text, _ := json.Marshal(body)
			bodies[name+" as "+value] = string(text)
		}
		slip := maps.Clone(good)
		delete(slip, name)
		slip[name+"s"] = good[name]
		text, _ := json.Marshal(slip)
		bodies["slip of "+name] = string(text)
	}
	return bodies
}

// No answer to any body of any operation is in the words of Go.
func TestNoAnswerHasTheWordsOfGo(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	tried := 0
	for _, op := range operations(document(t, s)) {
		if op.RequestBody == nil {
			continue
		}
		kind := op.RequestBody.Value.Content.Get("application/json")
		if kind == nil || strings.Contains(op.path, "invoke") || strings.Contains(op.path, "Invoke") {
			continue // runs of agents have no end without a model
		}
		good, _ := fill(kind.Schema, 0).(map[string]any)
		if _, runs := good["code"]; runs {
			good["code"] = ""
		}
		for name, body := range wrong(good) {
			tried++
			a := s.send(s.key, op.method, op.path, body, "Content-Type", "application/json")
			require.Less(t, a.status, 500, "%s %s, %s: %s", op.method, op.path, name, a.raw)
			if a.status >= 400 {
				require.NotRegexp(t, wordsOfGo, a.raw, "%s %s, %s", op.method, op.path, name)
			}
		}
		for _, header := range []string{"text/plain", "application/json; charset", "multipart/form-data", ""} {
			a := s.send(s.key, op.method, op.path, "{}", "Content-Type", header)
			require.NotRegexp(t, wordsOfGo, a.raw, "%s %s as %q", op.method, op.path, header)
		}
	}
	require.Greater(t, tried, 500)
	for _, path := range []string{"limit=x", "limit=1.5", "limit=99999999999999999999", "cursor=%21", "version=1.0", "version=x"} {
		a := s.send(s.key, "GET", "/v1/tool/calls?"+path, nil)
		require.NotRegexp(t, wordsOfGo, a.raw, path)
	}
}

// A member whose name is nearly right is refused, with the right name: the tool
// would be executed, and billed, without its arguments.
func TestMisspelledFieldsAreRefused(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	for path, c := range map[string]struct{ body, meant string }{
		"/v1/tool/execute":    {`{"toolsetKey":"demo","toolName":"get_weather","argumens":{"city":"Rome"}}`, "argumens is not known; did you mean arguments?"},
		"/v1/sandbox/execute": {`{"code":"print(1)","language":"python","tool_sets":["demo"]}`, "tool_sets is not known; did you mean toolsets?"},
		"/v1/exec":            {`{"code":"print(1)","lang":"py","timeuot":5000}`, "timeuot is not known; did you mean timeout?"},
	} {
		a := s.send(s.key, "POST", path, c.body)
		require.Equal(t, 400, a.status, "%s: %s", path, a.raw)
		require.Contains(t, a.raw, c.meant, path)
	}
	require.Zero(t, s.count("SELECT count(*) FROM tool_call_results"))
	good := s.send(s.key, "POST", "/v1/tool/execute", `{"toolsetKey":"demo","toolName":"get_weather","arguments":{"city":"Rome"},"note":"mine"}`)
	require.Contains(t, good.raw, `"status":"success"`)
	whole := s.send(s.key, "POST", "/v1/sandbox/execute", fmt.Sprintf(`{"code":%q,"language":"python","timeout":5000.0}`, "print(1)"))
	require.Equal(t, 200, whole.status, whole.raw)
}
