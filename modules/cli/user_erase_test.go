package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
)

// A user is erased by any name they have, only with --yes, and stays erasable by id.
func TestAUserIsErased(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	both(t, func(t *testing.T, env []string) {
		good(t, env, "user", "create", "ben")
		uid := good(t, env, "user", "create", "anna", "--email", "anna@example.com")[:26]
		good(t, env, "credit", "grant", "--user", "anna", "--amount", "5", "--id", "cr-1")
		refusedTo(t, env, "repeat the command with --yes", "user", "erase", "anna@example.com")
		require.Contains(t, good(t, env, "user", "list"), "anna@example.com")
		require.Contains(t, good(t, env, "user", "erase", "anna@example.com", "--yes"), "deleted everything of user anna")
		list := good(t, env, "user", "list") + good(t, env, "audit")
		require.NotContains(t, list, "anna")
		require.Contains(t, list, uid)
		require.Contains(t, list, "user.erase")
		good(t, env, "user", "erase", uid, "--yes")
		good(t, env, "credit", "verify")
		refusedTo(t, append(env, "CODEAPI_AUTH=false", "CODEAPI_USER=ben"), "User ben is CODEAPI_USER", "user", "erase", "ben", "--yes")
		code, _, _ := portico(t, env, "user", "erase", "anna", "--yes")
		require.Equal(t, 3, code)
	})
}
