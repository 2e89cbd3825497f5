// Slow under the race detector: make test runs it without.
//go:build !race

package app_test

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A package is read in one sitting, or ARCHITECTURE.md says why it is longer.
func TestPackagesAreSmall(t *testing.T) {
	t.Parallel()
	const most = 1500
	document, err := os.ReadFile(root + "/ARCHITECTURE.md")
	require.NoError(t, err)
	reasons := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^- `([a-z/]+)`: \\S.*$").FindAllStringSubmatch(section(t, string(document), "## Large packages"), -1) {
		reasons[row[1]] = true
	}
	lines := map[string]int{}
	for _, s := range sources(t) {
		if s.test() || strings.HasPrefix(s.path, "dev/") {
			continue // what is not shipped
		}
		text, err := os.ReadFile(filepath.Join(root, s.path))
		require.NoError(t, err)
		lines[s.pkg] += strings.Count(string(text), "\n")
	}
	for pkg, n := range lines {
		if n > most && !reasons[pkg] {
			t.Errorf("%s has %d lines; split it, or say in ARCHITECTURE.md why not", pkg, n)
		}
		if n <= most && reasons[pkg] {
			t.Errorf("%s has %d lines and needs no reason", pkg, n)
		}
		delete(reasons, pkg)
	}
	require.Empty(t, reasons, "ARCHITECTURE.md gives a reason for a package that does not exist")
}

func TestFunctionsTakeFewParameters(t *testing.T) {
	t.Parallel()
	const most = 5
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		ast.Inspect(s.File, func(n ast.Node) bool {
			if f, is := n.(*ast.FuncType); is && f.Params.NumFields() > most {
				t.Errorf("%s: a function has %d parameters", s.place(n), f.Params.NumFields())
			}
			return true
		})
	}
}

// go test ./modules/app answers in seconds: it runs few of the tests that start a
// whole server. A new one is marked slow, so that make test runs it.
func TestFewServersInTheInnerLoop(t *testing.T) {
	t.Parallel()
	const most = 30
	var quick []string
	for _, s := range sources(t) {
		if s.pkg != "modules/app" || !strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		for _, d := range s.Decls {
			f, is := d.(*ast.FuncDecl)
			if is && strings.HasPrefix(f.Name.Name, "Test") && mentions(f, "serve", "serveWith", "serveOptions", "each") && !mentions(f, "Slow") {
				quick = append(quick, f.Name.Name)
			}
		}
	}
	require.NotEmpty(t, quick)
	require.LessOrEqual(t, len(quick), most, "call testenv.Slow in the new one of %v", quick)
}

// mentions reports whether a function names one of the words.
func mentions(f *ast.FuncDecl, words ...string) (found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		id, is := n.(*ast.Ident)
		found = found || is && slices.Contains(words, id.Name)
		return !found
	})
	return found
}

// What a service needs is its own: at most eight things, which no caller of the
// service can reach through it.
func TestDependenciesArePrivateAndFew(t *testing.T) {
	t.Parallel()
	const most = 8
	for _, s := range sources(t) {
		if s.test() || !strings.HasPrefix(s.path, "modules/") {
			continue
		}
		ast.Inspect(s.File, func(n ast.Node) bool {
			spec, is := n.(*ast.TypeSpec)
			if !is {
				return true
			}
			structure, is := spec.Type.(*ast.StructType)
			if !is {
				return true
			}
			if n := structure.Fields.NumFields(); spec.Name.Name == "Deps" && n > most {
				t.Errorf("%s: Deps has %d fields", s.place(spec), n)
			}
			for _, f := range structure.Fields.List {
				if name, is := f.Type.(*ast.Ident); is && len(f.Names) == 0 && name.Name == "Deps" {
					t.Errorf("%s: %s embeds Deps", s.place(f), spec.Name.Name)
				}
			}
			return true
		})
	}
}
