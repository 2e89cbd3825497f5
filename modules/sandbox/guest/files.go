package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/portico-run/portico/modules/sandbox"
)

// workspace is the program's own folder seen from outside. Its handle was
// taken before any user code ran and keeps the folder after the sandbox is
// gone. os.Root follows no link that leads out of it.
type workspace struct {
	root *os.Root
	id   int // owner of what is put in; -1: the server's own user
}

// openWorkspace opens the program's folder in the sandbox that has this process
// 1. What is put there belongs to the user id, or to the server's own if it is
// below zero.
func openWorkspace(init *Process, id int) (Files, error) {
	root, err := os.OpenRoot(init.inside(sandbox.WorkDir))
	if err != nil {
		return nil, fmt.Errorf("sandbox files: %w", err)
	}
	if !init.alive() {
		return nil, errors.Join(errors.New("sandbox files: the interpreter is gone"), root.Close())
	}
	return &workspace{root: root, id: id}, nil
}

// Put implements Files.
func (w *workspace) Put(ctx context.Context, files []sandbox.File) error {
	for _, f := range files {
		if err := w.put(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// put copies one file. Only the file is made with the rights of the sandbox:
// its content is the server's to read.
func (w *workspace) put(ctx context.Context, f sandbox.File) error {
	from, size, err := f.Reader(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // it was only read
	var to *os.File
	err = asOwner(w.id, func() (err error) {
		if dir := path.Dir(f.Path); dir != "." {
			if err := w.root.MkdirAll(dir, 0o755); err != nil {
				return Unfit(err)
			}
		}
		if to, err = w.root.OpenFile(f.Path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, f.Mode()); err != nil {
			return Unfit(err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err = Carry(to, from, size); err != nil {
		return errors.Join(err, to.Close())
	}
	if err := to.Close(); err != nil {
		return Unfit(err)
	}
	return nil
}

// Carry copies the content of an input, which must be as long as it was said to
// be, in pieces.
func Carry(to io.Writer, from io.Reader, size int64) error {
	source := &Source{Reader: io.LimitReader(from, size+1)}
	n, err := io.Copy(to, source)
	switch {
	case source.Err != nil:
		return source.Err
	case err != nil:
		return Unfit(err)
	case n != size:
		return fmt.Errorf("sandbox files: an input has %d bytes, not %d", n, size)
	}
	return nil
}

// Source tells the faults of who is read from those of who is written to.
type Source struct {
	io.Reader

	Err error // of who is read
}

// Read implements io.Reader.
func (s *Source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.Err = err
	}
	return n, err
}

// Unfit tells files that no folder could hold together from faults of ours.
func Unfit(err error) error {
	for _, theirs := range []error{unix.ENOSPC, unix.ENOTDIR, unix.EISDIR, unix.EEXIST, unix.ENAMETOOLONG} {
		if errors.Is(err, theirs) {
			return sandbox.ErrInvalidJob.Do("The files do not fit into its folder: they are too many or too large, or one is where another needs a folder.").With(err)
		}
	}
	return fmt.Errorf("sandbox files: %w", err)
}

// asOwner runs fn with the file system rights of a sandbox's user: the file
// systems of its namespace know no other, not even root. Rights belong to a
// thread, so that the goroutine stays on its own until they are given back.
func asOwner(id int, fn func() error) error {
	if id < 0 {
		return fn()
	}
	runtime.LockOSThread()
	err := setOwner(id, id)
	if err == nil {
		err = fn()
	}
	if back := setOwner(os.Geteuid(), os.Getegid()); back != nil {
		return errors.Join(err, back) // the thread stays locked, and ends with its goroutine
	}
	runtime.UnlockOSThread()
	return err
}

// setOwner changes the file system rights of this thread. The kernel does not
// say whether it did, only what they were before.
func setOwner(uid, gid int) error {
	for _, set := range []struct {
		id   int
		call func(int) (int, error)
	}{{gid, unix.SetfsgidRetGid}, {uid, unix.SetfsuidRetUid}} {
		if _, err := set.call(set.id); err != nil {
			return fmt.Errorf("sandbox files: %w", err)
		}
		if is, err := set.call(-1); err != nil || is != set.id {
			return fmt.Errorf("sandbox files: the rights of %d could not be taken", set.id)
		}
	}
	return nil
}

// maxDepth bounds how deep outputs are looked for: deeper trees are attacks.
const maxDepth = 16

// Take implements Files.
func (w *workspace) Take(limit sandbox.Collect) (files []sandbox.File, dropped int) {
	t := &taking{limit: limit}
	t.folder(w.root, "", 0)
	return t.files, t.dropped
}

// Close implements Files.
func (w *workspace) Close() { _ = w.root.Close() } // it was only read, or is gone

type taking struct {
	limit   sandbox.Collect
	files   []sandbox.File
	bytes   int64
	dropped int
}

// folder goes into one folder by its own handle, so that no path is ever
// longer than one name.
func (t *taking) folder(root *os.Root, prefix string, depth int) {
	dir, err := root.Open(".")
	if err != nil {
		t.dropped++
		return
	}
	entries, err := dir.ReadDir(t.limit.MaxFiles*4 + 1000) // a folder with more is not read to its end
	_ = dir.Close()
	if err != nil && !errors.Is(err, io.EOF) {
		t.dropped++
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		name := e.Name()
		switch {
		case !usable(name):
			t.dropped++
		case e.IsDir() && depth < maxDepth:
			sub, err := root.OpenRoot(name)
			if err != nil {
				t.dropped++
				continue
			}
			t.folder(sub, prefix+name+"/", depth+1)
			_ = sub.Close()
		case e.Type().IsRegular():
			t.file(root, name, prefix)
		default:
			t.dropped++ // links, devices, sockets, and folders too deep
		}
	}
}

func (t *taking) file(root *os.Root, name, prefix string) {
	room := t.limit.MaxBytes - t.bytes
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > room || len(t.files) >= t.limit.MaxFiles {
		t.dropped++ // a sparse file is as large as it says
		return
	}
	f, err := root.Open(name)
	if err != nil {
		t.dropped++
		return
	}
	defer f.Close()
	same, err := t.limit.Same(prefix+name, info.Size(), f)
	if err == nil && same {
		t.files = append(t.files, sandbox.File{Path: prefix + name, Unchanged: true})
		return
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	var content []byte
	if err == nil {
		content, err = io.ReadAll(io.LimitReader(f, room))
	}
	if err != nil {
		t.dropped++
		return
	}
	t.bytes += int64(len(content))
	t.files = append(t.files, sandbox.File{Path: prefix + name, Content: content})
}

// UsablePath reports whether a path with slashes is one of usable names, and
// stays below where it starts.
func UsablePath(p string) bool {
	for name := range strings.SplitSeq(p, "/") {
		if name == "" || name == "." || name == ".." || !usable(name) {
			return false
		}
	}
	return true
}

// usable reports whether a name can be shown, stored and used elsewhere.
func usable(name string) bool {
	return utf8.ValidString(name) && len(name) <= 255 && !strings.ContainsFunc(name, func(r rune) bool {
		return r < ' ' || r == 0x7f || r == '\\'
	})
}
