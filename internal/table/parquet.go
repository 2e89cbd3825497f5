package table

import (
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// columns is a group of fields in the order of the table; the library's own
// sorts them by name.
type columns struct {
	parquet.Group
	names []string
}

// Fields implements parquet.Node.
func (c columns) Fields() []parquet.Field {
	byName := map[string]parquet.Field{}
	for _, f := range c.Group.Fields() {
		byName[f.Name()] = f
	}
	ordered := make([]parquet.Field, len(c.names))
	for i, name := range c.names {
		ordered[i] = byName[name]
	}
	return ordered
}

// Limits of what is held in memory before it is written.
const (
	batch    = 512
	rowGroup = 32 << 20 // bytes of text of one group of rows
)

// writer writes the rows of a table.
type writer struct {
	out   *parquet.GenericWriter[any]
	kinds []kind
	rows  []parquet.Row
	size  int
}

func newWriter(dst io.Writer, list []Column, kinds []kind) *writer {
	c := columns{Group: parquet.Group{}}
	for i, column := range list {
		c.names = append(c.names, column.Name)
		c.Group[column.Name] = parquet.Optional(kinds[i].node())
	}
	return &writer{
		out:   parquet.NewGenericWriter[any](dst, parquet.NewSchema("table", c), parquet.Compression(&parquet.Snappy)),
		kinds: kinds,
	}
}

func (w *writer) add(fields []string) error {
	row := make(parquet.Row, len(fields))
	for i, field := range fields {
		v, ok := w.kinds[i].value(field)
		if !ok {
			return fmt.Errorf("column %d took a %s before: the file changed while it was read", i+1, w.kinds[i].name())
		}
		defined := 1
		if v.IsNull() {
			defined = 0
		}
		row[i] = v.Level(0, defined, i)
		w.size += len(field) + 1
	}
	w.rows = append(w.rows, row)
	if len(w.rows) == batch {
		return w.flush()
	}
	return nil
}

func (w *writer) flush() error {
	if _, err := w.out.WriteRows(w.rows); err != nil {
		return err
	}
	w.rows = w.rows[:0]
	if w.size < rowGroup {
		return nil
	}
	w.size = 0
	return w.out.Flush()
}

// close writes what is left, unless the table is given up.
func (w *writer) close(whole bool) error {
	if !whole {
		return nil
	}
	if err := w.flush(); err != nil {
		return err
	}
	return w.out.Close()
}
