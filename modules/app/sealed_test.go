// Slow under the race detector: make test runs it without.
//go:build !race

package app_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/toolset/sealed"
)

// sealers are the files that seal something with the encryption key, with the columns
// that it is stored in; none for what only clients keep.
func sealers() map[string][]string {
	return map[string][]string{
		"modules/toolset/store/service.go":            {"toolset_inventory.api_key"},
		"modules/toolset/install/service.go":          {"toolsets.auth_data"},
		"modules/connector/oauth/client.go":           {"mcp_clients.client"},
		"modules/connector/oauth/grant.go":            {"mcp_credentials.tokens", "toolset_grants.tokens"},
		"modules/connector/oauth/flow.go":             {"mcp_authorizations.flow", "toolset_authorizations.flow"},
		"modules/connector/mcp/server/service.go":     {"mcp_servers.client", "mcp_servers.env", "mcp_servers.headers"},
		"modules/connector/mcp/server/service_own.go": {"mcp_credentials.placeholders"},

		"modules/connector/mcp/server/service_write.go": nil, // the function that service_own.go seals with
		"modules/agent/openai/history/seal.go":          nil, // fingerprints of programs: OPENAI_STORED_LIFE
		"modules/account/authserver/client.go":          nil, // ids of apps: they register anew
		"modules/program/mcpserver/ask.go":              nil, // questions: a day
		"modules/run/outside/service.go":                nil, // closes a record
		"modules/run/record/service_outside.go":         nil, // the same
	}
}

// Whoever seals something new says here where it is stored, and its column is sealed
// again when the key changes.
func TestEverySealedColumnIsRotated(t *testing.T) {
	t.Parallel()
	found, listed := map[string]bool{}, map[string]bool{}
	for _, s := range sources(t) {
		if s.test() || s.pkg == "internal/secretbox" || s.pkg == "modules/toolset/sealed" {
			continue
		}
		ast.Inspect(s.File, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if f, ok := call.Fun.(*ast.SelectorExpr); ok && strings.EqualFold(f.Sel.Name, "seal") {
				found[s.path] = true
			}
			return true
		})
	}
	for path, columns := range sealers() {
		require.True(t, found[path], "%s seals nothing any more", path)
		for _, c := range columns {
			require.False(t, listed[c], c)
			listed[c] = true
		}
	}
	for path := range found {
		require.Contains(t, sealers(), path, "say where it is stored, or that it is not")
	}
	rotated := map[string]bool{}
	for _, c := range sealed.Columns() {
		rotated[c.Table+"."+c.Name] = true
	}
	require.Equal(t, slices.Sorted(maps.Keys(listed)), slices.Sorted(maps.Keys(rotated)))
}

// sealedTexts counts, by column, what any of the keys has sealed, wherever in the
// database it is.
func sealedTexts(t *testing.T, db *database.DB, keys *secretbox.Box) map[string]int {
	t.Helper()
	found := map[string]int{}
	for table, columns := range schemaOf(t, db) {
		for _, column := range columns {
			var texts []string
			q := fmt.Sprintf(`SELECT CAST(%q AS text) FROM %q WHERE %q IS NOT NULL`, column, table, column)
			require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw(q).Scan(&texts).Error, q)
			for _, text := range texts {
				if _, err := keys.Open(text); err == nil {
					found[table+"."+column]++
				}
			}
		}
	}
	return found
}

// schemaOf are the columns of every table.
func schemaOf(t *testing.T, db *database.DB) map[string][]string {
	t.Helper()
	q := `SELECT m.name AS tab, p.name AS col FROM sqlite_schema m JOIN pragma_table_info(m.name) p
		WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.sql NOT LIKE 'CREATE VIRTUAL%'`
	if db.Dialect() == database.Postgres {
		q = "SELECT table_name AS tab, column_name AS col FROM information_schema.columns WHERE table_schema = current_schema()"
	}
	var rows []struct{ Tab, Col string }
	require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw(q).Scan(&rows).Error)
	schema := map[string][]string{}
	for _, r := range rows {
		schema[r.Tab] = append(schema[r.Tab], r.Col)
	}
	require.Greater(t, len(schema), 30)
	return schema
}

