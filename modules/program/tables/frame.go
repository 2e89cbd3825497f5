// Package tables reads and draws the tables of canvases. The work is done by
// programs of this server in the sandbox, so that a file which was made to
// break its reader breaks nothing else.
package tables

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/sandbox"
)

// Sandbox runs code.
type Sandbox interface {
	Run(ctx context.Context, job sandbox.Job) (sandbox.Result, error)
}

// Service reads and draws tables.
type Service struct {
	Sandbox Sandbox
	// Timeout bounds one piece of work.
	Timeout time.Duration
}

// File is a Parquet file. What reads it has a place in its owner's share of the
// sandbox.
type File struct {
	Owner   string // the id of a user
	Content []byte
}

// ErrInvalid is a table, or a wish about it, that cannot be met; its detail
// says why.
var ErrInvalid = errs.New(errs.Invalid, "The table cannot be read so.")

// Rows is a part of a table.
type Rows struct {
	Total   int64             `json:"totalRows"`
	Columns []Column          `json:"columns"`
	From    int               `json:"from"` // the first row is 0
	Rows    []json.RawMessage `json:"rows"` // each an object by column
}

// Column is one column of a table.
type Column struct {
	Name string `json:"name"`
	Type string `json:"type"` // as Arrow names it
}

// MaxRows is how many rows are read at once.
const MaxRows = 1000

// Rows reads rows of a file, from a row on.
func (s *Service) Rows(ctx context.Context, f File, from, count int) (Rows, error) {
	if from < 0 || count < 0 || count > MaxRows {
		return Rows{}, ErrInvalid.Do(fmt.Sprintf("Ask for at most %d rows, from row 0 on.", MaxRows))
	}
	var out Rows
	_, err := s.work(ctx, f, rowsProgram, map[string]int{"from": from, "count": count}, &out)
	return out, err
}

//go:embed rows.py
var rowsProgram string

// Limits of what comes back from the sandbox.
const (
	maxOutput = 16 << 20
	answer    = "answer.json"
)

// work runs a program over a table. The program reads table.parquet and
// request.json and leaves answer.json, perhaps with other files.
func (s *Service) work(ctx context.Context, f File, program string, request, into any) (map[string][]byte, error) {
	asked, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	result, err := s.Sandbox.Run(ctx, sandbox.Job{
		Owner: f.Owner, Code: program, Language: sandbox.Python, Timeout: s.Timeout,
		Inputs:  []sandbox.File{{Path: "table.parquet", Content: f.Content}, {Path: "request.json", Content: asked}},
		Collect: sandbox.Collect{MaxFiles: 8, MaxBytes: int64(len(f.Content)) + maxOutput},
	})
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, left := range result.Outputs {
		files[left.Path] = left.Content
	}
	switch {
	case result.Status == sandbox.Cancelled && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case result.Status == sandbox.Cancelled:
		return nil, sandbox.ErrUnavailable.Do("The server is stopping; ask again.").AsPlanned()
	case result.Status != sandbox.Completed:
		return nil, ErrInvalid.Do(fmt.Sprintf("Reading it ended with %s. Perhaps it is damaged, or too large.", result.Status)).With(errors.New(result.Stderr))
	}
	var refused struct{ Error string }
	if json.Unmarshal(files[answer], &refused) == nil && refused.Error != "" {
		return nil, ErrInvalid.Do(refused.Error)
	}
	if err := json.Unmarshal(files[answer], into); err != nil {
		return nil, fmt.Errorf("the answer of a program over a table: %w", err)
	}
	return files, nil
}
