package sandbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
)

// File is one file in a folder of the sandbox.
type File struct {
	// Path is relative to the folder, separated by slashes.
	Path    string
	Content []byte
	// Open, where it is set, gives the content of an input instead, which has
	// Size bytes then. It is called when the sandbox is there, and read in
	// pieces, so that a large file is never whole in the server's memory.
	Open func(ctx context.Context) (io.ReadCloser, error)
	Size int64
	// ReadOnly is set for an input that the program may not write. Its folder
	// stays the program's own, so that it may still replace or remove the file.
	ReadOnly bool
	// Unchanged is set for an output that Collect.Known knows; it has no
	// Content.
	Unchanged bool
}

// Reader returns the content of an input and how long that is.
func (f File) Reader(ctx context.Context) (io.ReadCloser, int64, error) {
	if f.Open == nil {
		return io.NopCloser(bytes.NewReader(f.Content)), int64(len(f.Content)), nil
	}
	r, err := f.Open(ctx)
	return r, f.Size, err
}

// Mode is what the permissions of an input are.
func (f File) Mode() os.FileMode {
	if f.ReadOnly {
		return 0o444
	}
	return 0o644
}

// Collect limits what is brought back of a program's files.
type Collect struct {
	MaxFiles int
	MaxBytes int64 // of the content of all of them
	// Known is the size and the SHA-256 of a file that whoever sent the job has,
	// by its path. One that the program did not change comes back without
	// content. It may be nil.
	Known func(path string) (size int64, digest [sha256.Size]byte, known bool)
}

// Same reports whether a file is as it was. Size is what it has now; content is
// read in pieces, and only if the size is the same.
func (c Collect) Same(path string, size int64, content io.Reader) (bool, error) {
	if c.Known == nil {
		return false, nil
	}
	before, digest, known := c.Known(path)
	if !known || before != size {
		return false, nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, content); err != nil {
		return false, fmt.Errorf("compare %s: %w", path, err)
	}
	return bytes.Equal(sum.Sum(nil), digest[:]), nil
}
