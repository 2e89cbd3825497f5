// Package ingest finds the files of a folder that can be added to the knowledge
// store, and says what it leaves out and why.
package ingest

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/knowledge/read"
)

// Reason is why a file is left out.
type Reason string

// The reasons. What is hidden has a name that begins with a dot; of a hidden
// folder, such as .git, only the folder is counted.
const (
	Hidden   Reason = "hidden"
	Link     Reason = "a symbolic link"
	NotAFile Reason = "not a regular file"
	Empty    Reason = "empty"
	TooLarge Reason = "larger than KNOWLEDGE_MAX_DOCUMENT"
	Binary   Reason = "neither text nor a document that can be read"
)

// Skipped is a file that was left out.
type Skipped struct {
	Name   string
	Reason Reason
}

// Files are those that can be added, in the order of their names, and those that
// cannot.
type Files struct {
	Sources []read.Source
	Skipped []Skipped
	close   func() error
}

// Close lets go of the folder. The sources cannot be opened any more.
func (f Files) Close() error { return f.close() }

// MaxFiles is how many files one folder may have, those that are left out
// included.
const MaxFiles = 100_000

// Find looks at a file, or at all files of a folder and of those in it. Each is
// named by the path that was given and its own in it, so that the same path names
// the same document again. Links are not followed, neither now nor when a source
// is opened. largest is in bytes.
func Find(name string, largest int64) (Files, error) {
	name = filepath.Clean(name)
	info, err := os.Stat(name) // a link that the operator names themselves may be one
	if err != nil {
		return Files{}, missing(name, err)
	}
	folder, inside := name, "."
	if !info.IsDir() {
		folder, inside = filepath.Dir(name), filepath.Base(name)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return Files{}, missing(name, err)
	}
	f := Files{close: root.Close}
	if !info.IsDir() {
		err = f.take(root, inside, name, fs.FileInfoToDirEntry(info), largest)
	} else {
		err = f.walk(root, name, largest)
	}
	if err != nil {
		_ = root.Close() // the error is the other one
		return Files{}, err
	}
	return f, nil
}

func missing(name string, err error) error {
	return errs.Newf(errs.NotFound, "%s cannot be read: %s.", name, reason(err)).With(err)
}

// reason is an error of the system without the name, which is said already.
func reason(err error) string {
	for {
		inner, ok := err.(interface{ Unwrap() error })
		if !ok {
			return err.Error()
		}
		err = inner.Unwrap()
	}
}

func (f *Files) walk(root *os.Root, name string, largest int64) error {
	return fs.WalkDir(root.FS(), ".", func(inside string, e fs.DirEntry, err error) error {
		if err != nil {
			return missing(filepath.Join(name, inside), err)
		}
		if len(f.Sources)+len(f.Skipped) >= MaxFiles {
			return errs.Newf(errs.TooLarge, "%s has more than %d files.", name, MaxFiles).Do("Add its folders one by one.")
		}
		if inside == "." {
			return nil
		}
		shown := path.Join(filepath.ToSlash(name), inside)
		if strings.HasPrefix(e.Name(), ".") {
			f.skip(shown, Hidden)
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if e.IsDir() {
			return nil
		}
		return f.take(root, inside, shown, e, largest)
	})
}

func (f *Files) skip(name string, why Reason) {
	f.Skipped = append(f.Skipped, Skipped{name, why})
}

// take adds a file, or says why not.
func (f *Files) take(root *os.Root, inside, name string, e fs.DirEntry, largest int64) error {
	switch mode := e.Type(); {
	case mode&fs.ModeSymlink != 0:
		f.skip(name, Link)
		return nil
	case !mode.IsRegular():
		f.skip(name, NotAFile)
		return nil
	}
	info, err := e.Info()
	if err != nil {
		return missing(name, err)
	}
	open := func() (io.ReadCloser, error) { return root.Open(inside) }
	switch {
	case info.Size() == 0:
		f.skip(name, Empty)
		return nil
	case info.Size() > largest:
		f.skip(name, TooLarge)
		return nil
	}
	readable, err := canBeRead(name, open)
	if err != nil {
		return missing(name, err)
	}
	if !readable {
		f.skip(name, Binary)
		return nil
	}
	kind := read.TypeOf(name, "")
	if kind == "" {
		kind = "text/plain"
	}
	f.Sources = append(f.Sources, read.Source{Name: name, MIME: kind, Open: open, Size: info.Size()})
	return nil
}

// head is how much of a file tells text from other things, in bytes.
const head = 8 << 10

// canBeRead reports whether a file is text, or a document by its name. Text in
// UTF-16 begins with a mark.
func canBeRead(name string, open func() (io.ReadCloser, error)) (bool, error) {
	switch read.TypeOf(name, "") {
	case "application/pdf", "application/vnd.openxmlformats-officedocument.wordprocessingml.document":
		return true, nil
	case "application/msword":
		return false, nil
	}
	r, err := open()
	if err != nil {
		return false, err
	}
	defer func() { _ = r.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(r, head))
	if err != nil {
		return false, fmt.Errorf("the file's beginning: %w", err)
	}
	marked := bytes.HasPrefix(b, []byte{0xFE, 0xFF}) || bytes.HasPrefix(b, []byte{0xFF, 0xFE})
	return marked || !bytes.ContainsRune(b, 0), nil
}
