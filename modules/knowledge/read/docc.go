package read

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// DocC reads one page of a DocC archive, Apple's format of documentation: the
// JSON that its web pages are rendered from.
type DocC struct{}

// maxArchive is how many pages of an archive are read.
const maxArchive = 200_000

// Archive lists the pages of documentation in a DocC archive, a folder that is
// often called NAME.doccarchive. Their names are docc://NAME/documentation/….
func Archive(files fs.FS, name string) ([]Source, error) {
	name = strings.TrimSuffix(name, ".doccarchive")
	var list []Source
	err := fs.WalkDir(files, "data/documentation", func(file string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || path.Ext(file) != ".json" {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if len(list) == maxArchive {
			return ErrTooLarge.Do(fmt.Sprintf("The archive has more than %d pages.", maxArchive))
		}
		list = append(list, Source{
			Name: "docc://" + name + "/" + strings.TrimSuffix(strings.TrimPrefix(file, "data/"), ".json"), MIME: "application/json",
			Open: func() (io.ReadCloser, error) { return files.Open(file) }, Size: info.Size(),
		})
		return nil
	})
	if err == nil && len(list) == 0 {
		err = ErrType.Do("There is no page of documentation below data/documentation. Give the folder of a DocC archive.")
	}
	if err != nil {
		return nil, err
	}
	return list, nil
}

// node is what is read of a page: Apple's RenderNode.
type node struct {
	Identifier struct{ URL string }
	Kind       string
	Metadata   struct {
		Title, Role, RoleHeading, SymbolKind string
		Modules                              []struct{ Name string }
		Platforms                            []struct {
			Name, IntroducedAt, DeprecatedAt string
			Beta                             bool
		}
	}
	Abstract               []inline
	DeprecationSummary     []docBlock
	PrimaryContentSections []contentSection
	TopicSections          []group
	RelationshipsSections  []group
	SeeAlsoSections        []group
	References             map[string]reference
	Hierarchy              struct{ Paths [][]string }
}

// Read implements Reader.
func (DocC) Read(_ context.Context, s Source) (Document, error) {
	b, err := content(s, maxText)
	if err != nil {
		return Document{}, err
	}
	var n node
	if err := json.Unmarshal(b, &n); err != nil {
		return Document{}, ErrDamaged.Do("It is no page of a DocC archive.").With(err)
	}
	if n.Metadata.Title == "" || n.Identifier.URL == "" {
		return Document{}, ErrType.Do("It is JSON, and no page of a DocC archive: metadata.title or identifier.url is missing.")
	}
	w := &docWriter{references: n.References, left: maxCharacters}
	w.page(n)
	if w.left < 0 {
		return Document{}, ErrTooLarge.Do("The page has more text than is read.")
	}
	d, err := ofMarkdown(s.Name, n.Metadata.Title, w.String())
	if err != nil {
		return Document{}, ErrEmpty.Do("The page has a title alone.")
	}
	d.Framework, d.Symbol = n.framework(), n.symbol()
	return d, nil
}

// framework is the module of a page, or the first part of where it is.
func (n node) framework() string {
	if len(n.Metadata.Modules) > 0 && n.Metadata.Modules[0].Name != "" {
		return n.Metadata.Modules[0].Name
	}
	if len(n.Hierarchy.Paths) > 0 && len(n.Hierarchy.Paths[0]) > 0 {
		if title := n.References[n.Hierarchy.Paths[0][0]].Title; title != "" {
			return title
		}
	}
	_, rest, _ := strings.Cut(n.Identifier.URL, "/documentation/")
	name, _, _ := strings.Cut(rest, "/")
	if name == "" || n.Metadata.Role == "collection" {
		return n.Metadata.Title
	}
	return name
}

// symbol is the name of what a page describes, with the types that it is in;
// empty for an article, and for a framework itself.
func (n node) symbol() string {
	if n.Kind != "symbol" || n.Metadata.Role == "collection" {
		return ""
	}
	names := []string{n.Metadata.Title}
	if len(n.Hierarchy.Paths) > 0 {
		for _, id := range slices.Backward(n.Hierarchy.Paths[0]) {
			if r := n.References[id]; r.Kind == "symbol" && r.Role == "symbol" {
				names = append(names, r.Title)
			}
		}
	}
	slices.Reverse(names)
	return strings.Join(names, ".")
}
