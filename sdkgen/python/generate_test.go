package python_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
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
	testenv.Slow(t, "a Python for each case")
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
		{Key: "a"},
		{Key: "a"},
		{Key: "../evil"},
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

// TestMultiplyingReferences: a schema that doubles with each level must not
// take exponential time.
func TestMultiplyingReferences(t *testing.T) {
	t.Parallel()
	defs := map[string]any{}
	for level := range 30 {
		next := map[string]any{"$ref": fmt.Sprintf("#/$defs/L%d", level+1)}
		props, variants := map[string]any{}, []any{}
		for i := range 10 {
			props[fmt.Sprint("p", i)] = next
			variants = append(variants, next, map[string]any{"type": "array", "items": next})
		}
		defs[fmt.Sprint("L", level)] = map[string]any{"type": "object", "properties": props}
		if level%2 == 0 {
			defs[fmt.Sprint("L", level)] = map[string]any{"anyOf": variants}
		}
	}
	schema, err := json.Marshal(map[string]any{"$defs": defs, "properties": map[string]any{"x": map[string]any{"$ref": "#/$defs/L0"}}})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := python.Generate([]definition.Toolset{{Key: "bomb", Tools: []definition.Tool{{Name: "x", InputSchema: schema}}}})
		done <- err
	}()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(30 * time.Second):
		t.Fatal("generation does not end")
	}
}

// FuzzGenerate holds that no schema and no text makes generation panic, that
// the result does not depend on anything else, and that it reads back.
func FuzzGenerate(f *testing.F) {
	f.Add("key", "tool", "text", `{"type":"object","properties":{"a":{"type":["string","null"],"default":null}}}`)
	f.Add("a-b", "from", "\"\"\"\\", `{"$ref":"#/$defs/x","$defs":{"x":{"anyOf":[{"$ref":"#"},{"items":{"$ref":"#/$defs/x"}}]}}}`)
	f.Fuzz(func(t *testing.T, key, tool, text, schema string) {
		defs := []definition.Toolset{{Key: key, Name: text, Description: text, Tools: []definition.Tool{
			{Name: tool, Description: text, InputSchema: json.RawMessage(schema)}, {Name: tool + "-"},
		}}}
		first, err := python.Generate(defs)
		if err != nil {
			return
		}
		second, err := python.Generate(defs)
		require.NoError(t, err)
		require.Equal(t, first.Hash(), second.Hash())
		again, err := python.FromFiles(second.Files)
		require.NoError(t, err)
		require.Equal(t, first.Toolsets, again.Toolsets)
	})
}

func toolset(key, text string) definition.Toolset {
	return definition.Toolset{Key: key, Name: key, Tools: []definition.Tool{{Name: "go", Description: text, InputSchema: json.RawMessage(`{"type":"object"}`)}}}
}

// A toolset is replaced in its place; the others keep every byte, whatever has
// become of their definitions.
func TestWithReplacesOneToolset(t *testing.T) {
	t.Parallel()
	before, err := python.Generate([]definition.Toolset{toolset("alpha", "old"), toolset("beta", "old"), toolset("a-b", "old")})
	require.NoError(t, err)
	hand := append(before.Files, python.File{Path: "by_hand.py", Content: []byte("mine")})
	before, err = python.FromFiles(hand)
	require.NoError(t, err)
	after, err := before.With([]definition.Toolset{toolset("beta", "new"), toolset("a_b", "new")})
	require.NoError(t, err)

	var changed, added []string
	for _, f := range after.Files {
		switch old, ok := before.File(f.Path); {
		case !ok:
			added = append(added, f.Path)
		case string(old) != string(f.Content):
			changed = append(changed, f.Path)
		}
	}
	require.Equal(t, []string{"beta.py", "docs/beta.md", "manifest.json"}, changed)
	require.Equal(t, []string{"a_b_2.py", "docs/a_b.md"}, added, "the name that a-b has is taken")
	require.Len(t, after.Files, len(before.Files)+2, "nothing is lost")
	var entries []string
	for _, e := range after.Toolsets {
		entries = append(entries, e.Key+" "+e.Module+" "+e.Class)
	}
	require.Equal(t, []string{"a-b a_b AB", "a_b a_b_2 AB2", "alpha alpha Alpha", "beta beta Beta"}, entries)
	read, err := python.FromFiles(after.Files)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(after.Toolsets, read.Toolsets), "the manifest says the same")

	// In the place of the one before, even where a new package would name it
	// otherwise.
	again, err := after.With([]definition.Toolset{toolset("a_b", "newer")})
	require.NoError(t, err)
	code, ok := again.File("a_b_2.py")
	require.True(t, ok)
	require.Contains(t, string(code), "newer")

	less, err := again.Without([]string{"a-b", "nobody"})
	require.NoError(t, err)
	require.Len(t, less.Files, len(again.Files)-2)
	_, ok = less.File("a_b.py")
	require.False(t, ok)
	read, err = python.FromFiles(less.Files)
	require.NoError(t, err)
	require.Len(t, read.Toolsets, 3)
}
