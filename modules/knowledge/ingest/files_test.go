package ingest_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/knowledge/ingest"
)

func write(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		require.NoError(t, os.MkdirAll(filepath.Join(folder, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
}

func TestFilesThatCannotBeAddedAreCounted(t *testing.T) {
	t.Parallel()
	secret := t.TempDir()
	write(t, secret, map[string]string{"key.txt": "a secret"})
	folder := filepath.Join(t.TempDir(), "docs")
	write(t, folder, map[string]string{
		"b.md": "# B", "a/one.txt": "one", "a/main.go": "package main", "no.doc": "old", "paper.pdf": "%PDF\x00",
		".env": "SECRET=1", ".git/config": "hidden", "image.png": "\x89PNG\x00", "empty.md": "", "large.md": strings.Repeat("x", 101),
	})
	require.NoError(t, os.Symlink(filepath.Join(secret, "key.txt"), filepath.Join(folder, "link.txt")))
	require.NoError(t, os.Symlink(secret, filepath.Join(folder, "linked")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(folder, "pipe"), 0o600))
	found, err := ingest.Find(folder+"/", 100)
	require.NoError(t, err)
	var names []string
	for _, s := range found.Sources {
		names = append(names, strings.TrimPrefix(s.Name, folder+"/"))
	}
	require.Equal(t, []string{"a/main.go", "a/one.txt", "b.md", "paper.pdf"}, names)
	why := map[string]ingest.Reason{}
	for _, s := range found.Skipped {
		why[strings.TrimPrefix(s.Name, folder+"/")] = s.Reason
	}
	require.Equal(t, map[string]ingest.Reason{
		".env": ingest.Hidden, ".git": ingest.Hidden, "image.png": ingest.Binary, "no.doc": ingest.Binary, "empty.md": ingest.Empty,
		"large.md": ingest.TooLarge, "link.txt": ingest.Link, "linked": ingest.Link, "pipe": ingest.NotAFile,
	}, why)
	r, err := found.Sources[1].Open()
	require.NoError(t, err)
	content, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.Equal(t, "one", string(content))

	// What becomes a link after it was found is not followed either.
	require.NoError(t, os.Remove(filepath.Join(folder, "b.md")))
	require.NoError(t, os.Symlink(filepath.Join(secret, "key.txt"), filepath.Join(folder, "b.md")))
	_, err = found.Sources[2].Open()
	require.Error(t, err)
	require.NoError(t, found.Close())
}

func TestOneFileIsFoundByItself(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write(t, folder, map[string]string{"a.md": "# A"})
	found, err := ingest.Find(filepath.Join(folder, "a.md"), 100)
	require.NoError(t, err)
	require.Len(t, found.Sources, 1)
	require.Equal(t, filepath.Join(folder, "a.md"), found.Sources[0].Name)
	require.NoError(t, found.Close())
	_, err = ingest.Find(filepath.Join(folder, "b.md"), 100)
	require.ErrorContains(t, err, "no such file")
}
