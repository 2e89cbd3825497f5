package upload_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/sdkgen/upload"
)

func TestActivate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ in, want string }{
		"replaces only the value": {
			"# top\nptc:\n    mode:   on   # spaces stay\n\n\nsandbox:\n    s3lib:\n        # the bundle\n        hash: PTC0g4v14 # é current\n        pathPrefix: x\n",
			"# top\nptc:\n    mode:   on   # spaces stay\n\n\nsandbox:\n    s3lib:\n        # the bundle\n        hash: \"new1\" # é current\n        pathPrefix: x\n",
		},
		"double quoted":       {"sandbox:\n  s3Lib: {hash: \"old\", pathPrefix: a}\n", "sandbox:\n  s3Lib: {hash: \"new1\", pathPrefix: a}\n"},
		"after wide letters":  {"sandbox: {\"ключ é\": 1, s3lib: {hash: 'old'}}\n", "sandbox: {\"ключ é\": 1, s3lib: {hash: \"new1\"}}\n"},
		"empty text":          {"sandbox:\n  s3lib:\n    hash: \"\" # none yet\n", "sandbox:\n  s3lib:\n    hash: \"new1\" # none yet\n"},
		"a number":            {"sandbox:\n  s3lib:\n    hash: 123\n", "sandbox:\n  s3lib:\n    hash: \"new1\"\n"},
		"null":                {"sandbox:\n  s3lib:\n    hash: # none\n", "sandbox:\n  s3lib:\n    hash: \"new1\" # none\n"},
		"missing key":         {"# c\nsandbox:\n  pool: 2 # two\n", "# c\nsandbox:\n  pool: 2 # two\n  s3lib:\n    hash: \"new1\"\n"},
		"missing section":     {"ptc:\n  mode: on # why\n", "ptc:\n  mode: on # why\nsandbox:\n  s3lib:\n    hash: \"new1\"\n"},
		"null section":        {"sandbox:\n", "sandbox:\n  s3lib:\n    hash: \"new1\"\n"},
		"empty file":          {"", "sandbox:\n  s3lib:\n    hash: \"new1\"\n"},
		"comments only":       {"# nothing set\n", "# nothing set\nsandbox:\n  s3lib:\n    hash: \"new1\"\n"},
		"already there":       {"sandbox:   {s3lib:   {hash: \"new1\"}}", "sandbox:   {s3lib:   {hash: \"new1\"}}"},
		"other case of names": {"Sandbox:\n  S3LIB:\n    Hash: old\n", "Sandbox:\n  S3LIB:\n    Hash: \"new1\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "config.yaml")
			require.NoError(t, os.WriteFile(file, []byte(tc.in), 0o640))
			require.NoError(t, upload.Activate(file, "new1"))
			got, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, tc.want, string(got))
			info, err := os.Stat(file)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o640), info.Mode().Perm())
			require.NoError(t, upload.Activate(file, "new1"), "again")
			again, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(got), string(again))
		})
	}
}

func TestActivateRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.Error(t, upload.Activate(filepath.Join(dir, "missing.yaml"), "h"))
	for name, content := range map[string]string{
		"not YAML": "a: [", "a list": "- a\n", "text": "sandbox: text\n", "a list inside": "sandbox:\n  s3lib:\n    hash: [a]\n",
	} {
		file := filepath.Join(dir, "bad.yaml")
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		require.Error(t, upload.Activate(file, "h"), name)
		require.Error(t, upload.Activate(file, "bad\nhash"), name)
		got, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, content, string(got), name)
	}
}

func TestActivateFollowsLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real.yaml"), filepath.Join(dir, "link.yaml")
	require.NoError(t, os.WriteFile(real, []byte("sandbox: {s3lib: {hash: old}}\n"), 0o600))
	require.NoError(t, os.Symlink(real, link))
	require.NoError(t, upload.Activate(link, "h"))
	got, err := os.ReadFile(real)
	require.NoError(t, err)
	require.Equal(t, "sandbox: {s3lib: {hash: \"h\"}}\n", string(got))
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink)
}
