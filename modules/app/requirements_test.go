// Slow under the race detector: make test runs it without.
//go:build !race

package app_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each of the five documents has its rows, numbered in their order. Every row
// names tests that exist, or says that it is for later.
func TestRequirementsHaveTests(t *testing.T) {
	t.Parallel()
	defined := testNames(t)
	text, err := os.ReadFile(filepath.Join(root, "REQUIREMENTS.md"))
	require.NoError(t, err)
	row := regexp.MustCompile(`^\| ([A-Z])(\d+) \| (.+) \| (.+) \|$`)
	numbered := regexp.MustCompile(`^\|\s*[A-Z]\d`)
	counts := map[string]int{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		m := row.FindStringSubmatch(line)
		if m == nil {
			require.False(t, numbered.MatchString(line), "no row: %s", line)
			continue
		}
		letter, id, tests := m[1], m[1]+m[2], m[4]
		number, err := strconv.Atoi(m[2])
		require.NoError(t, err)
		require.Greater(t, number, counts[letter], "%s does not follow the row before it", id)
		counts[letter] = number
		if tests == "later" {
			continue
		}
		for of := range strings.SplitSeq(tests, " · ") {
			named := regexp.MustCompile("^`([a-z/]+)` (.+)$").FindStringSubmatch(of)
			require.NotNil(t, named, "%s: %s", id, of)
			for name := range strings.SplitSeq(named[2], ", ") {
				require.True(t, defined[named[1]+" "+name], "%s: there is no %s in %s", id, name, named[1])
			}
		}
	}
	require.Len(t, counts, 11, "%v", counts)
	for _, letter := range []string{"A", "B", "C", "P", "R", "T", "S", "O", "M", "H", "J"} {
		require.Positive(t, counts[letter], "%s has no row", letter)
	}
}

// testNames are the tests of the repository, each after its package.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, s := range sources(t) {
		if !strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		for name := range s.Scope.Objects {
			names[filepath.ToSlash(s.pkg)+" "+name] = true
		}
	}
	return names
}
