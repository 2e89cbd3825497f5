package definition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// folderName is the folder of definition files inside the output folder.
const folderName = "tool-definition"

// ErrMissing is returned, wrapped, when a definition was never written.
var ErrMissing = errors.New("no definition file")

// Folder returns where the definition files of an output folder live.
func Folder(out string) string { return filepath.Join(out, folderName) }

// Write stores the toolset as <out>/tool-definition/<key>.json and returns the
// path. A reader never sees half a file.
func Write(out string, t Toolset) (string, error) {
	if err := t.Validate(); err != nil {
		return "", err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(t); err != nil {
		return "", fmt.Errorf("encode definition of %q: %w", t.Key, err)
	}
	path := filepath.Join(Folder(out), t.Key+".json")
	if err := os.MkdirAll(Folder(out), 0o755); err != nil {
		return "", fmt.Errorf("write definition of %q: %w", t.Key, err)
	}
	if err := replaceFile(path, b.Bytes()); err != nil {
		return "", fmt.Errorf("write definition of %q: %w", t.Key, err)
	}
	return path, nil
}

// replaceFile writes through a temporary file in the same folder.
func replaceFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".definition-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Read returns the stored definition of one toolset, or an error that wraps
// ErrMissing.
func Read(out, key string) (Toolset, error) {
	if err := ValidKey(key); err != nil {
		return Toolset{}, err
	}
	path := filepath.Join(Folder(out), key+".json")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Toolset{}, fmt.Errorf("toolset %q: %w in %s", key, ErrMissing, Folder(out))
	}
	if err != nil {
		return Toolset{}, fmt.Errorf("read definition of %q: %w", key, err)
	}
	var t Toolset
	if err := json.Unmarshal(b, &t); err != nil {
		return Toolset{}, fmt.Errorf("%s is not a tool definition: %w", path, err)
	}
	if t.Key != key {
		return Toolset{}, fmt.Errorf("%s holds the definition of %q, not of %q", path, t.Key, key)
	}
	return t, t.Validate()
}

// Keys lists the toolsets that have a definition file, sorted.
func Keys(out string) ([]string, error) {
	entries, err := os.ReadDir(Folder(out)) // sorted by name
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read definitions: %w", err)
	}
	var keys []string
	for _, e := range entries {
		if key, isJSON := strings.CutSuffix(e.Name(), ".json"); isJSON && !e.IsDir() {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// Remove deletes the definition file of a toolset.
func Remove(out, key string) error {
	if err := ValidKey(key); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(Folder(out), key+".json")); err != nil {
		return fmt.Errorf("remove definition of %q: %w", key, err)
	}
	return nil
}

// ReadAll returns every stored definition, sorted by key. It wraps ErrMissing
// when there is none.
func ReadAll(out string) ([]Toolset, error) {
	keys, err := Keys(out)
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w in %s", ErrMissing, Folder(out))
	}
	all := make([]Toolset, len(keys))
	for i, key := range keys {
		if all[i], err = Read(out, key); err != nil {
			return nil, err
		}
	}
	return all, nil
}
