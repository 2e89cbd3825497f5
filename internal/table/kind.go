package table

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kind is the type of a column.
type kind uint8

// The kinds, from narrow to wide: a later one takes all values of an earlier one.
const (
	integer kind = iota
	number
	boolean
	date
	local  // a time of day of an unknown zone
	moment // a point in time
	text
)

func (k kind) name() string {
	return []string{"integer", "number", "boolean", "date", "datetime", "datetime", "text"}[k]
}

// physical is how the values are stored.
func (k kind) physical() int64 {
	const isBoolean, isInt32, isInt64, isDouble, isBytes = 0, 1, 2, 5, 6
	return []int64{isInt64, isDouble, isBoolean, isInt32, isInt64, isInt64, isBytes}[k]
}

// describe writes a column of this kind into the schema: how it is stored, and
// what that means to older readers (field 6) and to newer ones (field 10).
func (k kind) describe(t *thrift, name string) {
	t.i32(1, k.physical())
	t.i32(3, optional)
	t.text(4, name)
	switch k {
	case text:
		t.i32(6, 0)
		t.inner(10, func() { t.inner(1, func() {}) })
	case date:
		t.i32(6, 6)
		t.inner(10, func() { t.inner(6, func() {}) })
	case local, moment:
		if k == moment {
			t.i32(6, 10) // older readers know points in time only
		}
		t.inner(10, func() {
			t.inner(8, func() {
				t.bool(1, k == moment)
				t.inner(2, func() { t.inner(2, func() {}) }) // microseconds
			})
		})
	}
}

// value is a field as it is stored.
type value struct {
	null bool
	bits uint64 // of a number, a truth or a time
	text string
}

func whole(n int64) value { return value{bits: uint64(n)} } // the bits are what is stored

// value reads a field of this kind. A field without a value is null.
func (k kind) value(field string) (v value, ok bool) {
	if k == text {
		return value{null: field == "", text: field}, true
	}
	field = strings.TrimSpace(field)
	if absent(field) {
		return value{null: true}, true
	}
	switch k {
	case integer:
		n, ok := parseInteger(field)
		return whole(n), ok
	case number:
		x, ok := parseNumber(field)
		return value{bits: math.Float64bits(x)}, ok
	case boolean:
		if strings.EqualFold(field, "true") {
			return whole(1), true
		}
		return whole(0), strings.EqualFold(field, "false")
	case date:
		t, err := time.Parse(time.DateOnly, field)
		return whole(t.Unix() / 86400), err == nil
	case local:
		t, ok := parseTime(field, time.DateOnly, time.DateTime, "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04")
		return whole(t.UnixMicro()), ok
	case moment:
		t, ok := parseTime(field, time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 Z07:00")
		return whole(t.UnixMicro()), ok
	}
	return value{}, false
}

// absent reports whether a field means "no value" in a column that is not text.
func absent(field string) bool {
	return slices.Contains([]string{"", "NA", "N/A", "n/a", "NULL", "null", "NaN", "nan", "None"}, field)
}

// parseInteger reads a whole number. One with zeros in front is a name, such
// as a postal code.
func parseInteger(field string) (int64, bool) {
	digits := strings.TrimLeft(field, "+-")
	if len(digits) > 1 && digits[0] == '0' {
		return 0, false
	}
	n, err := strconv.ParseInt(field, 10, 64)
	return n, err == nil
}

// parseNumber reads a number for a column of floats. It refuses leading zeros, and
// whole numbers that are too large to be exact.
func parseNumber(field string) (float64, bool) {
	if strings.Trim(field, "+-.0123456789eE") != "" {
		return 0, false
	}
	digits := strings.TrimLeft(field, "+-")
	if len(digits) > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9' {
		return 0, false
	}
	const exact = 1 << 53 // floats have all whole numbers up to there
	if n, whole := parseInteger(field); !strings.ContainsAny(field, ".eE") && (!whole || n > exact || n < -exact) {
		return 0, false
	}
	x, err := strconv.ParseFloat(field, 64)
	return x, err == nil && !math.IsInf(x, 0)
}

func parseTime(field string, layouts ...string) (time.Time, bool) {
	if len(field) < len(time.DateOnly) || field[4] != '-' {
		return time.Time{}, false
	}
	for _, layout := range layouts {
		if t, err := time.Parse(layout, field); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// guess is which kinds a column may still have after the values so far.
type guess struct {
	excluded [text]bool
	empty    int64 // fields of no length
	missing  int64 // fields that say that there is no value
	values   int64
}

func (g *guess) see(field string) {
	if absent(strings.TrimSpace(field)) {
		g.missing++
		if field == "" {
			g.empty++
		}
		return
	}
	g.values++
	for k := range text {
		if g.excluded[k] {
			continue
		}
		if _, ok := k.value(field); !ok {
			g.excluded[k] = true
		}
	}
}

// kind is the narrowest kind that takes every value; text takes all.
func (g *guess) kind() kind {
	if g.values == 0 {
		return text
	}
	for k := range text {
		if !g.excluded[k] {
			return k
		}
	}
	return text
}

func (g *guess) nulls(k kind) int64 {
	if k == text {
		return g.empty
	}
	return g.missing
}
