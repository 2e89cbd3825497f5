package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// File is a toolset file: one YAML document per toolset.
type File struct {
	Name    string // shown in messages
	Content []byte
	Err     error // why it could not be read; it is not valid then
}

// Read reads one file, or the .yaml and .yml files of a folder in the
// order of their names. What is wrong with a file is said of it when it is
// checked; the error is about the path.
func Read(path string) ([]File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("toolset files: %w", err)
	}
	names := []string{path}
	if info.IsDir() {
		names = nil
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, fmt.Errorf("toolset files: %w", err)
		}
		for _, e := range entries {
			if ext := filepath.Ext(e.Name()); ext == ".yaml" || ext == ".yml" {
				names = append(names, filepath.Join(path, e.Name()))
			}
		}
	}
	var files []File
	for _, name := range names {
		content, err := os.ReadFile(name)
		files = append(files, File{Name: name, Content: content, Err: err})
	}
	return files, nil
}

// Problem is one thing that is wrong in a toolset file.
type Problem struct {
	File    string
	Line    int
	Message string
}

// Error implements error.
func (p Problem) Error() string { return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message) }

// decodeFile reads the documents of a file, with everything that is wrong in
// their form.
func decodeFile(f File) ([]spec, []Problem) {
	var (
		specs    []spec
		problems []Problem
	)
	d := yaml.NewDecoder(bytes.NewReader(f.Content))
	for {
		var s spec
		err := d.Decode(&s)
		switch wrong, ok := errors.AsType[*yaml.TypeError](err); {
		case errors.Is(err, io.EOF):
			return specs, problems
		case ok:
			for _, e := range wrong.Errors {
				problems = append(problems, problemOf(f.Name, e))
			}
		case err != nil: // not YAML: what follows cannot be read
			return specs, append(problems, problemOf(f.Name, strings.TrimPrefix(err.Error(), "yaml: ")))
		case s.line > 0: // an empty document is none
			specs = append(specs, s)
		}
	}
}

// problemOf splits the line off a message of the YAML decoder.
func problemOf(file, message string) Problem {
	p := Problem{File: file, Line: 1, Message: message}
	var line int
	if rest, ok := strings.CutPrefix(message, "line "); ok {
		if n, err := fmt.Sscanf(rest, "%d:", &line); n == 1 && err == nil {
			_, after, _ := strings.Cut(rest, ":")
			p.Line, p.Message = line, strings.TrimSpace(after)
		}
	}
	return p
}
