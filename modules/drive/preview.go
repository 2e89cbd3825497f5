package drive

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/actor"
)

// Limits of previews.
const (
	previewRows    = 100
	previewText    = 64 << 10 // bytes
	previewCSV     = 1 << 20  // bytes that are read of a CSV file
	previewParquet = 16 << 20 // bytes; a Parquet file is read whole
)

// The kinds of previews.
const (
	PreviewTable  = "table"
	PreviewText   = "text"
	PreviewImage  = "image"
	PreviewBinary = "binary"
)

// Preview is what is at the beginning of a file.
type Preview struct {
	Kind  string `json:"kind" enum:"table,text,image,binary" doc:"An image is to be read from its url; of a binary file nothing is shown"`
	Text  string `json:"text,omitempty" doc:"The first 64 KiB of a text"`
	Table *Table `json:"table,omitempty" doc:"The first 100 rows of a table"`
	// Whole is false where there is more than is shown.
	Whole bool `json:"whole" doc:"Whether that is all of the file"`
}

// Table is the beginning of a table.
type Table struct {
	Columns []TableColumn       `json:"columns" nullable:"false"`
	Rows    [][]json.RawMessage `json:"rows" nullable:"false" doc:"Each a list of values in the order of the columns; those of a CSV file are texts"`
	Total   *int64              `json:"totalRows,omitempty" doc:"Rows of the whole table, where that is known"`
}

// TableColumn is one column of a table.
type TableColumn struct {
	Name string `json:"name"`
	Type string `json:"type,omitempty" doc:"As Arrow names it; absent for a CSV file"`
}

// Preview shows the beginning of a file. It returns ErrMissing, and ErrTooLarge
// for a Parquet file that is too large to be read for that.
func (s *Service) Preview(ctx context.Context, a actor.Actor, fileID string) (File, Preview, error) {
	f, err := s.Get(ctx, a, fileID)
	if err != nil {
		return f, Preview{}, err
	}
	ext := strings.ToLower(path.Ext(f.Name))
	switch {
	case ext == ".parquet":
		p, err := s.previewParquet(ctx, a, fileID)
		return f, p, err
	case f.Category() == "image":
		return f, Preview{Kind: PreviewImage}, nil
	}
	limit := int64(previewText)
	if ext == ".csv" || ext == ".tsv" {
		limit = previewCSV
	}
	head, err := s.head(ctx, a, fileID, limit)
	if err != nil {
		return f, Preview{}, err
	}
	whole := f.Size <= limit
	if limit == previewCSV {
		if t, all, ok := csvHead(head, ext, whole); ok {
			return f, Preview{Kind: PreviewTable, Table: &t, Whole: all}, nil
		}
		whole = f.Size <= previewText
		head = head[:min(len(head), previewText)]
	}
	text, ok := textOf(head, whole)
	if !ok {
		return f, Preview{Kind: PreviewBinary, Whole: f.Size == 0}, nil
	}
	return f, Preview{Kind: PreviewText, Text: text, Whole: whole}, nil
}

func (s *Service) previewParquet(ctx context.Context, a actor.Actor, fileID string) (Preview, error) {
	_, content, err := s.Read(ctx, a, fileID, previewParquet)
	if errors.Is(err, ErrTooLarge) {
		return Preview{}, ErrTooLarge.Do(fmt.Sprintf("A Parquet file of at most %d bytes is shown; download this one.", previewParquet))
	}
	if err != nil {
		return Preview{}, err
	}
	t, err := s.tables.Head(ctx, a, content, previewRows)
	if err != nil {
		return Preview{}, err
	}
	return Preview{Kind: PreviewTable, Table: &t, Whole: t.Total != nil && *t.Total <= int64(len(t.Rows))}, nil
}

// head reads the first bytes of a file.
func (s *Service) head(ctx context.Context, a actor.Actor, fileID string, limit int64) ([]byte, error) {
	_, content, err := s.Open(ctx, a, fileID)
	if err != nil {
		return nil, err
	}
	defer func() { _ = content.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(content, limit))
}

// csvHead reads the first rows of a CSV file. whole says that b is all of it, and
// so does all of what is returned. What is no table, or not UTF-8, is not ok.
func csvHead(b []byte, ext string, whole bool) (t Table, all, ok bool) {
	if !whole {
		b = b[:bytes.LastIndexByte(b, '\n')+1] // a line that is cut says something else
	}
	if !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0 {
		return t, false, false
	}
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(b, []byte("\ufeff"))))
	r.LazyQuotes, r.FieldsPerRecord = true, -1
	if ext == ".tsv" {
		r.Comma = '\t'
	}
	names, err := r.Read()
	if err != nil {
		return t, false, false
	}
	for _, name := range names {
		t.Columns = append(t.Columns, TableColumn{Name: name})
	}
	t.Rows = [][]json.RawMessage{}
	for {
		record, err := r.Read()
		switch {
		case errors.Is(err, io.EOF):
			return t, whole, true
		case err != nil:
			return t, false, false
		case len(t.Rows) == previewRows:
			return t, false, true
		}
		t.Rows = append(t.Rows, cells(record))
	}
}

func cells(record []string) []json.RawMessage {
	out := make([]json.RawMessage, len(record))
	for i, text := range record {
		out[i], _ = json.Marshal(text) // a string cannot fail
	}
	return out
}

// textOf reads bytes as a text; not ok for what is none. Where they are not the
// whole of it, a character at the end that is cut is left out.
func textOf(b []byte, whole bool) (string, bool) {
	for cut := 0; !whole && cut < utf8.UTFMax && len(b) > 0 && !utf8.Valid(b); cut++ {
		b = b[:len(b)-1]
	}
	return string(b), utf8.Valid(b) && bytes.IndexByte(b, 0) < 0
}
