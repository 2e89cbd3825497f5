package table

import "encoding/binary"

// Types of fields in Thrift's compact protocol, in which Parquet writes what it
// says about its data.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftI32    = 5
	thriftI64    = 6
	thriftText   = 8
	thriftList   = 9
	thriftStruct = 12
)

// thrift writes one struct: its fields in the order of their ids.
type thrift struct {
	out  []byte
	last int // id of the field before
}

func (t *thrift) field(id, kind int) {
	t.out = append(t.out, byte((id-t.last)<<4|kind)) // ids here are never more than 15 apart
	t.last = id
}

func (t *thrift) i32(id int, v int64) {
	t.field(id, thriftI32)
	t.out = binary.AppendVarint(t.out, v)
}

func (t *thrift) i64(id int, v int64) {
	t.field(id, thriftI64)
	t.out = binary.AppendVarint(t.out, v)
}

func (t *thrift) bool(id int, v bool) {
	if v {
		t.field(id, thriftTrue)
	} else {
		t.field(id, thriftFalse)
	}
}

func (t *thrift) text(id int, v string) {
	t.field(id, thriftText)
	t.raw(v)
}

// raw is a text without a field, as in a list.
func (t *thrift) raw(v string) {
	t.out = append(binary.AppendUvarint(t.out, uint64(len(v))), v...)
}

func (t *thrift) list(id, kind, size int) {
	t.field(id, thriftList)
	if size < 15 {
		t.out = append(t.out, byte(size<<4|kind))
		return
	}
	t.out = binary.AppendUvarint(append(t.out, byte(0xF0|kind)), uint64(size))
}

// inner is a struct in a field.
func (t *thrift) inner(id int, fields func()) {
	t.field(id, thriftStruct)
	t.element(fields)
}

// element is a struct without a field, as in a list, or the outermost one.
func (t *thrift) element(fields func()) {
	last := t.last
	t.last = 0
	fields()
	t.out, t.last = append(t.out, 0), last
}
