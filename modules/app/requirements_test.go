package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every requirement has a row in the table, and every test that a row names
// exists.
func TestRequirementsHaveTests(t *testing.T) {
	t.Parallel()
	defined := map[string]bool{}
	for _, s := range sources(t) {
		if !strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		for name := range s.Scope.Objects {
			defined[filepath.ToSlash(s.pkg)+" "+name] = true
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "REQUIREMENTS.md"))
	require.NoError(t, err)
	rows := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([AC]\d+) \| .+ \| (.+) \|$`).FindAllStringSubmatch(string(text), -1) {
		rows[m[1]] = m[2]
	}
	for letter, last := range map[string]int{"A": 24, "C": 21} {
		for n := 1; n <= last; n++ {
			id := fmt.Sprintf("%s%d", letter, n)
			require.NotEmpty(t, rows[id], "%s has no row", id)
		}
	}
	for id, tests := range rows {
		for of := range strings.SplitSeq(tests, " · ") {
			m := regexp.MustCompile("^`([a-z/]+)` (.+)$").FindStringSubmatch(of)
			require.NotNil(t, m, "%s: %s", id, of)
			for name := range strings.SplitSeq(m[2], ", ") {
				require.True(t, defined[m[1]+" "+name], "%s: there is no %s in %s", id, name, m[1])
			}
		}
	}
}
