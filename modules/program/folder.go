package program

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/drive"
	"github.com/portico-run/portico/modules/sandbox"
)

// folder is the files of a canvas as a program finds them. The zero folder is
// that of a program without a canvas: nothing in it, and nothing is kept.
type folder struct {
	canvas  string
	collect sandbox.Collect
	files   []drive.File
	before  map[string][sha256.Size]byte // digests by name, of those that were read
}

// maxFiles is how many files a program finds, and how many may come back.
const maxFiles = 200

// folder finds the files of a canvas, the newest first, as far as a program has
// room for them. What it leaves out is a warning.
func (s *Service) folder(ctx context.Context, a actor.Actor, canvasID string) (folder, []string, error) {
	if canvasID == "" {
		return folder{}, nil, nil
	}
	f := folder{
		canvas: canvasID, before: map[string][sha256.Size]byte{},
		collect: sandbox.Collect{MaxFiles: maxFiles, MaxBytes: 2 * s.deps.Settings.MaxInput},
	}
	page, err := s.deps.Access.Files.List(ctx, a, canvasID, httpapi.PageQuery{Limit: maxFiles})
	if err != nil {
		return f, nil, err
	}
	var warnings []string
	if page.NextCursor != "" {
		warnings = append(warnings, fmt.Sprintf("The canvas has more than %d files; the oldest are not in the program's folder.", maxFiles))
	}
	room := s.deps.Settings.MaxInput
	for _, file := range page.Items {
		if file.Size > room {
			warnings = append(warnings, fmt.Sprintf("%s (%d bytes) is not in the program's folder: it is too large, or the files together are.", file.Name, file.Size))
			continue
		}
		room -= file.Size
		f.files = append(f.files, file)
	}
	return f, warnings, nil
}

// Load reads the files of the canvas into the job, but those that its holder
// has already.
func (o *Opened) Load(ctx context.Context, has func(f drive.File) bool) error {
	o.Job.Inputs = nil
	for _, file := range o.folder.files {
		if has(file) {
			continue
		}
		_, content, err := o.service.deps.Access.Files.Read(ctx, o.actor, file.FileID, o.service.deps.Settings.MaxInput)
		if errs.CodeOf(err) == errs.FileMissing {
			continue // deleted meanwhile
		}
		if err != nil {
			return err
		}
		o.Job.Inputs = append(o.Job.Inputs, sandbox.File{Path: file.Name, Content: content})
		o.folder.before[file.Name] = sha256.Sum256(content)
	}
	return nil
}

// stream lets the job read the files of the canvas when the sandbox takes them,
// and remembers what they were.
func (o *Opened) stream() {
	o.Job.Inputs = nil
	for _, file := range o.folder.files {
		o.Job.Inputs = append(o.Job.Inputs, sandbox.File{Path: file.Name, Size: file.Size, Open: func(ctx context.Context) (io.ReadCloser, error) {
			now, content, err := o.service.deps.Access.Files.Open(ctx, o.actor, file.FileID)
			if errs.CodeOf(err) == errs.FileMissing {
				return nil, changed(file.Name)
			}
			if err != nil {
				return nil, err
			}
			if now.Size != file.Size { // the sandbox was told that one
				return nil, errors.Join(changed(file.Name), content.Close())
			}
			return &digested{ReadCloser: content, sum: sha256.New(), at: func(sum [sha256.Size]byte) { o.folder.before[file.Name] = sum }}, nil
		}})
	}
	o.Job.Collect.Known = func(name string) (size int64, digest [sha256.Size]byte, known bool) {
		digest, known = o.folder.before[name]
		at := slices.IndexFunc(o.folder.files, func(f drive.File) bool { return f.Name == name })
		if at < 0 {
			return 0, digest, false
		}
		return o.folder.files[at].Size, digest, known
	}
}

// changed refuses a program whose files are not those that it was given.
func changed(name string) error {
	return errs.Newf(errs.Conflict, "The file %s of the canvas was changed or deleted while the program waited for its turn.", name).
		Do("Nothing of the program ran. Run it again.")
}

// digested tells the digest of what was read when it is closed.
type digested struct {
	io.ReadCloser

	sum hash.Hash
	at  func(sum [sha256.Size]byte)
}

// Read implements io.Reader.
func (d *digested) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	_, _ = d.sum.Write(p[:n]) // a hash takes everything
	return n, err
}

// Close implements io.Closer.
func (d *digested) Close() error {
	d.at([sha256.Size]byte(d.sum.Sum(nil)))
	return d.ReadCloser.Close()
}

// Files are those of the canvas that the program is to find.
func (o *Opened) Files() []drive.File { return o.folder.files }

// keep stores what a program wrote or changed in its canvas. The files of a
// program that failed are not kept: nobody knows how complete they are.
func (s *Service) keep(ctx context.Context, o *Opened, result sandbox.Result) (kept []File, warnings []string) {
	kept = []File{}
	if o.folder.canvas == "" || result.Status != sandbox.Completed {
		return kept, nil
	}
	// Not the time of what is recorded after it.
	ctx, cancel := context.WithTimeout(ctx, s.keeping)
	defer cancel()
	if result.OutputsDropped > 0 {
		warnings = append(warnings, fmt.Sprintf("%d files were not kept: too many, too large, not readable, links, or names that no other system could hold.", result.OutputsDropped))
	}
	taken := map[string]bool{} // by a file of this program
	for _, out := range o.folder.written(result.Outputs) {
		name := drive.CleanName(out.Path)
		replace := !taken[name]
		taken[name] = true
		f, err := s.deps.Access.Files.Save(ctx, o.actor, drive.Content{
			CanvasID: o.folder.canvas, Name: name, Body: bytes.NewReader(out.Content), Source: drive.Agent,
			ResultID: o.run.ResultID, Version: o.run.Version, Replace: replace,
		})
		if err != nil {
			s.deps.Logger.WarnContext(ctx, "a program's file was not kept", "callId", o.call.CallID, "error", err)
			warnings = append(warnings, fmt.Sprintf("%s was not kept: %s", out.Path, errs.Message(err)))
			continue
		}
		if f.Name != name {
			warnings = append(warnings, fmt.Sprintf("%s was kept as %s: another file has the name %s.", out.Path, f.Name, name))
		}
		kept = append(kept, File{FileID: f.FileID, Name: f.Name, Type: f.Type, Size: f.Size})
	}
	return kept, warnings
}

// written are the outputs that are new, or not as they were: first those whose names a
// canvas can have, so that no other one takes them.
func (f folder) written(outputs []sandbox.File) []sandbox.File {
	var named, renamed []sandbox.File
	for _, out := range outputs {
		before, known := f.before[out.Path]
		switch {
		case known && (out.Unchanged || before == sha256.Sum256(out.Content)):
		case drive.CleanName(out.Path) == out.Path:
			named = append(named, out)
		default:
			renamed = append(renamed, out)
		}
	}
	return append(named, renamed...)
}
