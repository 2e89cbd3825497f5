// Slow under the race detector: make test runs it without.
//go:build !race

package app_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
)

// Every deliberate breakage of dev/mutants fits the code as it is, says in a
// sentence what it breaks, and names a test that exists. Whether that test
// notices is what make mutants tries.
func TestMutantsFit(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	patches, err := filepath.Glob(filepath.Join(root, "dev", "mutants", "*"))
	require.NoError(t, err)
	require.Greater(t, len(patches), 20)
	defined, known := testNames(t), map[string]bool{}
	form := regexp.MustCompile(`^# breaks: [A-Z].*\.\n# test: \./([a-z/]+) \^(\w+)\$(/\S*)?\n--- a/\S+\n\+\+\+ b/\S+\n@@ `)
	for _, path := range patches {
		file := filepath.Base(path)
		name := regexp.MustCompile(`^\d+-([a-z0-9-]+)\.patch$`).FindStringSubmatch(file)
		require.NotNil(t, name, file)
		require.False(t, known[name[1]], "two breakages are called %s", name[1])
		known[name[1]] = true
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		m := form.FindStringSubmatch(string(text))
		require.NotNil(t, m, "%s does not begin as the others do", file)
		require.True(t, defined[m[1]+" "+m[2]], "%s: there is no %s in %s", file, m[2], m[1])

		full, err := filepath.Abs(path)
		require.NoError(t, err)
		check := exec.CommandContext(t.Context(), "git", "apply", "--check", full)
		check.Dir = root
		out, err := check.CombinedOutput()
		require.NoError(t, err, "%s does not apply: %s", file, strings.TrimSpace(string(out)))
	}
}
