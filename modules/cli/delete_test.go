package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app/apptest"
)

// both runs a test on each database.
func both(t *testing.T, test func(t *testing.T, env []string)) {
	t.Helper()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			test(t, apptest.Environ(t, databasetest.EmptyURL(t, d)))
		})
	}
}

// refusedTo runs a command that must not do what it is asked for.
func refusedTo(t *testing.T, env []string, why string, args ...string) {
	t.Helper()
	code, out, errs := portico(t, env, args...)
	require.Equal(t, 4, code, "%v: %s", args, errs)
	require.Contains(t, errs, why, args)
	require.Empty(t, out)
}

// newRun is the newest run of the first user.
func newRun(t *testing.T, env []string) (id, status string) {
	t.Helper()
	var runs []struct{ ResultID, Status string }
	require.NoError(t, json.Unmarshal([]byte(good(t, env, "run", "list", "--user", "admin", "--limit", "1", "--json")), &runs))
	require.Len(t, runs, 1)
	return runs[0].ResultID, runs[0].Status
}

// Nothing is deleted without --yes, and what goes along is said before.
func TestNothingIsDeletedWithoutYes(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	both(t, func(t *testing.T, env []string) {
		good(t, env, "user", "create", "anna")
		good(t, env, "user", "create", "ben")
		good(t, env, "key", "create", "--user", "anna")
		key := keyIDs(t, env, "anna")[0]
		refusedTo(t, env, "repeat the command with --yes", "key", "delete", key)
		refusedTo(t, env, "with it: keys: 1\n", "user", "delete", "anna")
		require.Equal(t, []string{key}, keyIDs(t, env, "anna"))

		require.Contains(t, good(t, env, "key", "delete", key, "--yes"), "deleted the key")
		require.Empty(t, keyIDs(t, env, "anna"))
		for _, args := range [][]string{{"key", "delete", key, "--yes"}, {"key", "show", key}, {"user", "delete", "carl"}, {"toolset", "delete", "none", "--yes"}, {"run", "delete", "ar-none", "--yes"}} {
			code, _, errs := portico(t, env, args...)
			require.Equal(t, 3, code, "%v: %s", args, errs)
		}
		require.Equal(t, "deleted user anna\n", good(t, env, "user", "delete", "anna", "--yes"))
		code, _, _ := portico(t, env, "user", "show", "anna")
		require.Equal(t, 3, code)
		require.Contains(t, good(t, env, "audit"), "user.delete")
		refusedTo(t, env, "The last user cannot be deleted", "user", "delete", "ben", "--yes")
	})
}

// Users of whom records are kept stay, and the refusal counts what that is.
func TestUsersWithRecordsStay(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	both(t, func(t *testing.T, env []string) {
		good(t, env, "user", "create", "anna")
		good(t, env, "user", "create", "ben")
		good(t, env, "credit", "grant", "--user", "anna", "--amount", "1")
		refusedTo(t, env, "this is kept: grants of credits: 1. Refuse every credential of the user instead: `portico user disable anna`", "user", "delete", "anna", "--yes")
		refusedTo(t, append(env, "CODEAPI_AUTH=false", "CODEAPI_USER=ben"), "callers without a credential are this user", "user", "delete", "ben", "--yes")
		require.Contains(t, good(t, env, "user", "list"), "anna")
		require.Contains(t, good(t, env, "user", "list"), "ben")
	})
}

