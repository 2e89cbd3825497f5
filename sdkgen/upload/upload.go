// Package upload publishes a generated package: it writes the bundle to a
// folder or to S3 under its hash, and makes a server use that hash.
package upload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/portico-run/portico/sdkgen/python"
)

// packageName is the folder below the hash, and what Python imports.
const packageName = "refly_tools"

// Store is where bundles are published. Keys are relative paths with slashes.
type Store interface {
	// List returns the keys that start with prefix, which ends in a slash.
	List(ctx context.Context, prefix string) ([]string, error)
	// Get returns the content under a key that exists.
	Get(ctx context.Context, key string) ([]byte, error)
	// Create writes content under a key that does not exist yet. It returns
	// an error that wraps ErrExists when another writer was faster.
	Create(ctx context.Context, key string, content []byte) error
}

var (
	// ErrExists is returned by a Store when the key is taken.
	ErrExists = errors.New("object exists")
	// ErrDifferent is returned, wrapped, when the hash already names another
	// content. Bundles are immutable: servers cache them by hash.
	ErrDifferent = errors.New("this hash is already published with different content; choose another --hash")
)

var hashPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Publish writes the bundle to <prefix>/<hash>/refly_tools/ and returns how
// many files it wrote; files that are there with the same content are left
// alone, so publishing twice or after an interruption is safe. It does not look
// at the release before.
//
// The manifest is written last: where it exists, the bundle is complete.
func Publish(ctx context.Context, s Store, r Release) (int, error) {
	if err := checkNames(r.Prefix, r.Hash); err != nil {
		return 0, err
	}
	root := path.Join(strings.Trim(r.Prefix, "/"), r.Hash, packageName)
	missing, err := compare(ctx, s, root, r.Bundle)
	if err != nil {
		return 0, fmt.Errorf("publish %s: %w", r.Hash, err)
	}
	written := 0
	for _, f := range manifestLast(r.Bundle.Files) {
		if missing[f.Path] {
			if err := create(ctx, s, path.Join(root, f.Path), f.Content); err != nil {
				return written, fmt.Errorf("publish %s: %w", r.Hash, err)
			}
			written++
		}
		if r.Progress != nil {
			r.Progress(f.Path)
		}
	}
	return written, nil
}

func checkNames(prefix, hash string) error {
	if !hashPattern.MatchString(hash) {
		return fmt.Errorf("hash %q must be 1 to 64 letters, digits, dots, dashes or underscores", hash)
	}
	if strings.Contains("/"+prefix+"/", "/../") {
		return fmt.Errorf("prefix %q must not lead upwards", prefix)
	}
	return nil
}

// compare returns which files of the bundle are not there yet. Anything that
// is there and differs, or is not part of the bundle, is ErrDifferent, found
// before a byte is written.
func compare(ctx context.Context, s Store, root string, b python.Bundle) (map[string]bool, error) {
	missing := make(map[string]bool, len(b.Files))
	for _, f := range b.Files {
		missing[f.Path] = true
	}
	keys, err := s.List(ctx, root+"/")
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		name := strings.TrimPrefix(key, root+"/")
		want, ours := b.File(name)
		if !ours {
			return nil, fmt.Errorf("%s: %w", key, ErrDifferent)
		}
		if err := same(ctx, s, key, want); err != nil {
			return nil, err
		}
		delete(missing, name)
	}
	return missing, nil
}

func same(ctx context.Context, s Store, key string, want []byte) error {
	got, err := s.Get(ctx, key)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%s: %w", key, ErrDifferent)
	}
	return nil
}

// create writes a file; a writer that was faster must have written the same.
func create(ctx context.Context, s Store, key string, content []byte) error {
	err := s.Create(ctx, key, content)
	if errors.Is(err, ErrExists) {
		return same(ctx, s, key, content)
	}
	return err
}

func manifestLast(files []python.File) []python.File {
	var list, last []python.File
	for _, f := range files {
		if f.Path == python.ManifestFile {
			last = append(last, f)
			continue
		}
		list = append(list, f)
	}
	return append(list, last...)
}
