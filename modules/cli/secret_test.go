package cli_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app/apptest"
)

// A token of the command line is good for a running development server, and
// for the next one.
func TestTokensOfTheCommandLineAreGoodInDevelopment(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			data := t.TempDir()
			url := databasetest.EmptyURL(t, d)
			if d == database.SQLite {
				url = "sqlite:" + filepath.Join(data, "portico.db")
			}
			env := apptest.Environ(t, url, "OBJECT_STORAGE_FOLDER="+filepath.Join(data, "objects"))
			env = slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, "JWT_SECRET=") })
			s := serving(t, env)
			code, token, errs := portico(t, env, "user", "token", "admin")
			require.Zero(t, code, errs)
			accepted := func(s *server) {
				t.Helper()
				status, answer := s.get("/v1/credit/balance", "Authorization", "Bearer "+strings.TrimSpace(token))
				require.Equal(t, 200, status, answer)
			}
			accepted(s)
			s.stop()
			accepted(serving(t, env))

			file := filepath.Join(data, "jwt-secret")
			info, err := os.Stat(file)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
			left, err := filepath.Glob(file + "-*")
			require.NoError(t, err)
			require.Empty(t, left)

			require.NoError(t, os.Chmod(file, 0o644))
			code, _, errs = portico(t, env, "user", "token", "admin")
			require.NotZero(t, code)
			require.Contains(t, errs, "chmod 600")
			require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
			require.NoError(t, os.Chmod(file, 0o600))
			code, _, errs = portico(t, env, "user", "token", "admin")
			require.NotZero(t, code, "a secret that can be guessed is none")
			require.Contains(t, errs, "is damaged")
		})
	}
}

func TestProcessesThatStartAtOnceHaveOneSecret(t *testing.T) {
	t.Parallel()
	env := apptest.Environ(t, databasetest.URL(t, database.SQLite), "OBJECT_STORAGE_FOLDER="+filepath.Join(t.TempDir(), "objects"))
	env = slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, "JWT_SECRET=") })
	_, _, _ = portico(t, env, "user", "create", "admin")
	dir := filepath.Dir(strings.TrimPrefix(apptest.Values(env)["DATABASE_URL"], "sqlite:"))
	require.NoError(t, os.Remove(filepath.Join(dir, "jwt-secret")))
	var wait sync.WaitGroup
	tokens := make([]string, 8)
	for i := range tokens {
		wait.Go(func() { _, tokens[i], _ = portico(t, env, "user", "token", "admin") })
	}
	wait.Wait()
	s := serving(t, env)
	for _, token := range tokens {
		status, answer := s.get("/v1/credit/balance", "Authorization", "Bearer "+strings.TrimSpace(token))
		require.Equal(t, 200, status, answer)
	}
}
