package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Folder keeps objects as files below one folder, which nothing in a name can
// leave, symbolic links included.
type Folder struct{ root *os.Root }

// partial marks files that are still being written; no object is named so.
const partial = ".partial-"

// NewFolder opens the folder and creates it when it is missing.
func NewFolder(dir string) (*Folder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the object folder: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the object folder: %w", err)
	}
	return &Folder{root: root}, nil
}

// Put writes to a temporary file and renames it.
func (f *Folder) Put(_ context.Context, key string, body io.ReadSeeker, _ string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if dir := path.Dir(key); dir != "." {
		if err := f.root.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("put object %q: %w", key, err)
		}
	}
	temp, err := f.create(path.Dir(key))
	if err != nil {
		return fmt.Errorf("put object %q: %w", key, err)
	}
	_, err = io.Copy(temp.file, body)
	err = errors.Join(err, temp.file.Sync(), temp.file.Close())
	if err == nil {
		err = f.root.Rename(temp.name, key)
	}
	if err != nil {
		return fmt.Errorf("put object %q: %w", key, errors.Join(err, f.root.Remove(temp.name)))
	}
	return nil
}

type tempFile struct {
	name string
	file *os.File
}

func (f *Folder) create(dir string) (tempFile, error) {
	for n := 0; ; n++ {
		name := path.Join(dir, fmt.Sprintf("%s%d-%d", partial, os.Getpid(), n))
		file, err := f.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			return tempFile{name, file}, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return tempFile{}, err
		}
	}
}

// Get opens the file of an object.
func (f *Folder) Get(_ context.Context, key string, from int64) (io.ReadCloser, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	file, err := f.root.Open(key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("get object %q: %w", key, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("get object %q: %w", key, err)
	}
	if info, err := file.Stat(); err != nil || info.IsDir() {
		return nil, fmt.Errorf("get object %q: %w", key, errors.Join(ErrNotFound, err, file.Close()))
	}
	if _, err := file.Seek(from, io.SeekStart); err != nil {
		return nil, fmt.Errorf("get object %q: %w", key, errors.Join(err, file.Close()))
	}
	return file, nil
}

// List walks the folder below the deepest directory of the prefix.
func (f *Folder) List(ctx context.Context, prefix string) ([]string, error) {
	start := path.Dir(prefix + "x")
	var keys []string
	err := fs.WalkDir(f.root.FS(), start, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && ctx.Err() != nil {
			err = ctx.Err()
		}
		if err != nil || d.IsDir() || strings.HasPrefix(path.Base(name), partial) {
			return err
		}
		if key := filepath.ToSlash(name); strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list objects below %q: %w", prefix, err)
	}
	slices.Sort(keys)
	return keys, nil
}

// Delete removes the file of an object.
func (f *Folder) Delete(_ context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if err := f.root.Remove(key); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete object %q: %w", key, err)
	}
	return nil
}
