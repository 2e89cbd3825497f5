// Slow under the race detector: make test runs it without.
//go:build !race

package app_test

import (
	"encoding/json"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/testenv"
)

// guide returns a document.
func guide(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	require.NoError(t, err)
	return string(text)
}

// guides are the documents for people, by path: not the facts below docs/wire,
// the list of requirements, or the list of changes.
func guides(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for path, text := range texts(t) {
		if path == "README.md" || path == "CONTRIBUTING.md" || filepath.Dir(path) == "docs" && strings.HasSuffix(path, ".md") {
			found[path] = text
		}
	}
	require.Greater(t, len(found), 15)
	return found
}

// Documents are for people in a hurry: the first page is short, no line is a
// wall, and PTC is explained where a document first says it.
func TestDocumentsAreEasyToRead(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	require.LessOrEqual(t, strings.Count(guide(t, "README.md"), "\n"), 80)
	for path, text := range guides(t) {
		for n, line := range strings.Split(text, "\n") {
			require.True(t, len([]rune(line)) <= 400 || path == ofCommands, "%s:%d is longer than 400 characters", path, n+1)
		}
	}
	abbreviation := regexp.MustCompile(`\bPTC\b`)
	for path, text := range texts(t) {
		at := abbreviation.FindStringIndex(text)
		if !strings.HasSuffix(path, ".md") || strings.Contains(path, "testdata/") || path == "CHANGELOG.md" || at == nil {
			continue
		}
		until := strings.ToLower(text[:min(len(text), at[1]+60)])
		require.Contains(t, until, "programmatic tool calling", "%s says PTC before it says what that is", path)
	}
}

// fieldRow finds the rows of a document's tables by what stands in the first column.
var fieldRow = regexp.MustCompile("(?m)^\\| `([^`|]+)` \\|(.*)\\|$")

// section is what stands below a heading, up to the next one.
func section(t *testing.T, text, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, "\n"+heading+"\n")
	require.True(t, found, "there is no %q", heading)
	end := regexp.MustCompile(`(?m)^#`).FindStringIndex(rest)
	if end == nil {
		return rest
	}
	return rest[:end[0]]
}

// firstColumn are the first column of the tables of a text.
func firstColumn(text string) (list []string) {
	for _, m := range fieldRow.FindAllStringSubmatch(text, -1) {
		list = append(list, m[1])
	}
	return list
}

func TestErrorCodesAreDocumented(t *testing.T) {
	t.Parallel()
	document := guide(t, "docs/errors.md")
	listed := map[string]string{}
	for _, m := range fieldRow.FindAllStringSubmatch(section(t, document, "## Codes"), -1) {
		status, _, _ := strings.Cut(strings.TrimSpace(m[2]), " ")
		listed[m[1]] = status
	}
	require.Len(t, listed, len(errs.Codes()))
	for _, c := range errs.Codes() {
		require.Equal(t, strconv.Itoa(c.Status()), listed[string(c)], "docs/errors.md: the status of %s", c)
	}
}

// The codes of failed calls that the server itself gives are constants whose
// names begin with Code.
func TestFailuresOfToolsAreDocumented(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	table, found := section(t, guide(t, "docs/errors.md"), "## Failures of tools"), 0
	for _, s := range sources(t) {
		for _, d := range s.Decls {
			list, ok := d.(*ast.GenDecl)
			if !ok || list.Tok != token.CONST || s.test() {
				continue
			}
			for _, of := range list.Specs {
				if of, ok := of.(*ast.ValueSpec); ok && len(of.Values) == 1 && regexp.MustCompile(`^Code[A-Z]`).MatchString(of.Names[0].Name) {
					if l, ok := of.Values[0].(*ast.BasicLit); ok && regexp.MustCompile(`^"[A-Z_]+"$`).MatchString(l.Value) {
						require.Contains(t, table, "`"+strings.Trim(l.Value, `"`)+"`", "docs/errors.md does not name it; %s", s.path)
						found++
					}
				}
			}
		}
	}
	require.Greater(t, found, 15)
}

// fieldsOf are the names in YAML, or in JSON where it has no other, of the
// fields of a type. Types are found by name, in whatever file they are.
func fieldsOf(t *testing.T, files []source, folder, name string) (list []string) {
	t.Helper()
	for _, s := range files {
		if s.test() || !strings.HasPrefix(filepath.ToSlash(s.pkg), folder) {
			continue
		}
		ast.Inspect(s.File, func(n ast.Node) bool {
			declared, ok := n.(*ast.TypeSpec)
			if !ok || !strings.EqualFold(declared.Name.Name, name) {
				return true
			}
			if of, ok := declared.Type.(*ast.StructType); ok {
				list = append(list, tags(of)...)
			}
			return false
		})
	}
	require.NotEmpty(t, list, "there is no %s in %s", name, folder)
	slices.Sort(list)
	return list
}

