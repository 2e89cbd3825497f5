// Slow under the race detector: make test runs it without.
//go:build !race

package app_test

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
)

// texts are the text files of the repository, by path. Built things, data, what
// tools keep for themselves and deliberate mistakes are left out.
func texts(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case slices.Contains([]string{".git", ".cache", ".env", "data", "bin", "node_modules", "mutants"}, e.Name()) && path != root:
			if e.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case !e.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err == nil && utf8.Valid(text) && !bytes.ContainsRune(text, 0) {
			found[filepath.ToSlash(rel)] = string(text)
		}
		return err
	}))
	require.Greater(t, len(found), 300)
	return found
}

// lineBreak is the end of a line with the mark of a comment that follows it: a
// phrase may be wrapped.
var lineBreak = regexp.MustCompile(`[ \t]*\n[ \t]*(//|--|#|\*)?[ \t]*`)

// absent are names of documents that are not in this repository.
var absent = regexp.MustCompile(`(?i)wire[ ]contract|PTC[ ]reference|agent[ ]notes|\b(seeds|contracts)[/]|\bdesign\.md\b|\x{a7}`)

// suspects reports whether a word of absent is in the text. It is quick: most
// texts have none.
func suspects(text string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc([]string{"contract", "reference", "notes", "seeds", "design.", "\u00a7"}, func(word string) bool {
		return strings.Contains(text, word)
	})
}

// A reader can open everything that a comment or a document refers to.
func TestNothingCitesWhatIsNotHere(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	for file, text := range texts(t) {
		if !suspects(text) {
			continue
		}
		text = lineBreak.ReplaceAllString(text, " ")
		for _, at := range absent.FindAllStringIndex(text, -1) {
			around := text[max(0, at[0]-40):min(len(text), at[1]+20)]
			t.Errorf("%s cites a document that is not in the repository: …%s…", file, strings.ToValidUTF8(around, ""))
		}
	}
}

var (
	// citation names a heading of a document, such as docs/wire/refly.md#ids.
	citation = regexp.MustCompile(`\bdocs/(?:[a-z-]+/)*[a-z-]+\.md#[A-Za-z0-9_-]*`)
	// headless names a document whose facts are cited, and no heading of it.
	headless = regexp.MustCompile(`\bdocs/(?:wire/[a-z-]+|rulings)\.md(?:[^#a-z]|$)`)
	link     = regexp.MustCompile(`\]\(([^)\s:#]*)(#[^)\s]*)?\)`)
	heading  = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	notSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are the headings of a document, as links name them.
func anchors(text string) []string {
	var list []string
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		list = append(list, "#"+strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return list
}

// What a citation, or a link between documents, names is there: the document
// and the heading.
func TestCitationsLeadSomewhere(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	all, cited := texts(t), 0
	check := func(by, document, heading string) {
		switch text, ok := all[document]; {
		case !ok:
			t.Errorf("%s cites %s, which is not there", by, document)
		case heading != "" && !slices.Contains(anchors(text), heading):
			t.Errorf("%s cites %s%s, which is no heading there", by, document, heading)
		}
	}
	for file, text := range all {
		for _, c := range citation.FindAllString(text, -1) {
			document, heading, _ := strings.Cut(c, "#")
			check(file, document, "#"+heading)
			cited++
		}
		if !strings.HasSuffix(file, ".md") {
			for _, c := range headless.FindAllString(text, -1) {
				t.Errorf("%s cites %q without a heading", file, c)
			}
			continue
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if target := path.Join(path.Dir(file), m[1]); m[1] == "" {
				check(file, file, m[2])
			} else if strings.HasSuffix(target, ".md") {
				check(file, target, m[2])
			}
		}
	}
	require.Greater(t, cited, 50)
}
