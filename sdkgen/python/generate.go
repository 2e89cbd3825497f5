// Package python turns tool definitions into the Python package refly_tools:
// one class per toolset, its documentation, and the runtime that calls the
// tool service. It is pure: the same definitions give the same bytes.
package python

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the runtime
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/portico-run/portico/sdkgen/definition"
)

// Names of the files that every bundle has.
const (
	ManifestFile = "manifest.json"
	runtimeFile  = "_toolset.py"
	docsFolder   = "docs"
)

// manifestVersion is raised when a reader of the manifest must change.
const manifestVersion = 1

// hashDigits is the length of a bundle's hash in hexadecimal digits.
const hashDigits = 16

//go:embed runtime/_toolset.py
var runtimeSource []byte

// File is one file of a bundle. Path is relative to refly_tools/, with slashes.
type File struct {
	Path    string
	Content []byte
}

// Toolset tells where in the bundle a toolset is.
type Toolset struct {
	Key    string `json:"key"`
	Module string `json:"module"` // from refly_tools.<module> import <class>
	Class  string `json:"class"`
	Code   string `json:"code"` // path of the module
	Docs   string `json:"docs"` // path of the documentation
	// Methods are the names of the class methods by those of the tools.
	Methods map[string]string `json:"methods"`
}

// Bundle is the package refly_tools: what is uploaded, mounted and imported
// as one. Files are sorted by path, toolsets by key.
type Bundle struct {
	Files    []File
	Toolsets []Toolset
}

type manifest struct {
	Version  int       `json:"version"`
	Toolsets []Toolset `json:"toolsets"`
}

// Generate makes the package for the toolsets, in whatever order they come.
// Two toolsets with one key, or a definition that cannot be used, are errors;
// all of them are reported at once.
func Generate(toolsets []definition.Toolset) (Bundle, error) {
	return Bundle{}.With(toolsets)
}

// With returns the bundle with the toolsets in it, each in the place of the one
// with its key, under the same module and class. Other toolsets keep theirs and
// every byte; the runtime they share is that of this program. Errors are those
// of Generate.
func (b Bundle) With(toolsets []definition.Toolset) (Bundle, error) {
	sorted := slices.Clone(toolsets)
	sort.SliceStable(sorted, func(i, j int) bool { return sorted[i].Key < sorted[j].Key })
	keys := make([]string, len(sorted))
	var problems []error
	for i, t := range sorted {
		keys[i] = t.Key
		problems = append(problems, t.Validate())
		if i > 0 && keys[i-1] == t.Key {
			problems = append(problems, fmt.Errorf("toolset %q is given twice", t.Key))
		}
	}
	modules, classes := b.names(keys)
	with := b.without(keys)
	for _, t := range sorted {
		entry := Toolset{
			Key: t.Key, Module: modules[t.Key], Class: classes[modules[t.Key]],
			Code: modules[t.Key] + ".py", Docs: docsFolder + "/" + t.Key + ".md",
		}
		c, err := newClass(t, entry)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		with.Toolsets = append(with.Toolsets, c.entry)
		with.put(entry.Code, []byte(writeCode(c)))
		with.put(entry.Docs, []byte(writeDocs(c)))
	}
	if err := errors.Join(problems...); err != nil {
		return Bundle{}, err
	}
	if err := with.finish(); err != nil {
		return Bundle{}, err
	}
	return with, nil
}

// names decides the modules of the keys that join the bundle, and the classes of
// the modules.
func (b Bundle) names(keys []string) (modules, classes map[string]string) {
	modules, classes = map[string]string{}, map[string]string{}
	for _, t := range b.Toolsets {
		modules[t.Key], classes[t.Module] = t.Module, t.Class
	}
	modules = moreNames(modules, keys, func(s string) string { return Name(s, "toolset") }, docsFolder)
	// Classes are named after modules, which are distinct already: a_b_2 → AB2.
	moduleNames := slices.Sorted(maps.Values(modules))
	return modules, moreNames(classes, moduleNames, ClassName, append(typingNames(), baseClass, noValue)...)
}

