package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
)

// pets is an API with its OpenAPI document, which answers what it was asked.
func pets(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"openapi":"3.1.0","info":{"title":"Pets","version":"1"},"servers":[{"url":"%s/v1"}],
			"components":{"securitySchemes":{"key":{"type":"apiKey","in":"query","name":"key"}}},"paths":{
			"/pets/{id}":{"put":{"operationId":"change-pet","tags":["write"],"parameters":[
				{"name":"id","in":"path","required":true,"schema":{"type":"integer"}},{"name":"notify","in":"query","schema":{"type":"boolean"}},{"name":"X-Trace","in":"header","schema":{"type":"string"}}],
				"requestBody":{"content":{"application/json":{"schema":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"tags":{"type":"array","items":{"type":"string"}}}}}}},
				"responses":{"200":{"description":"ok"}}}}}}`, web.URL)
	})
	mux.HandleFunc("PUT /v1/pets/{id}", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Query().Get("key") != "pet-key" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":%q,"notify":%q,"trace":%q,"body":%s}`, r.PathValue("id"), r.URL.Query().Get("notify"), r.Header.Get("X-Trace"), body)
	})
	return web
}

// An OpenAPI document becomes a toolset that works: loaded by one command,
// called from Python with the generated SDK, billed at its price.
func TestImportedToolsetsWork(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	api := pets(t)
	url := databasetest.URL(t, database.SQLite)
	s := serve(t, url, "TOOLSET_PETS_API_KEY=pet-key")
	code, out, errs := portico(t, environ(t, url, "TOOLSET_PETS_API_KEY=pet-key"), "toolset", "import", "--openapi", api.URL+"/openapi.json", "--name", "pets", "--tag", "write", "--price", "1.5", "--egress", "127.0.0.0/8")
	require.Equal(t, 0, code, errs)
	require.Equal(t, "toolset pets: 1 methods\n", out)
	o := s.run(map[string]any{"code": strings.Join([]string{
		"from refly_tools.pets import Pets",
		"print(Pets.change_pet(id=7, notify=True, X_Trace='t', name='Tom', tags=['a'], file_name_title='x')['data'])",
	}, "\n")})
	require.Equal(t, "{'id': '7', 'notify': 'true', 'trace': 't', 'body': {'name': 'Tom', 'tags': ['a']}}\n", o.Stdout, o.Stderr)
	require.Equal(t, 1, s.count("SELECT count(*) FROM credit_usages WHERE action_result_id = ? AND amount = 1.5", o.ResultID))
}
