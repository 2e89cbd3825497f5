package session

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/sandbox"
)

// Workspace is the files that one program starts with and where those that it
// leaves go.
type Workspace struct {
	// Session is where they belong.
	Session string
	// Inputs are what the program finds; their content is read when the sandbox
	// takes it.
	Inputs []sandbox.File

	service *Service
	actor   actor.Actor
	files   map[string]File // Inputs, by the name the program finds
}

// Produced is what became of a program's files.
type Produced struct {
	Files []ProducedFile
	// Deleted are the names of inputs that the program removed.
	Deleted []string
	// Dropped is how many files were left out: over the limits, links, devices
	// and names that no other system could hold.
	Dropped int
	// Refused is why nothing was kept: the user has no room for it, or the storage
	// failed. It is nil where all was. Undelivered is how many new files there were.
	Refused     error
	Undelivered int
}

// ProducedFile is a file that was there when the program had ended.
type ProducedFile struct {
	File
	// Inherited is set for an input that the program did not change, and for
	// every read-only one.
	Inherited bool
	// From is the input that the program changed.
	From *FileRef
}

// Workspace finds the files of a request: those of the session it continues,
// and those it names, which come first and belong to the session from now on.
// It returns ErrFileReference when the user does not have one of the latter.
func (s *Service) Workspace(ctx context.Context, a actor.Actor, session string, refs []FileRef) (*Workspace, error) {
	w := &Workspace{Session: NewID(), service: s, actor: a, files: map[string]File{}}
	if len(refs) > s.settings.MaxFiles {
		return nil, errs.Newf(errs.Invalid, "A request may name %d files at most.", s.settings.MaxFiles)
	}
	if err := w.resume(ctx, session); err != nil {
		return nil, err
	}
	named := map[string]File{}
	var missing []string
	var size int64 // of all that is named, however often
	for _, ref := range refs {
		f, err := s.named(ctx, a, ref)
		if errors.Is(err, ErrFileMissing) {
			missing = append(missing, ref.name())
			continue
		}
		if err != nil {
			return nil, err
		}
		size += f.Size
		named[f.Name], w.files[f.Name] = f, f
	}
	if len(missing) > 0 {
		return nil, ErrFileReference.Do("Deleted, expired or not yours: " + someOf(missing) + ". Upload them again.")
	}
	for name, f := range w.files {
		if _, counted := named[name]; !counted {
			size += f.Size
		}
	}
	if size > s.settings.MaxInput {
		return nil, errs.Newf(errs.TooLarge, "The files of the request have %d bytes together; a program may have %d.", size, s.settings.MaxInput).
			Do("Name fewer files, or begin a new session. A file that is named twice counts twice.")
	}
	w.load()
	return w, w.use(ctx, named)
}

// maxListed is how many names one message holds.
const maxListed = 20