// A run is deleted with what was said in it; what it cost stays.
func TestDeletedRunsLeaveTheBooksBalanced(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	both(t, func(t *testing.T, env []string) {
		env = append(env, "TOOL_OUTPUT_CAP=1KiB")
		s := serving(t, env)
		s.execute("print('confidential')\nget_weather(city='Oslo')\nprint('x' * 20000)")
		id, status := newRun(t, env)
		require.Equal(t, "finish", status)
		_, before := s.get("/v1/action/result?resultId="+id, "X-API-Key", s.key)
		require.Contains(t, before, "confidential")
		objects := outputs(t, env)
		require.NotEmpty(t, objects, "an output over the cap is kept as an object")
		charged := good(t, env, "credit", "report", "--user", "admin")

		refusedTo(t, env, "with it: arguments and results of calls: 2\n", "run", "delete", id)
		require.Equal(t, "deleted run "+id+"\n", good(t, env, "run", "delete", id, "--yes"))
		for _, path := range []string{"/v1/action/result?resultId=", "/v1/tool/calls?resultId="} {
			gone, text := s.get(path+id, "X-API-Key", s.key)
			require.Equal(t, 404, gone, text)
		}
		_, calls := s.get("/v1/tool/calls", "X-API-Key", s.key)
		require.NotContains(t, calls, "Oslo")
		require.Empty(t, outputs(t, env))
		require.Equal(t, charged, good(t, env, "credit", "report", "--user", "admin"))
		good(t, env, "credit", "verify")
		good(t, env, "user", "create", "anna")
		good(t, env, "user", "role", "anna", "admin") // one stays
		refusedTo(t, env, "charges: 1", "user", "delete", "admin", "--yes")
	})
}

// outputs are the objects with whole outputs of calls.
func outputs(t *testing.T, env []string) []string {
	t.Helper()
	for _, e := range env {
		if folder, ok := strings.CutPrefix(e, "OBJECT_STORAGE_FOLDER="); ok {
			files, err := filepath.Glob(filepath.Join(folder, "tool-output", "*", "*.json"))
			require.NoError(t, err)
			return files
		}
	}
	return nil
}

// A toolset that the server would load again stays; another one goes with its
// credential, and a file brings it back.
func TestDeletedToolsetsComeBackWithTheirFile(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	both(t, func(t *testing.T, env []string) {
		env = append(env, "TOOLSET_PETS_API_KEY=pet-key")
		apply := []string{"toolset", "import", "--openapi", "../connector/rest/openapi/testdata/pets.yaml", "--name", "pets"}
		good(t, env, apply...)
		good(t, env, "toolset", "apply", "--file", "../../configs/toolsets")
		refusedTo(t, env, "is described in ../../configs/toolsets/demo.yaml", "toolset", "delete", "demo", "--yes")
		refusedTo(t, env, "part of the server", "toolset", "delete", "execute_code", "--yes")

		good(t, env, "toolset", "delete", "pets", "--yes")
		require.NotContains(t, good(t, env, "toolset", "list"), "pets")
		code, _, _ := portico(t, env, "toolset", "show", "pets")
		require.Equal(t, 3, code)
		good(t, env, apply...)
		require.Contains(t, good(t, env, "toolset", "show", "pets"), "createPet")

		broken := filepath.Join(t.TempDir(), "broken.yaml")
		require.NoError(t, os.WriteFile(broken, []byte("key: [\n"), 0o600))
		refusedTo(t, append(env, "TOOLSETS_DIR="+filepath.Dir(broken)), "broken.yaml", "toolset", "delete", "pets", "--yes")
	})
}

// With another key than the server's, nothing is sealed that the server could
// not open.
func TestToolsetsAreNotAppliedWithAnotherKey(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	both(t, func(t *testing.T, env []string) {
		env = append(env, "TOOLSET_PETS_API_KEY=pet-key")
		apply := []string{"toolset", "apply", "--file", "../../configs/toolsets"}
		imported := []string{"toolset", "import", "--openapi", "../connector/rest/openapi/testdata/pets.yaml", "--name", "pets"}
		good(t, env, apply...)
		for _, other := range []string{"ENCRYPTION_KEY=" + strings.Repeat("0b", 32), "ENCRYPTION_KEY="} {
			refusedTo(t, append(env, other), "were sealed with another ENCRYPTION_KEY than this command has", apply...)
			refusedTo(t, append(env, other), "were sealed with another ENCRYPTION_KEY than this command has", imported...)
		}
		require.Equal(t, "unchanged  demo\n", good(t, env, apply...), "the credential is still the server's")
	})
}
