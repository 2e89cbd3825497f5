package hosttoken

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxKeyFile is the largest file of a key, in bytes.
const maxKeyFile = 64 << 10

// addFolder adds the keys of a folder: each file is one, and its name without
// the extension is the kid. Folders and hidden files are left out.
func (k keys) addFolder(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("the folder cannot be read: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") {
			continue
		}
		text, isFile, err := readKeyFile(filepath.Join(path, name))
		if err != nil {
			return fmt.Errorf("the file %s: %w", name, err)
		}
		if !isFile {
			continue
		}
		one, err := parseKey(text)
		if err == nil {
			err = k.add(strings.TrimSuffix(name, filepath.Ext(name)), one)
		}
		if err != nil {
			return fmt.Errorf("the file %s: %w", name, err)
		}
	}
	return nil
}

// readKeyFile reads a file, also by a link to it.
func readKeyFile(path string) (text string, isFile bool, err error) {
	// The kind comes first: opening a pipe would wait for its writer.
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return "", false, err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err == nil && len(content) > maxKeyFile {
		err = errors.New("it is too large for a key")
	}
	return string(content), true, err
}
