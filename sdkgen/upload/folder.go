package upload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

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

// lockRetry is how often a folder is asked for that another program has.
const lockRetry = 50 * time.Millisecond

// Lock keeps other programs that lock the folder waiting until unlock is called
// or this program ends. It makes the folder, and waits itself until ctx ends.
func Lock(ctx context.Context, out string) (unlock func() error, err error) {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	folder, err := os.Open(out)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	retry := time.NewTicker(lockRetry)
	defer retry.Stop()
	for {
		err := unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return folder.Close, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", out, err), folder.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for another program that writes to %s: %w", out, ctx.Err()), folder.Close())
		case <-retry.C:
		}
	}
}

// WritePackage replaces <out>/refly_tools by the bundle and returns its path.
// The old package stays in place until the new one is complete. Programs that
// write one at the same time must hold the Lock of the folder.
func WritePackage(out string, b python.Bundle) (string, error) {
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
		err = swap(target, fresh, filepath.Join(tmp, "old"))
	}
	if err = errors.Join(err, os.RemoveAll(tmp)); err != nil {
		return "", fmt.Errorf("write package: %w", err)
	}
	return target, nil
}

// swap puts fresh in the place of target, and target back where that fails.
func swap(target, fresh, old string) error {
	err := os.Rename(target, old)
	none := errors.Is(err, fs.ErrNotExist)
	if err != nil && !none {
		return err
	}
	err = os.Rename(fresh, target)
	if err != nil && !none {
		err = errors.Join(err, os.Rename(old, target))
	}
	return err
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