func someOf(names []string) string {
	text := strings.Join(names[:min(len(names), maxListed)], ", ")
	if more := len(names) - maxListed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// resume finds the files of a session that is continued. One that is unknown is
// a new one.
func (w *Workspace) resume(ctx context.Context, session string) error {
	s, a := w.service, w.actor
	alive, err := s.alive(ctx, a, session)
	if err != nil || !alive {
		return err
	}
	w.Session = session
	files, err := s.rows.all(s.db.Read(ctx), a.UID, session, s.now())
	for _, f := range files { // the newest of a name is the last
		w.files[f.Name] = f
	}
	return err
}

// named is the file of a reference, under the name that the program is to find.
func (s *Service) named(ctx context.Context, a actor.Actor, ref FileRef) (File, error) {
	if !validID(ref.SessionID) || !validID(ref.ID) {
		return File{}, ErrFileMissing
	}
	f, err := s.find(ctx, a, ref.SessionID, ref.ID)
	if name := CleanName(ref.Name); name != "" {
		f.Name = name
	}
	return f, err
}

// use makes the files that a request names those of its session, and the
// sessions that hold its inputs live longer.
func (w *Workspace) use(ctx context.Context, named map[string]File) error {
	if len(w.files) == 0 {
		return nil
	}
	s, a := w.service, w.actor
	now := s.now()
	until := now.Add(s.settings.Life)
	return s.db.InTx(ctx, func(tx database.Tx) error {
		if err := s.rows.keep(tx, a.UID, w.Session, now, until); err != nil {
			return err
		}
		if err := s.rows.link(tx, a.UID, w.Session, named, now); err != nil {
			return err
		}
		return s.rows.extend(tx, a.UID, w.files, until)
	})
}

// load makes Inputs of the files.
func (w *Workspace) load() {
	for _, name := range slices.Sorted(maps.Keys(w.files)) {
		f := w.files[name]
		w.Inputs = append(w.Inputs, sandbox.File{Path: name, Size: f.Size, ReadOnly: f.ReadOnly, Open: func(ctx context.Context) (io.ReadCloser, error) {
			return w.service.content(ctx, w.actor, f)
		}})
	}
}

// Collect is what is brought back of the program's files.
func (w *Workspace) Collect() sandbox.Collect {
	limits := w.service.settings
	return sandbox.Collect{MaxFiles: limits.MaxFiles, MaxBytes: 4 * limits.MaxFile, Known: func(name string) (int64, [sha256.Size]byte, bool) {
		f, known := w.files[name]
		sum, err := hex.DecodeString(f.Digest)
		if !known || err != nil || len(sum) != sha256.Size {
			return 0, [sha256.Size]byte{}, false
		}
		return f.Size, [sha256.Size]byte(sum), true
	}}
}

// Keep stores the files that the program left, in the session. Where it cannot,
// new files are left out, all of them: the program has run, and its answer says so.
func (w *Workspace) Keep(ctx context.Context, result sandbox.Result) Produced {
	p := Produced{Files: []ProducedFile{}, Dropped: result.OutputsDropped}
	largest, err := w.service.maxFile(ctx, w.actor)
	if err != nil {
		largest = math.MaxInt64 // none is stored, whatever its size
	}
	var fresh []sandbox.File
	var room int64
	left := map[string]bool{}
	for _, out := range result.Outputs {
		left[out.Path] = true
		before, known := w.files[out.Path]
		switch {
		case known && before.ReadOnly: // whatever the program put in its place
		case known && (out.Unchanged || before.Digest == digest(out.Content)):
			before.Name = out.Path
			p.Files = append(p.Files, ProducedFile{File: before, Inherited: true})
		case int64(len(out.Content)) > largest, CleanName(out.Path) != out.Path: // no request could name it
			p.Dropped++
		default:
			fresh = append(fresh, out)
			room += int64(len(out.Content))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.files)) {
		switch {
		case w.files[name].ReadOnly:
			p.Files = append(p.Files, ProducedFile{File: w.files[name], Inherited: true})
		case !left[name] && result.OutputsDropped == 0:
			p.Deleted = append(p.Deleted, name)
		}
	}
	var made []ProducedFile
	if err == nil {
		made, err = w.store(ctx, fresh, room)
	}
	if err != nil {
		p.Refused, p.Undelivered = err, len(fresh)
		return p
	}
	p.Files = append(p.Files, made...)
	slices.SortFunc(p.Files, func(a, b ProducedFile) int { return strings.Compare(a.Name, b.Name) })
	return p
}

// store keeps new outputs, or none of them.
func (w *Workspace) store(ctx context.Context, outputs []sandbox.File, room int64) ([]ProducedFile, error) {
	s, a := w.service, w.actor
	if err := s.reserve(ctx, a, w.Session, room); err != nil {
		return nil, err
	}
	var made []ProducedFile
	var files []File
	for _, out := range outputs {
		before, known := w.files[out.Path]
		f, err := s.put(ctx, a, w.Session, Upload{Name: out.Path, Body: bytes.NewReader(out.Content), Size: int64(len(out.Content))}, before.Owner)
		files = append(files, f)
		if err != nil {
			return nil, errors.Join(err, s.discard(ctx, a, files))
		}
		m := ProducedFile{File: f}
		if known {
			m.From = &FileRef{ID: before.ID, SessionID: before.SessionID, Name: before.Name}
		}
		made = append(made, m)
	}
	if len(files) == 0 {
		return nil, nil
	}
	return made, s.record(ctx, a, w.Session, files)
}
