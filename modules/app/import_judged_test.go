package app_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
)

// judged is a server that answers only what its OpenAPI document allows, and
// tells what was wrong with the rest.
type judged struct {
	*httptest.Server

	mu    sync.Mutex
	seen  map[string]int // by operationId
	wrong []string
}

// judge serves a document whose server is {server}.
func judge(t *testing.T, name string) (*judged, string) {
	t.Helper()
	j := &judged{seen: map[string]int{}}
	mux := http.NewServeMux()
	j.Server = httptest.NewServer(mux)
	t.Cleanup(j.Close)
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	text = []byte(strings.ReplaceAll(string(text), "{server}", j.URL))
	path := filepath.Join(t.TempDir(), filepath.Base(name))
	require.NoError(t, os.WriteFile(path, text, 0o600))
	doc, err := openapi3.NewLoader().LoadFromData(text)
	require.NoError(t, err)
	router, err := legacy.NewRouter(doc)
	require.NoError(t, err)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		r.URL.Scheme, r.URL.Host = "http", r.Host // the router compares them with the document's server
		route, parameters, err := router.FindRoute(r)
		if err == nil {
			err = openapi3filter.ValidateRequest(r.Context(), &openapi3filter.RequestValidationInput{
				Request: r, PathParams: parameters, Route: route,
				Options: &openapi3filter.Options{AuthenticationFunc: allowed, MultiError: true},
			})
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		if err != nil {
			j.wrong = append(j.wrong, r.Method+" "+r.RequestURI+": "+err.Error())
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		j.seen[route.Operation.OperationID]++
		answerAs(w, route.Operation.OperationID)
	})
	return j, path
}

// allowed checks the credentials of the document.
func allowed(_ context.Context, in *openapi3filter.AuthenticationInput) error {
	r := in.RequestValidationInput.Request
	switch in.SecuritySchemeName {
	case "session":
		if c, err := r.Cookie("sid"); err == nil && c.Value == "first-secret" {
			return nil
		}
	case "app":
		if r.Header.Get("X-App-Key") == "second-secret" {
			return nil
		}
	}
	return fmt.Errorf("%s is missing", in.SecuritySchemeName)
}

func answerAs(w http.ResponseWriter, operation string) {
	switch operation {
	case "feed":
		w.Header().Set("Content-Type", "application/xml")
		fmt.Fprint(w, "<feed/>")
	case "photo":
		w.Header().Set("Content-Type", "image/png")
		fmt.Fprint(w, "\x89PNG\r\n\x1a\n")
	default:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"ok":true}`)
	}
}

// Every operation of a document with all kinds of parameters and bodies is
// called by a program, and each request is one that the document allows.
func TestImportedOperationsSendWhatTheirDocumentSays(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	j, document := judge(t, "../connector/rest/openapi/testdata/kinds.yaml")
	url := databasetest.URL(t, database.SQLite)
	secrets := []string{"TOOLSET_KINDS_API_KEY=second-secret", "TOOLSET_KINDS_SESSION_API_KEY=first-secret"}
	s := serve(t, url, secrets...)
	file := filepath.Join(t.TempDir(), "kinds.yaml")
	for _, args := range [][]string{
		{"toolset", "import", "--openapi", document, "--name", "kinds", "--strict", "--egress", "127.0.0.0/8", "--out", file},
		{"toolset", "apply", "-f", file},
	} {
		code, _, errs := portico(t, environ(t, url, secrets...), args...)
		require.Equal(t, 0, code, errs)
	}
	code := `
from refly_tools.kinds import Kinds
def call(operation, **arguments):
    got = getattr(Kinds, operation)(file_name_title="x", **arguments)
    assert got["status"] == "success", (operation, got)
    return got["data"]
call("path", one="a b", two=[1, 2], three={"r": 1, "g": 2})
call("query", plain=["a", "b c"], comma=["a", "b"], piped=["a", "b"], spaced=["a", "b"], deep={"min": 1, "max": 2}, filter={"name": ["x"], "age": 3}, page_size=5)
call("headers", X_List=[1, 2], X_Object={"a": 1}, theme="dark")
call("changeThing", id="a/b", query_id=2, header_id="h", cookie_id="c", body_id=4, name="n")
call("form", name="n n", tags=["a", "b"], range={"from": 1, "to": 2})
call("optional")
call("raw", body="plain text")
call("patch", body=[{"op": "add", "path": "/a", "value": 1}])
call("nothing")
call("animal", body={"kind": "cat", "lives": 9})
print(call("feed"))
print(sorted(call("photo"))[-2:])
`
	o := s.run(map[string]any{"code": code})
	require.Empty(t, j.wrong, o.Stderr)
	require.Empty(t, o.Stderr)
	require.Equal(t, "<feed/>\n['type', 'url']\n", o.Stdout)
	require.Len(t, j.seen, 12)
}
