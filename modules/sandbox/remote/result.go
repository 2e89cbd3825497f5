package remote

import (
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/guest"
	"github.com/portico-run/portico/modules/sandbox/remote/wire"
)

// text reports whether a text is one that every JSON reader and database takes.
func text(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// Bounds of the head of a result, in bytes.
const (
	headSize = 64 << 10
	fileSize = 32 << 10 // of it, for each file: a path
	maxWords = 2000
)

// taking is a reader that notes that the node sends something.
type taking struct {
	x    *exchange
	from io.Reader
}

// Read implements io.Reader.
func (t taking) Read(p []byte) (int, error) {
	n, err := t.from.Read(p)
	t.x.touch()
	return n, err
}

// takeResult reads how the job ended, and believes what a sandbox here could have said.
func (x *exchange) takeResult(body io.Reader) error {
	x.mu.Lock()
	printing, used := x.printing, x.used
	x.mu.Unlock()
	if printing {
		return errors.New("it sends the result before the end of the output")
	}
	if err := x.enter(ending, given, running); err != nil {
		return err
	}
	from := taking{x, body}
	var head wire.Result
	if err := wire.ReadHead(from, &head, headSize+int64(x.job.Collect.MaxFiles)*fileSize); err != nil {
		return err
	}
	words := head.Lost + head.Invalid
	switch {
	case len(words) > maxWords || !text(words), head.NotBegun && used:
		return errors.New("it sends a result that cannot be")
	case head.NotBegun:
		x.finish(outcome{err: sandbox.ErrCapsuleGone.With(errors.New(words))})
		return nil
	case head.Invalid != "":
		x.finish(outcome{err: sandbox.ErrInvalidJob.Do(head.Invalid)})
		return nil
	case head.Lost != "":
		x.finish(outcome{err: errors.New(head.Lost)})
		return nil
	}
	result, err := x.read(from, head)
	if err == nil {
		x.finish(outcome{result: result})
	}
	return err
}

func (x *exchange) read(from io.Reader, head wire.Result) (sandbox.Result, error) {
	r := sandbox.Result{
		StdoutDropped: head.StdoutDropped, StderrDropped: head.StderrDropped, ExitCode: head.ExitCode, Status: head.Status,
		Duration: max(0, head.Duration), OutputsDropped: head.OutputsDropped,
	}
	if took, _ := x.job.Clock.Elapsed(); r.Duration > max(took, x.job.Timeout)+x.times.Late {
		r.Duration = took
	}
	if !possible(r) {
		return r, errors.New("it sends a result that cannot be")
	}
	for _, t := range []struct {
		to   *string
		size int64
	}{{&r.Stdout, head.Stdout}, {&r.Stderr, head.Stderr}} {
		if t.size < 0 || t.size > x.most() {
			return r, errors.New("it sends more output than SANDBOX_OUTPUT of this server lets it")
		}
		b, err := wire.ReadBytes(from, t.size)
		if err != nil {
			return r, err
		}
		if *t.to = string(b); !text(*t.to) {
			return r, errors.New("it sends output that is no text")
		}
	}
	var err error
	r.Outputs, err = x.readFiles(from, head.Files)
	return r, err
}

// possible reports whether status and exit code belong together.
func possible(r sandbox.Result) bool {
	if r.StdoutDropped < 0 || r.StderrDropped < 0 || r.OutputsDropped < 0 || r.ExitCode < 0 || r.ExitCode > 255 {
		return false
	}
	switch r.Status {
	case sandbox.Completed:
		return r.ExitCode == 0
	case sandbox.TimedOut:
		return r.ExitCode == sandbox.ExitTimedOut
	}
	return slices.Contains([]sandbox.Status{sandbox.Failed, sandbox.Cancelled, sandbox.OutOfMemory, sandbox.Killed}, r.Status) && r.ExitCode != 0
}

func (x *exchange) readFiles(from io.Reader, list []wire.File) ([]sandbox.File, error) {
	limit := x.job.Collect
	if len(list) > limit.MaxFiles {
		return nil, errors.New("it sends more files than it may")
	}
	var files []sandbox.File
	seen, room := map[string]bool{}, limit.MaxBytes
	for _, f := range list {
		if !guest.UsablePath(f.Path) || seen[f.Path] {
			return nil, errors.New("it sends a file with a path that cannot be")
		}
		seen[f.Path] = true
		if f.Unchanged {
			if limit.Known == nil {
				return nil, errors.New("it says of a file that it is known")
			}
			if _, _, known := limit.Known(f.Path); !known {
				return nil, errors.New("it says of a file that it is known")
			}
			files = append(files, sandbox.File{Path: f.Path, Unchanged: true})
			continue
		}
		if f.Size < 0 || f.Size > room {
			return nil, errors.New("it sends larger files than it may")
		}
		room -= f.Size
		content, err := wire.ReadBytes(from, f.Size)
		if err != nil {
			return nil, err
		}
		files = append(files, sandbox.File{Path: f.Path, Content: content})
	}
	return files, nil
}
