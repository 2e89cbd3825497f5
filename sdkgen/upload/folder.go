package upload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/portico-run/portico/sdkgen/python"
)

// Folder is a Store in a directory, laid out as the server's local object
// storage: a key is a path below it.
type Folder string

func (d Folder) path(key string) string { return filepath.Join(string(d), filepath.FromSlash(key)) }

// List returns the keys of all files below prefix.
func (d Folder) List(ctx context.Context, prefix string) ([]string, error) {
	var keys []string
	err := filepath.WalkDir(d.path(prefix), func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		rel, err := filepath.Rel(string(d), p)
		if err == nil && !strings.HasPrefix(e.Name(), temporary) {
			keys = append(keys, filepath.ToSlash(rel))
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", d.path(prefix), err)
	}
	return keys, nil
}

// Get reads a file.
func (d Folder) Get(_ context.Context, key string) ([]byte, error) {
	b, err := os.ReadFile(d.path(key))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return b, nil
}

// temporary starts the name of a file that is still being written.
const temporary = ".sdkgen-"

// Create writes a file under another name and links it into place, so that it
// is never seen half written and never replaces another.
func (d Folder) Create(_ context.Context, key string, content []byte) error {
	target := d.path(key)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	tmp, err := writeTemporary(filepath.Dir(target), content)
	if err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	err = os.Link(tmp, target)
	if errors.Is(err, fs.ErrExist) {
		err = ErrExists
	}
	if err = errors.Join(err, os.Remove(tmp)); err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	return nil
}

// writeTemporary writes content to a new file in dir, on the disk when it
// returns, and gives its path.
func writeTemporary(dir string, content []byte) (string, error) {
	f, err := os.CreateTemp(dir, temporary+"*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// ErrChanged is returned, wrapped, when somebody else wrote the package between.
var ErrChanged = errors.New("the package was changed meanwhile by another program; run this again")

// WritePackage replaces <out>/refly_tools by the bundle and returns its path.
// The old package stays in place until the new one is complete. If before is
// not nil, the package must still be that one, or there must still be none where
// it has no files; otherwise nothing is changed and the error wraps ErrChanged.
func WritePackage(out string, b python.Bundle, before *python.Bundle) (string, error) {
	target := filepath.Join(out, packageName)
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", fmt.Errorf("write package: %w", err)
	}
	tmp, err := os.MkdirTemp(out, temporary+"*")
	if err != nil {
		return "", fmt.Errorf("write package: %w", err)
	}
	fresh := filepath.Join(tmp, "new")
	if err = writeFiles(fresh, b.Files); err == nil {
		err = swap(target, fresh, filepath.Join(tmp, "old"), before)
	}
	if err = errors.Join(err, os.RemoveAll(tmp)); err != nil {
		return "", fmt.Errorf("write package: %w", err)
	}
	return target, nil
}

// swap puts fresh in the place of target, and target back where that fails.
func swap(target, fresh, old string, before *python.Bundle) error {
	err := os.Rename(target, old)
	none := errors.Is(err, fs.ErrNotExist)
	if err != nil && !none {
		return err
	}
	err = nil
	if before != nil {
		err = unchanged(old, *before)
	}
	if err == nil {
		err = os.Rename(fresh, target)
	}
	if err != nil && !none {
		err = errors.Join(err, os.Rename(old, target))
	}
	return err
}

// unchanged checks that the folder holds the files of the bundle.
func unchanged(folder string, b python.Bundle) error {
	files, err := readFiles(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if (python.Bundle{Files: files}).Hash() != b.Hash() {
		return ErrChanged
	}
	return nil
}

func writeFiles(dir string, files []python.File) error {
	for _, f := range files {
		p := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(p, f.Content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// ErrNoPackage is returned, wrapped, when nothing was generated yet.
var ErrNoPackage = errors.New("no generated package")

// ReadPackage reads <out>/refly_tools back as a bundle. What Python leaves in
// a package folder (__pycache__) is not part of it.
func ReadPackage(out string) (python.Bundle, error) {
	root := filepath.Join(out, packageName)
	files, err := readFiles(root)
	if errors.Is(err, fs.ErrNotExist) {
		return python.Bundle{}, fmt.Errorf("%w in %s", ErrNoPackage, root)
	}
	if err != nil {
		return python.Bundle{}, fmt.Errorf("read package: %w", err)
	}
	b, err := python.FromFiles(files)
	if err != nil {
		return python.Bundle{}, fmt.Errorf("%s: %w", root, err)
	}
	return b, nil
}

func readFiles(root string) ([]python.File, error) {
	var files []python.File
	err := filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if e.Name() == "__pycache__" {
				return fs.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(p)
		files = append(files, python.File{Path: filepath.ToSlash(rel), Content: content})
		return err
	})
	return files, err
}
