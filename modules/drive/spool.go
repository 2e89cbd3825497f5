package drive

import (
	"fmt"
	"os"
)

// Spool returns a file on disk that has no name: it is gone when it is closed,
// also by the death of the process.
func Spool() (*os.File, error) {
	f, err := os.CreateTemp("", "portico-upload-*")
	if err != nil {
		return nil, fmt.Errorf("no room for an upload: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close() // the error is the other one
		return nil, err
	}
	return f, nil
}
