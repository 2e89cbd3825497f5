package sdkbundle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/objectstore"
)

// Bundle is one published SDK. It never changes.
type Bundle struct {
	// PathPrefix is the folder in object storage that holds refly_tools.
	PathPrefix string
	Files      []File
	toolsets   []entry
}

// File is one file of the package. Path is relative to refly_tools.
type File struct {
	Path    string
	Content []byte
}

// entry tells where in a bundle a toolset is, as its manifest says it.
type entry struct {
	Key    string `json:"key"`
	Module string `json:"module"`
	Class  string `json:"class"`
	Code   string `json:"code"`
	Docs   string `json:"docs"`
	// Methods are the names of the class's methods by those of the tools.
	Methods map[string]string `json:"methods"`
}

// Class is how a program imports a toolset: from refly_tools.<Module> import
// <Name>. Methods are the names of its class methods by those of the tools; nil
// where the bundle does not say which there are.
type Class struct {
	Module, Name string
	Methods      map[string]string
}

// Import is the line that makes the class known to a program.
func (c Class) Import() string { return "from refly_tools." + c.Module + " import " + c.Name }

// Classes are those of the bundle, by the keys of toolsets.
func (b Bundle) Classes() map[string]Class {
	classes := map[string]Class{}
	for _, t := range b.toolsets {
		if t.Module != "" && t.Class != "" {
			classes[t.Key] = Class{t.Module, t.Class, t.Methods}
		}
	}
	return classes
}

// Toolsets lists the keys that the bundle has code for.
func (b Bundle) Toolsets() []string {
	keys := make([]string, len(b.toolsets))
	for i, t := range b.toolsets {
		keys[i] = t.Key
	}
	return keys
}

// Missing lists those of the keys that the bundle has no code for.
func (b Bundle) Missing(keys []string) []string {
	var missing []string
	for _, key := range keys {
		if !slices.Contains(b.Toolsets(), key) {
			missing = append(missing, key)
		}
	}
	return missing
}

func (b Bundle) file(name string) (string, bool) {
	i := slices.IndexFunc(b.Files, func(f File) bool { return f.Path == name })
	if i < 0 {
		return "", false
	}
	return string(b.Files[i].Content), true
}

// Limits of a bundle; a larger one is refused.
const (
	maxFiles     = 4096
	maxFile      = 4 << 20
	packageName  = "refly_tools"
	manifestFile = "manifest.json"
	docsFolder   = "docs"
)

// Errors of the service.
var (
	// ErrMissing says that there is no bundle where the configuration says, or
	// one that is none: code can run without it.
	ErrMissing = errs.New(errs.Unavailable, "The SDK bundle is not published.").
			Do("The administrator publishes it with sdkgen upload, or leaves SANDBOX_S3LIB_HASH empty.")
	// ErrUnreachable says that nobody knows whether there is a bundle.
	ErrUnreachable = errs.New(errs.Unavailable, "The storage that holds the SDK does not answer.").Do("Try again later.").After(retryAfter)
)

// retryAfter is when an outage may be over.
const retryAfter = 5 * time.Second

// Current returns the bundle for the caller. A bundle never changes, so that one
// that was read before is returned also while the storage is out of reach.
// Otherwise an outage is ErrUnreachable, never ErrMissing.
func (s *Service) Current(ctx context.Context, a actor.Actor) (Bundle, error) {
	at := *s.location.Load()
	if at.Hash == "" {
		hash, err := s.publish(ctx, a, at.PathPrefix)
		if err != nil {
			return Bundle{}, err
		}
		at.Hash = hash
	}
	s.mu.Lock()
	b, ok := s.bundles[at]
	s.mu.Unlock()
	if ok {
		return b, nil
	}
	return s.loading.Do(ctx, at, func(ctx context.Context) (Bundle, error) { return s.loadAndKeep(ctx, at) })
}

