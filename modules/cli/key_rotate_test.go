package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
)

// The command seals again, and its check tells a script whether the old key may go.
func TestTheKeyIsRotated(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	both(t, func(t *testing.T, env []string) {
		file := file(t, "locked.yaml", "{key: locked, name: X, domain: 'https://api.example.com', credential: {type: bearer, value: s3cret}, billing: 0, methods: [{name: go, endpoint: /go, request: {type: object}}]}")
		good(t, env, "toolset", "apply", "--file", file)
		first, second := strings.Repeat("0a", 32), strings.Repeat("0b", 32)
		fails := func(env []string, why string, args ...string) {
			t.Helper()
			code, out, errs := portico(t, env, append([]string{"key", "rotate"}, args...)...)
			require.Equal(t, 1, code, errs)
			require.Contains(t, errs, why)
			require.NotContains(t, out+errs, "0a0a0a")
			require.Contains(t, out, "toolset_inventory")
		}
		now := append(env, "ENCRYPTION_KEY="+second)
		fails(now, "toolset_inventory.api_key has 1 values that no key opens")
		with := append(env, "ENCRYPTION_KEY="+second, "ENCRYPTION_KEYS_OLD="+first)
		fails(with, "toolset_inventory.api_key has 1 values that an old key seals; run: portico key rotate", "--check")
		require.Contains(t, good(t, with, "key", "rotate"), "toolset_inventory")
		require.Contains(t, good(t, with, "audit"), "key.rotate")
		good(t, with, "key", "rotate", "--check")
		good(t, now, "key", "rotate", "--check")
		good(t, now, "toolset", "apply", "--file", file)
	})
}
