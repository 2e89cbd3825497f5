// Package table turns tables that people upload into Parquet: the types of
// columns are found out from all of their values, and rows that do not fit are
// reported. Files of any size take the same memory.
package table

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/portico-run/portico/internal/errs"
)

// Limits of a table.
const (
	// MaxColumns is how many columns a table may have.
	MaxColumns = 10_000
	// MaxRow is the longest row of a table, in bytes.
	MaxRow = 4 << 20
	// MaxReported is how many bad rows a Report names; it counts all.
	MaxReported = 20
)

// ErrInvalid says that a file cannot be read as a table.
var ErrInvalid = errs.New(errs.Invalid, "The file is not a table.")

// Report says how a table was read and which rows were left out.
type Report struct {
	Rows    int64    `json:"rows" doc:"Rows that were taken"`
	Columns []Column `json:"columns"`
	BadRows int64    `json:"badRows" doc:"Rows that were left out because they do not fit the header"`
	Bad     []BadRow `json:"bad,omitempty" doc:"The first of them"`
	// Delimiter and Encoding are what the file was read with.
	Delimiter string `json:"delimiter"`
	Encoding  string `json:"encoding"`
}

// Column is one column.
type Column struct {
	Name  string `json:"name"`
	Type  string `json:"type" enum:"integer,number,boolean,date,datetime,text"`
	Nulls int64  `json:"nulls" doc:"Rows without a value"`
}

// BadRow is a row that was left out.
type BadRow struct {
	Line   int    `json:"line" doc:"Where it begins in the file; the first line is 1"`
	Reason string `json:"reason"`
}

// Summary describes the table in one line, for people and models.
func (r Report) Summary() string {
	columns := make([]string, len(r.Columns))
	for i, c := range r.Columns {
		columns[i] = c.Name + " " + c.Type
	}
	text := fmt.Sprintf("Table with %s. Rows: %d.", strings.Join(columns, ", "), r.Rows)
	if r.BadRows > 0 {
		text += fmt.Sprintf(" Rows of the uploaded file that did not fit and were left out: %d.", r.BadRows)
	}
	return text
}

// ConvertCSV writes the table in src as Parquet. It reads src several times.
// Its errors are ErrInvalid, those of the context and those of src and dst.
func ConvertCSV(ctx context.Context, src io.ReadSeeker, dst io.Writer) (Report, error) {
	f, err := examine(src)
	if err != nil {
		return Report{}, err
	}
	found, report, err := infer(ctx, f)
	if err != nil {
		return Report{}, err
	}
	w := newWriter(dst, report.Columns, found)
	err = f.each(ctx, len(report.Columns), func(_ int, fields []string, bad string) error {
		if bad != "" {
			return nil
		}
		return w.add(fields)
	})
	return report, errors.Join(err, w.close(err == nil))
}

// infer reads all of a file and finds out the types of its columns.
func infer(ctx context.Context, f file) ([]kind, Report, error) {
	names, err := f.header()
	if err != nil {
		return nil, Report{}, err
	}
	r := Report{Columns: make([]Column, len(names)), Delimiter: string(f.comma), Encoding: f.encoding}
	guesses := make([]guess, len(names))
	err = f.each(ctx, len(names), func(line int, fields []string, bad string) error {
		if bad != "" {
			r.BadRows++
			if len(r.Bad) < MaxReported {
				r.Bad = append(r.Bad, BadRow{Line: line, Reason: bad})
			}
			return nil
		}
		r.Rows++
		for i, value := range fields {
			guesses[i].see(value)
		}
		return nil
	})
	kinds := make([]kind, len(names))
	for i, g := range guesses {
		kinds[i] = g.kind()
		r.Columns[i] = Column{Name: names[i], Type: kinds[i].name(), Nulls: g.nulls(kinds[i])}
	}
	return kinds, r, err
}