func (s *Service) loadAndKeep(ctx context.Context, at Location) (Bundle, error) {
	b, err := s.load(ctx, at)
	if err != nil {
		return Bundle{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.bundles) >= cached {
		clear(s.bundles)
	}
	s.bundles[at] = b
	return b, nil
}

// cached bounds how many bundles are kept in memory: that of the
// configuration, or those of the users with toolsets of their own.
const cached = 64

func (s *Service) load(ctx context.Context, at Location) (Bundle, error) {
	b := Bundle{PathPrefix: path.Join(at.PathPrefix, at.Hash)}
	root := path.Join(b.PathPrefix, packageName) + "/"
	names, err := s.objects.List(ctx, root)
	switch {
	case err != nil:
		return b, ErrUnreachable.With(fmt.Errorf("list %s: %w", root, err))
	case len(names) == 0:
		return b, ErrMissing.With(fmt.Errorf("nothing below %s", root))
	case len(names) > maxFiles:
		return b, ErrMissing.With(fmt.Errorf("%d files below %s, at most %d are read", len(names), root, maxFiles))
	}
	for _, name := range names {
		content, err := objectstore.Read(ctx, s.objects, name, maxFile)
		switch {
		case errors.Is(err, objectstore.ErrNotFound), errors.Is(err, objectstore.ErrTooLarge):
			return b, ErrMissing.With(fmt.Errorf("read %s: %w", name, err))
		case err != nil:
			return b, ErrUnreachable.With(fmt.Errorf("read %s: %w", name, err))
		}
		b.Files = append(b.Files, File{Path: strings.TrimPrefix(name, root), Content: content})
	}
	b.toolsets, err = entries(b)
	return b, err
}

// entries reads the manifest of a bundle. One that another generator made has
// none: there the modules say it.
func entries(b Bundle) ([]entry, error) {
	if text, ok := b.file(manifestFile); ok {
		var m struct {
			Toolsets []entry `json:"toolsets"`
		}
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			return nil, ErrMissing.With(fmt.Errorf("%s of %s: %w", manifestFile, b.PathPrefix, err))
		}
		for _, t := range m.Toolsets {
			if _, ok := b.file(t.Code); !ok {
				return nil, ErrMissing.With(fmt.Errorf("%s of %s names %s, which is not there", manifestFile, b.PathPrefix, t.Code))
			}
		}
		return m.Toolsets, nil
	}
	found := b.modules()
	if len(found) == 0 {
		return nil, ErrMissing.With(errors.New("there is neither a manifest nor a module"))
	}
	return found, nil
}

// Context is what a run knows of the SDK: the toolsets it can import, their
// code and their documentation (docs/wire/refly.md#sdk-bundles). Missing are the
// toolsets that were asked for and have no code; they must not be advertised.
type Context struct {
	Toolsets []ToolsetRef `json:"toolsets"`
	SDK      SDK          `json:"sdk"`
	Missing  []string     `json:"missing"`

	// Classes are how the toolsets are imported, by their keys.
	Classes map[string]Class `json:"-"`
}

// ToolsetRef names a toolset.
type ToolsetRef struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Key  string `json:"key"`
}

// SDK is the code and the documentation of some toolsets.
type SDK struct {
	PathPrefix string    `json:"pathPrefix"`
	Codes      []Content `json:"codes"`
	Docs       []Content `json:"docs"`
}

// Content is one file about a toolset.
type Content struct {
	ToolsetKey string `json:"toolsetKey"`
	Path       string `json:"path"`
	Content    string `json:"content"`
}

// Context describes the SDK for some toolsets; without keys, for all of the
// bundle.
func (s *Service) Context(ctx context.Context, a actor.Actor, keys []string) (Context, error) {
	b, err := s.Current(ctx, a)
	if err != nil {
		return Context{}, err
	}
	if len(keys) == 0 {
		keys = b.Toolsets()
	}
	c := Context{Toolsets: []ToolsetRef{}, SDK: SDK{PathPrefix: b.PathPrefix, Codes: []Content{}, Docs: []Content{}}, Missing: []string{}, Classes: b.Classes()}
	c.Missing = append(c.Missing, b.Missing(keys)...)
	for _, t := range b.toolsets {
		if !slices.Contains(keys, t.Key) {
			continue
		}
		c.Toolsets = append(c.Toolsets, ToolsetRef{ID: t.Key, Name: t.Key, Key: t.Key})
		c.SDK.Codes = append(c.SDK.Codes, b.content(t.Key, t.Code)...)
		c.SDK.Docs = append(c.SDK.Docs, b.content(t.Key, t.Docs)...)
	}
	return c, nil
}

func (b Bundle) content(key, name string) []Content {
	text, ok := b.file(name)
	if !ok {
		return nil // documentation that another generator did not write
	}
	return []Content{{ToolsetKey: key, Path: path.Join(b.PathPrefix, packageName, name), Content: text}}
}
