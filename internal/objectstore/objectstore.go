// Package objectstore keeps named blobs: in S3 or in a local folder.
package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"unicode/utf8"
)

// ErrNotFound says that there is no object of that name.
var ErrNotFound = errors.New("no such object")

// MaxKey is the longest name, in bytes; S3 allows no more.
const MaxKey = 1024

// Store is what both kinds of storage can do. Names are slash-separated and
// relative. Every method is safe for concurrent use.
type Store interface {
	// Put writes an object whole, from where body stands to its end; a reader
	// sees the old bytes or the new ones, never a part.
	Put(ctx context.Context, key string, body io.ReadSeeker, contentType string) error
	// Get opens an object at an offset in bytes. It returns ErrNotFound if there is
	// no such object, and an empty reader at its end or beyond.
	Get(ctx context.Context, key string, from int64) (io.ReadCloser, error)
	// List returns the names that begin with the prefix, sorted.
	List(ctx context.Context, prefix string) ([]string, error)
	// Delete removes an object; a missing one is not an error.
	Delete(ctx context.Context, key string) error
}

// ErrTooLarge says that an object is larger than its reader allows.
var ErrTooLarge = errors.New("the object is too large")

// Read returns the bytes of an object of at most limit bytes; a larger one is
// ErrTooLarge.
func Read(ctx context.Context, s Store, key string, limit int64) ([]byte, error) {
	r, err := s.Get(ctx, key, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read object %q: %w", key, err)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("object %q: %w: at most %d bytes are read", key, ErrTooLarge, limit)
	}
	return b, nil
}

// checkKey refuses names that mean different things to the two kinds of
// storage, or that leave the store.
func checkKey(key string) error {
	if key == "" || len(key) > MaxKey || !utf8.ValidString(key) || strings.ContainsAny(key, "\x00\\") ||
		path.IsAbs(key) || path.Clean(key) != key || key == "." || key == ".." || strings.HasPrefix(key, "../") {
		return fmt.Errorf("%q is not an object name", key)
	}
	return nil
}
