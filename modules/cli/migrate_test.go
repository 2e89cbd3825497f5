package cli_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app/apptest"
)

// Where others migrate, neither a server nor a command works before they have, and the
// files of toolsets are loaded when they are applied.
func TestOthersMigrate(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, env []string) {
		env = append(env, "PORTICO_MIGRATE=false")
		for _, args := range [][]string{{"serve"}, {"user", "list"}, {"toolset", "apply"}} {
			code, _, errs := portico(t, env, args...)
			require.Equal(t, 1, code, args)
			require.Contains(t, errs, "0001_accounts", args)
			require.Contains(t, errs, "`portico migrate up`", args)
		}
		good(t, env, "migrate", "up")
		s := serving(t, env)
		require.NotEmpty(t, s.key, "the first user was made")
		works := func() bool {
			_, answer := s.send(http.MethodPost, "/v1/tool/execute", `{"toolsetKey":"demo","toolName":"get_weather","arguments":{"city":"Rome"}}`, "X-API-Key", s.key)
			return strings.Contains(answer, `"status":"success"`)
		}
		require.NotContains(t, good(t, env, "toolset", "list", "--json"), `"demo"`)
		require.False(t, works())
		require.Contains(t, good(t, env, "toolset", "apply"), "created    demo")
		require.Eventually(t, works, 30*time.Second, 50*time.Millisecond)
	})
}

// Without --file, what a start loads is applied: not the demonstration's toolset in
// production. A folder that is missing is no empty one.
func TestToolsetApplyWithoutAFile(t *testing.T) {
	t.Parallel()
	env := apptest.Environ(t, databasetest.EmptyURL(t, database.SQLite))
	require.Empty(t, good(t, append(env, "DEMO_ENABLED=false"), "toolset", "apply"))
	require.Contains(t, good(t, env, "toolset", "apply"), "created    demo")
	code, _, errs := portico(t, append(env, "TOOLSETS_DIR="+t.TempDir()+"/gone"), "toolset", "apply")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "no such file")
}

// Several processes with files in a folder, or with SQLite, are told of by the doctor.
func TestTheDoctorOnSeveralProcesses(t *testing.T) {
	testenv.Slow(t, "servers at work")
	t.Parallel()
	for d, want := range map[database.Dialect]string{
		database.SQLite: "2 serve one SQLite file", database.Postgres: "2 serve this database, and files are in a folder",
	} {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			env := apptest.Environ(t, databasetest.EmptyURL(t, d))
			require.Contains(t, good(t, env, "doctor"), "none serves yet")
			serving(t, env)
			require.Contains(t, good(t, env, "doctor"), "1 of this database, files are in folder")
			serving(t, env)
			code, out, _ := portico(t, env, "doctor")
			require.Equal(t, 1, code, out)
			require.Regexp(t, "FAIL +processes +"+want, out)
			require.Contains(t, out, "OBJECT_STORAGE_DRIVER=s3")
		})
	}
}