// tags are the names that the fields of a struct have in files.
func tags(of *ast.StructType) (list []string) {
	for _, f := range of.Fields.List {
		if f.Tag == nil {
			continue
		}
		tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
		name, _, _ := strings.Cut(tag.Get("yaml"), ",")
		if name == "" || name == "-" {
			name, _, _ = strings.Cut(tag.Get("json"), ",")
		}
		if name != "" && name != "-" {
			list = append(list, name)
		}
	}
	return list
}

// The document of toolset files has every field that a file may have, and no
// other.
func TestFieldsOfToolsetFilesAreDocumented(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	document, files := guide(t, "docs/toolsets.md"), sources(t)
	for heading, of := range map[string]string{
		"### A toolset": "modules/toolset spec", "### Its credential": "modules/toolset credentialSpec", "### Its networks": "modules/toolset egressSpec",
		"### A method": "modules/toolset methodSpec", "### Its adapter": "modules/toolset Adapter", "### A parameter": "modules/toolset Parameter", "### Its polling": "modules/toolset Polling",
		"### Ways to authenticate": "modules/toolset Pattern", "### Things to fill in": "modules/toolset Item",
		"### The bounds of a number": "modules/toolset InputProps", "### Choices": "modules/toolset Option",
		"### A price": "modules/billing ruleJSON", "### A pricing rule": "modules/billing formulaRule",
		"### A tier": "modules/billing pricingTier", "### Token prices": "modules/billing tokenPrices",
	} {
		folder, name, _ := strings.Cut(of, " ")
		listed := firstColumn(section(t, document, heading))
		slices.Sort(listed)
		require.Equal(t, fieldsOf(t, files, folder, name), listed, "docs/toolsets.md, %s", heading)
	}
}

// labels are those that a query chooses or groups by and that a legend shows,
// besides the ones that Prometheus adds.
func labels(query string) []string {
	var list []string
	for _, m := range regexp.MustCompile(`(?:[{,]|\{\{)(\w+)(?:[=!]~?"|\}\})|by \(([^)]*)\)`).FindAllStringSubmatch(query, -1) {
		list = append(list, strings.Split(m[1]+m[2], ", ")...)
	}
	return slices.DeleteFunc(list, func(name string) bool { return name == "job" || name == "instance" })
}

// Every number that the dashboard shows and the document lists is one that a
// server has, with the labels that it is shown by, and the document lists all of Portico's own.
func TestMetricsAreDocumented(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	var own []string
	for _, s := range sources(t) {
		if s.test() || !strings.HasPrefix(s.path, "modules/") && !strings.HasPrefix(s.path, "internal/telemetry") {
			continue
		}
		ast.Inspect(s.File, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && regexp.MustCompile(`^"portico_[a-z_]*(total|seconds|idle|running|paused|queued|runs|connections|nodes|saturation|held|stopped)"$`).MatchString(l.Value) {
				own = append(own, strings.Trim(l.Value, `"`))
			}
			return true
		})
	}
	slices.Sort(own)
	listed := firstColumn(section(t, guide(t, "docs/operations.md"), "### Numbers"))
	slices.Sort(listed)
	require.Equal(t, own, listed)

	page := numbers(t)
	var dashboard struct {
		Title  string `json:"title"`
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr   string `json:"expr"`
				Legend string `json:"legendFormat"`
			} `json:"targets"`
		} `json:"panels"`
	}
	require.NoError(t, json.Unmarshal([]byte(guide(t, "docs/grafana.json")), &dashboard))
	require.NotEmpty(t, dashboard.Panels)
	shown := map[string]bool{}
	for _, p := range dashboard.Panels {
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			used := regexp.MustCompile(`\b(portico|go|process)_[a-z_]+`).FindAllString(target.Expr, -1)
			require.NotEmpty(t, used, target.Expr)
			for _, name := range used {
				name = regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
				shown[name] = true
				require.True(t, slices.Contains(own, name) || strings.Contains(page, "# HELP "+name+" "), "%s: there is no %s", p.Title, name)
				for _, label := range labels(target.Expr + target.Legend) {
					require.Regexp(t, `(?m)^`+name+`[a-z_]*\{([^}]*,)?`+label+`="`, page, "%s: %s has no such label", p.Title, name)
				}
			}
		}
	}
	for _, name := range own {
		require.True(t, shown[name], "the dashboard does not show %s", name)
	}
}
