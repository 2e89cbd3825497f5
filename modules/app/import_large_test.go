package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app"
)

// large is an API of 1,000 operations, ten for each of 100 things, and the file
// that describes it.
func large(t *testing.T) (file string) {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"did":%q}`, r.Method+" "+r.URL.Path)
	}))
	t.Cleanup(web.Close)
	verbs := []string{"list", "create", "replace", "archive", "restore", "approve", "refund", "export", "translate", "inspect"}
	paths := map[string]any{}
	for thing := range 100 {
		for _, verb := range verbs {
			fields := map[string]any{}
			for field := range 6 {
				fields[fmt.Sprintf("field_%d", field)] = map[string]any{"type": "string", "description": "What stands in the field, at some length, with an example of it"}
			}
			paths[fmt.Sprintf("/thing%02d/{id}/%s", thing, verb)] = map[string]any{"post": map[string]any{
				"operationId": fmt.Sprintf("%s_thing%02d", verb, thing), "summary": fmt.Sprintf("%s a thing of kind %02d. %s", verb, thing, strings.Repeat("It takes time. ", 10)),
				"parameters":  []any{map[string]any{"name": "id", "in": "path", "required": true, "schema": map[string]any{"type": "integer"}}},
				"requestBody": map[string]any{"content": map[string]any{"application/json": map[string]any{"schema": map[string]any{"type": "object", "properties": fields}}}},
				"responses": map[string]any{"200": map[string]any{"description": "Done", "content": map[string]any{"application/json": map[string]any{
					"schema": map[string]any{"type": "object", "properties": map[string]any{"did": map[string]any{"type": "string"}}},
				}}}},
			}}
		}
	}
	text, err := json.Marshal(map[string]any{
		"openapi": "3.0.3", "info": map[string]any{"title": "Things", "version": "1"}, "servers": []any{map[string]any{"url": web.URL}}, "paths": paths,
	})
	require.NoError(t, err)
	file = filepath.Join(t.TempDir(), "things.json")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	return file
}

// An agent with 1,000 imported operations is told how many there are, not what
// each is. A program finds one of them by what it does, and calls it by the name
// that it found.
func TestThousandImportedOperationsAreSearched(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	const program = `
import re
found = str(search_tools("refund a thing of kind 73"))
name = re.search(r"refund_thing\d+", found).group()
print(len(found) < 8000, name, globals()[name](id=5)["did"])
`
	model, env := script(t, `
- output: [`+programCall(t, "execute_code", program)+`]
- expect: ["True refund_thing73 POST /thing73/5/refund"]
  output: [{text: "Refunded."}]
`)
	url := databasetest.URL(t, database.SQLite)
	s := serveOptions(t, environ(t, url, env...), app.Options{})
	code, out, errs := portico(t, environ(t, url), "toolset", "import", "--openapi", large(t), "--name", "things", "--price", "0", "--egress", "127.0.0.0/8")
	require.Equal(t, 0, code, errs)
	require.Equal(t, "toolset things: 1000 methods\n", out)
	answer, body := s.stream(t, s.key, map[string]any{"query": "Refund thing 5 of kind 73", "toolsets": []string{"things"}, "resultId": "ar-large"})
	require.Equal(t, 200, answer.StatusCode)
	eventsOf(t, body)
	r := s.result(t, s.key, "ar-large")
	require.Equal(t, "finish", r.Status, "%v", r.Errors)
	first := string(model.Requests()[0])
	require.Less(t, len(first), 64<<10, "the whole request, in bytes")
	require.Contains(t, first, "1000 functions, not listed here; search_tools finds them")
	require.NotContains(t, first, "refund_thing73")
	for _, request := range model.Requests()[1:] {
		require.Less(t, len(request), 80<<10, "nor does it grow by what was found")
	}
}