// Without returns the bundle without the toolsets that have one of the keys,
// their code and their documentation. Other toolsets keep every byte.
func (b Bundle) Without(keys []string) (Bundle, error) {
	less := b.without(keys)
	if err := less.finish(); err != nil {
		return Bundle{}, err
	}
	return less, nil
}

// without is the bundle without the toolsets and without a manifest.
func (b Bundle) without(keys []string) Bundle {
	var less Bundle
	gone := map[string]bool{ManifestFile: true}
	for _, t := range b.Toolsets {
		if slices.Contains(keys, t.Key) {
			gone[t.Code], gone[t.Docs] = true, true
			continue
		}
		less.Toolsets = append(less.Toolsets, t)
	}
	for _, f := range b.Files {
		if !gone[f.Path] {
			less.Files = append(less.Files, f)
		}
	}
	return less
}

// put adds a file, or replaces the one at its path.
func (b *Bundle) put(path string, content []byte) {
	b.Files = append(slices.DeleteFunc(b.Files, func(f File) bool { return f.Path == path }), File{path, content})
}

// finish adds the files that all toolsets share and the manifest, and sorts.
func (b *Bundle) finish() error {
	slices.SortFunc(b.Toolsets, func(x, y Toolset) int { return strings.Compare(x.Key, y.Key) })
	list, err := encodeManifest(b.Toolsets)
	if err != nil {
		return err
	}
	b.put("__init__.py", []byte(header+"\"\"\"The tools of this account, one module per toolset.\"\"\"\n\n"+
		"from ._toolset import ToolExecutionError\n\n__all__ = [\"ToolExecutionError\"]\n"))
	b.put(runtimeFile, bytes.Clone(runtimeSource))
	b.put("py.typed", nil)
	b.put(ManifestFile, list)
	sortFiles(b.Files)
	return nil
}

// FromFiles makes a bundle of files that were generated before. It checks that
// the manifest is there, is of a version it knows, and that every file it
// names exists.
func FromFiles(files []File) (Bundle, error) {
	b := Bundle{Files: slices.Clone(files)}
	sortFiles(b.Files)
	var m manifest
	raw, ok := b.File(ManifestFile)
	if !ok {
		return Bundle{}, fmt.Errorf("not a refly_tools package: %s is missing", ManifestFile)
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return Bundle{}, fmt.Errorf("read %s: %w", ManifestFile, err)
	}
	if m.Version != manifestVersion {
		return Bundle{}, fmt.Errorf("%s is of version %d, this program reads version %d", ManifestFile, m.Version, manifestVersion)
	}
	for _, t := range m.Toolsets {
		for _, path := range []string{t.Code, t.Docs} {
			if _, ok := b.File(path); !ok {
				return Bundle{}, fmt.Errorf("toolset %q: %s is missing", t.Key, path)
			}
		}
	}
	b.Toolsets = m.Toolsets
	return b, nil
}

// File returns the content of the file at path.
func (b Bundle) File(path string) ([]byte, bool) {
	for _, f := range b.Files {
		if f.Path == path {
			return f.Content, true
		}
	}
	return nil, false
}

// Hash names the content: 16 hexadecimal digits of the SHA-256 over the paths
// and contents in order of path. Bundles with the same hash are the same.
func (b Bundle) Hash() string {
	files := slices.Clone(b.Files)
	sortFiles(files)
	h := sha256.New()
	for _, f := range files {
		for _, part := range [][]byte{[]byte(f.Path), f.Content} {
			var size [8]byte // keeps "ab"+"c" and "a"+"bc" apart
			binary.BigEndian.PutUint64(size[:], uint64(len(part)))
			h.Write(size[:])
			h.Write(part)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:hashDigits]
}

func encodeManifest(toolsets []Toolset) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if toolsets == nil {
		toolsets = []Toolset{}
	}
	if err := enc.Encode(manifest{manifestVersion, toolsets}); err != nil {
		return nil, fmt.Errorf("encode %s: %w", ManifestFile, err)
	}
	return b.Bytes(), nil
}

func sortFiles(files []File) {
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
}