// The encryption key and the secret of sessions change while a server works: what the
// old ones sealed and signed is good until they are dropped, and what is stored is
// sealed again for good.
func TestKeysChangeWithoutStopping(t *testing.T) {
	testenv.Slow(t, "whole servers at work")
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(upstream.Close)
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			keysChange(t, databasetest.URL(t, d), upstream.URL)
		})
	}
}

func keysChange(t *testing.T, url, upstream string) {
	t.Helper()
	first, second := strings.Repeat("0a", 32), strings.Repeat("0b", 32)
	folder := "OBJECT_STORAGE_FOLDER=" + filepath.Join(t.TempDir(), "objects")
	was := serve(t, url, folder)
	locked := "{key: locked, name: X, domain: %q, egress: {allow: [127.0.0.0/8]}, credential: {type: bearer, value: s3cret}, billing: 5, methods: [{name: go, endpoint: /go, request: {type: object}}]}"
	was.apply(t, map[string]string{"locked.yaml": fmt.Sprintf(locked, upstream)})
	a := was.send(was.key, "POST", "/v1/mcp/servers", `{"name":"mine","url":"https://mcp.example.com/x","headers":{"X-Key":"s3cret"}}`)
	require.Equal(t, 200, a.status, a.raw)
	token, err := was.app.Accounts.Service.IssueToken(t.Context(), was.first())
	require.NoError(t, err)
	file := was.store(was.canvas("c"), "kept.txt", "kept")
	var link struct{ URL string }
	require.NoError(t, json.Unmarshal(was.send(was.key, "POST", "/v1/drive/file/presign", map[string]any{"fileId": file.FileID}).body.Data, &link))
	_, path, found := strings.Cut(link.URL, "/v1/")
	require.True(t, found, link.URL)
	works := func(s *instance) {
		t.Helper()
		var got struct{ Status, ErrorCode string }
		a := s.send(was.key, "POST", "/v1/tool/execute", `{"toolsetKey":"locked","toolName":"go"}`)
		require.NoError(t, json.Unmarshal(a.body.Data, &got), a.raw)
		require.Equal(t, "success", got.Status, a.raw)
		a = s.send(was.key, "GET", "/v1/mcp/servers", nil)
		require.Equal(t, 200, a.status, a.raw)
		require.Contains(t, a.raw, "mine")
	}
	works(was)
	was.stop()

	now := []string{folder, "JWT_SECRET=" + strings.Repeat("n", 32), "ENCRYPTION_KEY=" + second}
	both := serve(t, url, append(now, "ENCRYPTION_KEYS_OLD="+first, "JWT_SECRETS_OLD="+strings.Repeat("s", 32))...)
	works(both)
	require.Equal(t, 200, both.send("", "GET", "/v1/auth/me", nil, "Authorization", "Bearer "+token).status)
	require.Equal(t, "kept", both.send("", "GET", "/v1/"+path, nil).raw)

	old, err := secretbox.New(first)
	require.NoError(t, err)
	before := sealedTexts(t, both.app.DB, old)
	require.Equal(t, map[string]int{"toolset_inventory.api_key": before["toolset_inventory.api_key"], "mcp_servers.headers": 1}, before)
	require.Positive(t, before["toolset_inventory.api_key"])
	reports, err := both.app.Sealed.Rotate(t.Context())
	require.NoError(t, err)
	for _, r := range reports {
		require.Zero(t, r.Old+r.Unknown, "%s.%s", r.Table, r.Name)
		require.Equal(t, int64(before[r.Table+"."+r.Name]), r.Resealed, "%s.%s", r.Table, r.Name)
	}
	require.Empty(t, sealedTexts(t, both.app.DB, old), "a column is not sealed again")
	works(both)
	both.stop()

	alone := serve(t, url, now...)
	works(alone)
	require.Equal(t, 401, alone.send("", "GET", "/v1/auth/me", nil, "Authorization", "Bearer "+token).status, "its secret was dropped")
	require.Equal(t, 401, alone.send("", "GET", "/v1/"+path, nil).status, "its key was dropped")
}
