package python_test

import (
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/sdkgen/definition"
	"github.com/portico-run/portico/sdkgen/python"
)

var update = flag.Bool("update", false, "rewrite testdata/*/want")

// cases lists the folders of testdata: definitions in, package out.
func cases(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("testdata", "*", "definitions.json"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(found), 4)
	for i := range found {
		found[i] = filepath.Base(filepath.Dir(found[i]))
	}
	return found
}

func definitions(t *testing.T, name string) []definition.Toolset {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name, "definitions.json"))
	require.NoError(t, err)
	var list []definition.Toolset
	require.NoError(t, json.Unmarshal(raw, &list))
	return list
}

func generate(t *testing.T, name string) python.Bundle {
	t.Helper()
	b, err := python.Generate(definitions(t, name))
	require.NoError(t, err)
	return b
}

func write(t *testing.T, b python.Bundle, dir string) {
	t.Helper()
	for _, f := range b.Files {
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, f.Content, 0o600))
	}
}

// TestGolden compares every generated file but the two that are the same in
// all bundles: the runtime and py.typed.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, name := range cases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := generate(t, name)
			got := map[string]string{}
			var golden python.Bundle
			for _, f := range b.Files {
				if f.Path != "_toolset.py" && f.Path != "py.typed" {
					got[f.Path] = string(f.Content)
					golden.Files = append(golden.Files, f)
				}
			}
			require.Len(t, golden.Files, len(b.Files)-2)
			dir := filepath.Join("testdata", name, "want")
			if *update {
				require.NoError(t, os.RemoveAll(dir))
				write(t, golden, dir)
			}
			want := map[string]string{}
			require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				content, err := os.ReadFile(path)
				want[filepath.ToSlash(strings.TrimPrefix(path, dir+string(filepath.Separator)))] = string(content)
				return err
			}))
			require.Empty(t, cmp.Diff(want, got), "run go test ./sdkgen/python -update and review the difference")
		})
	}
}

func TestGenerateIsDeterministic(t *testing.T) {
	t.Parallel()
	for _, name := range cases(t) {
		defs := definitions(t, name)
		first := generate(t, name)
		slices.Reverse(defs)
		second, err := python.Generate(defs)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(first, second))
		require.Equal(t, first.Hash(), second.Hash())
		require.Len(t, first.Hash(), 16)
	}
}

func TestHashNamesTheContent(t *testing.T) {
	t.Parallel()
	hash := func(files ...python.File) string { return python.Bundle{Files: files}.Hash() }
	a := hash(python.File{Path: "a", Content: []byte("bc")}, python.File{Path: "d"})
	require.Equal(t, a, hash(python.File{Path: "d"}, python.File{Path: "a", Content: []byte("bc")}))
	require.NotEqual(t, a, hash(python.File{Path: "ab", Content: []byte("c")}, python.File{Path: "d"}))
	require.NotEqual(t, a, hash(python.File{Path: "a", Content: []byte("bd")}, python.File{Path: "d"}))
	require.NotEqual(t, a, hash(python.File{Path: "a", Content: []byte("bc")}))
}

func TestFromFiles(t *testing.T) {
	t.Parallel()
	b := generate(t, "simple")
	files := slices.Clone(b.Files)
	slices.Reverse(files)
	again, err := python.FromFiles(files)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(b, again))

	without := func(path string) []python.File {
		return slices.DeleteFunc(slices.Clone(b.Files), func(f python.File) bool { return f.Path == path })
	}
	_, err = python.FromFiles(without("manifest.json"))
	require.ErrorContains(t, err, "manifest.json is missing")
	_, err = python.FromFiles(without("fal_image.py"))
	require.ErrorContains(t, err, `toolset "fal_image": fal_image.py is missing`)
	_, err = python.FromFiles(append(without("manifest.json"), python.File{Path: "manifest.json", Content: []byte(`{"version":2}`)}))
	require.ErrorContains(t, err, "version 2")
	_, err = python.FromFiles([]python.File{{Path: "manifest.json", Content: []byte(`{`)}})
	require.ErrorContains(t, err, "read manifest.json")
}

func TestGenerateReportsEveryProblem(t *testing.T) {
	t.Parallel()
	_, err := python.Generate([]definition.Toolset{
		{Key: "a"}, {Key: "a"}, {Key: "../evil"},
		{Key: "b", Tools: []definition.Tool{{Name: "x", InputSchema: json.RawMessage(`"text"`)}, {Name: "y"}, {Name: "y"}}},
	})
	require.ErrorContains(t, err, `toolset "a" is given twice`)
	require.ErrorContains(t, err, `"../evil"`)
	require.ErrorContains(t, err, `toolset "b", tool "x": input schema is not a JSON Schema`)
	require.ErrorContains(t, err, `tool "y" is listed twice`)
}

func TestGenerateNothing(t *testing.T) {
	t.Parallel()
	b, err := python.Generate(nil)
	require.NoError(t, err)
	manifest, ok := b.File("manifest.json")
	require.True(t, ok)
	require.JSONEq(t, `{"version":1,"toolsets":[]}`, string(manifest))
	_, err = python.FromFiles(b.Files)
	require.NoError(t, err)
}
