package enginetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"time"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/sandbox"
)

// wireJob is a job on its way. What a job holds as functions and handlers is
// reached at Back.
type wireJob struct {
	sandbox.Job // without Files, Inputs, Collect, Gateway, Clock and Output

	Files, Inputs, Clock, Output struct{} // shadow those of Job
	Collect, Gateway             struct{}

	Sent     []wireFile // Files
	Found    []wireFile // Inputs
	MaxFiles int
	MaxBytes int64
	Known    map[string]known
	Back     string // address of the handlers; empty without a gateway
	Lines    string // address that takes lines of output; empty without
}

type wireFile struct {
	Path      string
	Content   []byte
	ReadOnly  bool
	Unchanged bool
}

type known struct {
	Size   int64
	Digest [sha256.Size]byte
}

func toWire(ctx context.Context, job sandbox.Job) (wireJob, error) {
	w := wireJob{Job: job, MaxFiles: job.Collect.MaxFiles, MaxBytes: job.Collect.MaxBytes, Known: map[string]known{}}
	var err error
	if w.Sent, err = sent(ctx, job.Files); err != nil {
		return w, err
	}
	if w.Found, err = sent(ctx, job.Inputs); err != nil {
		return w, err
	}
	for _, f := range job.Inputs {
		if job.Collect.Known == nil {
			break
		}
		if size, digest, ok := job.Collect.Known(f.Path); ok {
			w.Known[f.Path] = known{size, digest}
		}
	}
	return w, nil
}

func sent(ctx context.Context, files []sandbox.File) ([]wireFile, error) {
	list := make([]wireFile, len(files))
	for i, f := range files {
		r, _, err := f.Reader(ctx)
		if err != nil {
			return nil, err
		}
		list[i] = wireFile{Path: f.Path, ReadOnly: f.ReadOnly, Unchanged: f.Unchanged}
		list[i].Content, err = io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func received(list []wireFile) []sandbox.File {
	var files []sandbox.File
	for _, f := range list {
		files = append(files, sandbox.File{Path: f.Path, Content: f.Content, ReadOnly: f.ReadOnly, Unchanged: f.Unchanged})
	}
	return files
}

// job is the job without its gateway and its output.
func (w wireJob) job() sandbox.Job {
	job := w.Job
	job.Files, job.Inputs = received(w.Sent), received(w.Found)
	job.Collect = sandbox.Collect{MaxFiles: w.MaxFiles, MaxBytes: w.MaxBytes, Known: func(path string) (int64, [sha256.Size]byte, bool) {
		k, ok := w.Known[path]
		return k.Size, k.Digest, ok
	}}
	return job
}

// wireResult is how a job ended.
type wireResult struct {
	sandbox.Result

	Outputs []wireFile // shadows that of Result
	Failed  *wireError
}

// wireError is an error with everything that its receiver sees of it.
type wireError struct {
	errs.Error

	Text string // of an error that is no *errs.Error
}

func toWireError(err error) *wireError {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*errs.Error](err); ok {
		return &wireError{Error: errs.Error{Code: e.Code, Message: e.Message, Detail: e.Detail, RetryAfter: e.RetryAfter}}
	}
	return &wireError{Text: err.Error()}
}

func (w *wireError) err() error {
	switch {
	case w == nil:
		return nil
	case w.Text != "":
		return errors.New(w.Text)
	}
	return errs.New(w.Code, w.Message).Do(w.Detail).After(w.RetryAfter)
}

// stopTimeout bounds the last words between the two sides.
const stopTimeout = 10 * time.Second
