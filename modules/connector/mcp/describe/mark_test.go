package describe_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/modules/connector/mcp/describe"
	"github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/toolset/mark"
)

// A file says which tools of a server are plain functions: what it adds, changes
// and leaves out is what programs have. Marks of operators stay, unless the file
// speaks of the same tool.
func TestFilesMarkToolsOfServers(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		box, err := secretbox.New(strings.Repeat("0a", 32))
		require.NoError(t, err)
		marks := mark.New(mark.Deps{DB: db})
		into := describe.Into{Servers: server.New(server.Deps{DB: db, Box: box}).Operators(), Marks: marks}
		path := filepath.Join(t.TempDir(), "mcp.yaml")
		load := func(callable string) (describe.Applied, string) {
			t.Helper()
			write(t, path, "servers: {docs: {url: 'https://mcp.example.com/mcp', sandboxCallable: "+callable+"}}")
			applied, problems, err := describe.Load(t.Context(), into, path, nil)
			require.NoError(t, err)
			var lines []string
			for _, p := range problems {
				lines = append(lines, p.Message)
			}
			return applied, strings.Join(lines, "\n")
		}
		names := func() (names []string) {
			t.Helper()
			all, err := marks.All(t.Context())
			require.NoError(t, err)
			for _, m := range all {
				names = append(names, m.Name+" "+m.Tool)
			}
			return names
		}
		const both = "{search: {readOnly: true, as: find}, put: {idempotent: true}}"
		applied, problem := load(both)
		require.Empty(t, problem)
		require.Equal(t, []string{"docs"}, applied.Created)
		require.Equal(t, []string{"docs__put docs__put", "find docs__search"}, names())
		applied, _ = load(both)
		require.Equal(t, []string{"docs"}, applied.Unchanged)
		require.ErrorContains(t, marks.Remove(t.Context(), "docs", "docs__put"), "E0022", "it would come back")

		require.NoError(t, marks.Set(t.Context(), mark.Mark{Toolset: "docs", Tool: "docs__own", Name: "own", ReadOnly: true}))
		require.NoError(t, marks.Set(t.Context(), mark.Mark{Toolset: "demo", Tool: "get", Name: "taken", ReadOnly: true}))
		applied, problem = load("{search: {readOnly: true, as: look}}")
		require.Empty(t, problem)
		require.Equal(t, []string{"docs"}, applied.Updated)
		require.Equal(t, []string{"look docs__search", "own docs__own", "taken get"}, names())
		applied, problem = load("{own: {idempotent: true, as: ours}}")
		require.Empty(t, problem)
		require.Equal(t, []string{"docs"}, applied.Updated)
		require.Equal(t, []string{"ours docs__own", "taken get"}, names())

		for callable, says := range map[string]string{
			"{put: {}}":                             "may be called as a function only if it only reads",
			"{put: {readOnly: true, as: rlm_exec}}": "never called from code",
			"{put: {readOnly: true, as: a-b}}":      "cannot be a function named \"a-b\"",
			"{put: {readonly: true}}":               "put has the unknown key \"readonly\"; known are readOnly, idempotent, as",
			"{put: {readOnly: sometimes}}":          "sandboxCallable: put: ",
			"{put: true}":                           "put is a mapping",
			"[put]":                                 "sandboxCallable is a mapping",
			"{put.it: {readOnly: true}}":            "has another name in Portico",
			"{a: {readOnly: true, as: x}, b: {readOnly: true, as: x}}": "two tools are the function x",
			"{put: {readOnly: true, as: taken}, a: {readOnly: true}}":  "function taken is tool get of demo already",
		} {
			_, problem := load(callable)
			require.Contains(t, problem, says, callable)
			require.Equal(t, []string{"ours docs__own", "taken get"}, names(), "%s: what was in force stays", callable)
		}

		write(t, path, "servers: {}")
		applied, _, err = describe.Load(t.Context(), into, path, nil)
		require.NoError(t, err)
		require.Equal(t, []string{"docs"}, applied.Removed)
		require.Equal(t, []string{"taken get"}, names(), "the functions go with their server")
	})
}
