package agent_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the items, choices and tools of a provider look like is known to
// modules/model alone, so that a second protocol changes nothing here. The folders
// that speak the vendors' forms with clients are the other end of that.
func TestNoProviderIsKnownHere(t *testing.T) {
	t.Parallel()
	wire := regexp.MustCompile(`function_call|(in|out)put_text|tool_choice|"role"|json:"(type|role|output|arguments|tool_choice)\b|openai|schema/strict`)
	read := 0
	require.NoError(t, filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		if e != nil && e.IsDir() && (path == "openai" || path == "anthropic") {
			return fs.SkipDir
		}
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		read++
		for n, line := range strings.Split(string(text), "\n") {
			if path == filepath.Join("builtin", "files.go") && strings.Contains(line, "Type    string `json:\"type\"`") {
				continue // the media type of a file
			}
			require.NotRegexp(t, wire, line, "%s:%d knows the form of a provider", path, n+1)
		}
		return nil
	}))
	require.Greater(t, read, 15)
}
