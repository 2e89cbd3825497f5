package table

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/snappy"
)

// The part of Parquet that a flat table needs: optional columns, plain values,
// Snappy. https://parquet.apache.org/docs/file-format/ has the whole.

// Limits of what is held in memory before it is written.
const (
	rowGroup   = 32 << 20 // bytes of text of one group of rows
	pageBytes  = 1 << 20  // of one column
	pageValues = 1 << 16
)

const magic = "PAR1"

// Numbers of the format.
const (
	encodingPlain = 0
	encodingRLE   = 3
	codecSnappy   = 1
	optional      = 1
)

// chunk is what a group of rows has in one column.
type chunk struct {
	// The page that is filled.
	values  []byte
	defined []byte // a bit for each value: it is not null
	count   int    // of values, nulls included
	bits    int    // of booleans in values

	// The pages before.
	pages       []byte
	size, total int64 // of the pages, before they were compressed; of values
	nulls       int64
}

// group is where a group of rows is in the file.
type group struct {
	columns []placed
	rows    int64
}

type placed struct{ at, size, compressed, values, nulls int64 }

// writer writes the rows of a table.
type writer struct {
	out    io.Writer
	at     int64 // bytes written
	names  []string
	kinds  []kind
	chunks []chunk
	groups []group
	rows   int64 // of the group
	size   int
}

func newWriter(dst io.Writer, list []Column, kinds []kind) *writer {
	w := &writer{out: dst, kinds: kinds, chunks: make([]chunk, len(kinds))}
	for _, column := range list {
		w.names = append(w.names, column.Name)
	}
	return w
}

func (w *writer) add(fields []string) error {
	for i, field := range fields {
		v, ok := w.kinds[i].value(field)
		if !ok {
			return fmt.Errorf("column %d took a %s before: the file changed while it was read", i+1, w.kinds[i].name())
		}
		w.chunks[i].add(w.kinds[i], v)
		w.size += len(field) + 1
	}
	if w.rows++; w.size < rowGroup {
		return nil
	}
	return w.flush()
}

func (c *chunk) add(k kind, v value) {
	if c.count%8 == 0 {
		c.defined = append(c.defined, 0)
	}
	if v.null {
		c.nulls++
	} else {
		c.defined[c.count/8] |= 1 << (c.count % 8)
		c.put(k, v)
	}
	if c.count++; c.count == pageValues || len(c.values) >= pageBytes {
		c.page()
	}
}

func (c *chunk) put(k kind, v value) {
	switch k {
	case boolean:
		if c.bits%8 == 0 {
			c.values = append(c.values, 0)
		}
		c.values[c.bits/8] |= byte(v.bits) << (c.bits % 8)
		c.bits++
	case date:
		c.values = binary.LittleEndian.AppendUint32(c.values, uint32(v.bits)) // days fit
	case text:
		c.values = binary.LittleEndian.AppendUint32(c.values, uint32(len(v.text))) // a field is smaller than a file
		c.values = append(c.values, v.text...)
	default:
		c.values = binary.LittleEndian.AppendUint64(c.values, v.bits)
	}
}

// page ends the page that is filled.
func (c *chunk) page() {
	if c.count == 0 {
		return
	}
	// One run of bits, after its length in groups of eight.
	levels := binary.AppendUvarint(nil, uint64(len(c.defined))<<1|1)
	levels = append(levels, c.defined...)
	body := binary.LittleEndian.AppendUint32(nil, uint32(len(levels))) // pages are small
	body = append(append(body, levels...), c.values...)
	packed := snappy.Encode(nil, body)
	head := &thrift{}
	head.element(func() {
		head.i32(1, 0) // a page of data
		head.i32(2, int64(len(body)))
		head.i32(3, int64(len(packed)))
		head.inner(5, func() {
			head.i32(1, int64(c.count))
			head.i32(2, encodingPlain)
			head.i32(3, encodingRLE)
			head.i32(4, encodingRLE)
		})
	})
	c.pages = append(append(c.pages, head.out...), packed...)
	c.size += int64(len(head.out) + len(body))
	c.total += int64(c.count)
	c.values, c.defined, c.count, c.bits = c.values[:0], c.defined[:0], 0, 0
}

func (w *writer) write(b []byte) error {
	n, err := w.out.Write(b)
	w.at += int64(n)
	return err
}

// flush ends a group of rows.
func (w *writer) flush() error {
	if w.at == 0 {
		if err := w.write([]byte(magic)); err != nil {
			return err
		}
	}
	if w.rows == 0 {
		return nil
	}
	g := group{rows: w.rows}
	for i := range w.chunks {
		c := &w.chunks[i]
		c.page()
		g.columns = append(g.columns, placed{at: w.at, size: c.size, compressed: int64(len(c.pages)), values: c.total, nulls: c.nulls})
		if err := w.write(c.pages); err != nil {
			return err
		}
		w.chunks[i] = chunk{}
	}
	w.groups, w.rows, w.size = append(w.groups, g), 0, 0
	return nil
}

// close writes what is left, unless the table is given up.
func (w *writer) close(whole bool) error {
	if !whole {
		return nil
	}
	if err := w.flush(); err != nil {
		return err
	}
	footer := w.footer()
	footer = binary.LittleEndian.AppendUint32(footer, uint32(len(footer))) // names and numbers
	return w.write(append(footer, magic...))
}

// footer says what the table is and where its columns are.
func (w *writer) footer() []byte {
	t := &thrift{}
	t.element(func() {
		t.i32(1, 1) // the version of the format
		t.list(2, thriftStruct, 1+len(w.names))
		t.element(func() {
			t.text(4, "table")
			t.i32(5, int64(len(w.names)))
		})
		rows := int64(0)
		for i, name := range w.names {
			t.element(func() { w.kinds[i].describe(t, name) })
		}
		for _, g := range w.groups {
			rows += g.rows
		}
		t.i64(3, rows)
		t.list(4, thriftStruct, len(w.groups))
		for _, g := range w.groups {
			t.element(func() { w.group(t, g) })
		}
		t.text(6, "portico")
	})
	return t.out
}

func (w *writer) group(t *thrift, g group) {
	t.list(1, thriftStruct, len(g.columns))
	size := int64(0)
	for i, c := range g.columns {
		size += c.size
		t.element(func() {
			t.i64(2, c.at)
			t.inner(3, func() {
				t.i32(1, w.kinds[i].physical())
				t.list(2, thriftI32, 2)
				t.out = binary.AppendVarint(binary.AppendVarint(t.out, encodingPlain), encodingRLE)
				t.list(3, thriftText, 1)
				t.raw(w.names[i])
				t.i32(4, codecSnappy)
				t.i64(5, c.values)
				t.i64(6, c.size)
				t.i64(7, c.compressed)
				t.i64(9, c.at)
				t.inner(12, func() { t.i64(3, c.nulls) })
			})
		})
	}
	t.i64(2, size)
	t.i64(3, g.rows)
}
