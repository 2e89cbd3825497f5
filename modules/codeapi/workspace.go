package codeapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/sandbox"
)

// workspace is the files that a program starts with and where those that it
// leaves go.
type workspace struct {
	session string
	inputs  map[string]File // by the name the program finds
	files   []sandbox.File
}

// Produced is what became of a program's files.
type Produced struct {
	Files []ProducedFile
	// Deleted are the names of inputs that the program removed.
	Deleted []string
	// Dropped is how many files were left out: over the limits, links, devices
	// and names that no other system could hold.
	Dropped int
	// Refused is why new files were not kept: the user has no room for them;
	// Undelivered is how many. It is nil when they were.
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

// workspace finds the files of a request: those of the session it continues,
// and those it names, which come first and belong to the session from now on.
// It returns ErrFileReference when the user does not have one of the latter.
func (s *Service) workspace(ctx context.Context, a actor.Actor, session string, refs []FileRef) (workspace, error) {
	w := workspace{session: newID(), inputs: map[string]File{}}
	if len(refs) > s.Settings.MaxFiles {
		return w, errs.Newf(errs.Invalid, "A request may name %d files at most.", s.Settings.MaxFiles)
	}
	if err := s.resume(ctx, a, session, &w); err != nil {
		return w, err
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
			return w, err
		}
		size += f.Size
		named[f.Name], w.inputs[f.Name] = f, f
	}
	if len(missing) > 0 {
		return w, ErrFileReference.Do("Deleted, expired or not yours: " + someOf(missing) + ". Upload them again.")
	}
	for name, f := range w.inputs {
		if _, counted := named[name]; !counted {
			size += f.Size
		}
	}
	if size > s.Settings.MaxInput {
		return w, errs.Newf(errs.TooLarge, "The files of the request have %d bytes together; a program may have %d.", size, s.Settings.MaxInput).
			Do("Name fewer files, or begin a new session. A file that is named twice counts twice.")
	}
	s.load(a, &w)
	return w, s.use(ctx, a, w, named)
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
func (s *Service) resume(ctx context.Context, a actor.Actor, session string, w *workspace) error {
	if !validID(session) {
		return nil
	}
	alive, err := s.rows.alive(s.DB.Read(ctx), a.UID, session, s.Now())
	if err != nil || !alive {
		return err
	}
	w.session = session
	files, err := s.rows.all(s.DB.Read(ctx), a.UID, session, s.Now())
	for _, f := range files { // the newest of a name is the last
		w.inputs[f.Name] = f
	}
	return err
}

// named is the file of a reference, under the name that the program is to find.
func (s *Service) named(ctx context.Context, a actor.Actor, ref FileRef) (File, error) {
	if !validID(ref.SessionID) || !validID(ref.ID) {
		return File{}, ErrFileMissing
	}
	f, err := s.find(ctx, a, ref.SessionID, ref.ID)
	if name := cleanName(ref.Name); name != "" {
		f.Name = name
	}
	return f, err
}

// use makes the files that a request names those of its session, and the
// sessions that hold its inputs live longer.
func (s *Service) use(ctx context.Context, a actor.Actor, w workspace, named map[string]File) error {
	if len(w.inputs) == 0 {
		return nil
	}
	now := s.Now()
	until := now.Add(s.Settings.SessionLife)
	return s.DB.InTx(ctx, func(tx database.Tx) error {
		if err := s.rows.keep(tx, a.UID, w.session, now, until); err != nil {
			return err
		}
		if err := s.rows.link(tx, a.UID, w.session, named, now); err != nil {
			return err
		}
		return s.rows.extend(tx, a.UID, w.inputs, until)
	})
}

// load makes inputs of the files, whose content is read when the sandbox takes
// it.
func (s *Service) load(a actor.Actor, w *workspace) {
	for _, name := range slices.Sorted(maps.Keys(w.inputs)) {
		f := w.inputs[name]
		w.files = append(w.files, sandbox.File{Path: name, Size: f.Size, ReadOnly: f.ReadOnly, Open: func(ctx context.Context) (io.ReadCloser, error) {
			return s.content(ctx, a, f)
		}})
	}
}

// collect is what is brought back of a program's files.
func (s *Service) collect(w workspace) sandbox.Collect {
	return sandbox.Collect{MaxFiles: s.Settings.MaxFiles, MaxBytes: 4 * s.Settings.MaxFile, Known: func(name string) (int64, [sha256.Size]byte, bool) {
		f, known := w.inputs[name]
		sum, err := hex.DecodeString(f.Digest)
		if !known || err != nil || len(sum) != sha256.Size {
			return 0, [sha256.Size]byte{}, false
		}
		return f.Size, [sha256.Size]byte(sum), true
	}}
}

// keep stores the files that a program left, in the workspace's session. Files
// that there is no room for are left out, all of them: the program has run, and
// its answer says so.
func (s *Service) keep(ctx context.Context, a actor.Actor, w workspace, result sandbox.Result) (Produced, error) {
	p := Produced{Files: []ProducedFile{}, Dropped: result.OutputsDropped}
	largest, err := s.maxFile(ctx, a)
	if err != nil {
		return p, err
	}
	var fresh []sandbox.File
	var room int64
	left := map[string]bool{}
	for _, out := range result.Outputs {
		left[out.Path] = true
		before, known := w.inputs[out.Path]
		switch {
		case known && before.ReadOnly: // whatever the program put in its place
		case known && (out.Unchanged || before.Digest == digest(out.Content)):
			before.Name = out.Path
			p.Files = append(p.Files, ProducedFile{File: before, Inherited: true})
		case int64(len(out.Content)) > largest, cleanName(out.Path) != out.Path: // no request could name it
			p.Dropped++
		default:
			fresh = append(fresh, out)
			room += int64(len(out.Content))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.inputs)) {
		switch {
		case w.inputs[name].ReadOnly:
			p.Files = append(p.Files, ProducedFile{File: w.inputs[name], Inherited: true})
		case !left[name] && result.OutputsDropped == 0:
			p.Deleted = append(p.Deleted, name)
		}
	}
	made, err := s.store(ctx, a, w, fresh, room)
	if errs.CodeOf(err) == errs.StorageFull {
		p.Refused, p.Undelivered = err, len(fresh)
		return p, nil
	}
	p.Files = append(p.Files, made...)
	slices.SortFunc(p.Files, func(a, b ProducedFile) int { return strings.Compare(a.Name, b.Name) })
	return p, err
}

// store keeps new outputs, or none of them.
func (s *Service) store(ctx context.Context, a actor.Actor, w workspace, outputs []sandbox.File, room int64) ([]ProducedFile, error) {
	if err := s.reserve(ctx, a, w.session, room); err != nil {
		return nil, err
	}
	var made []ProducedFile
	var files []File
	for _, out := range outputs {
		before, known := w.inputs[out.Path]
		f, err := s.put(ctx, a, w.session, Upload{Name: out.Path, Body: bytes.NewReader(out.Content), Size: int64(len(out.Content))}, before.Owner)
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
	return made, s.record(ctx, a, w.session, files)
}
