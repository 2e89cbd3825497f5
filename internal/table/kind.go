package table

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
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

func (k kind) node() parquet.Node {
	return []parquet.Node{
		parquet.Leaf(parquet.Int64Type), parquet.Leaf(parquet.DoubleType), parquet.Leaf(parquet.BooleanType), parquet.Date(),
		parquet.TimestampAdjusted(parquet.Microsecond, false), parquet.Timestamp(parquet.Microsecond), parquet.String(),
	}[k]
}

// value reads a field of this kind. A field without a value is null.
func (k kind) value(field string) (v parquet.Value, ok bool) {
	if k == text {
		if field == "" {
			return parquet.NullValue(), true
		}
		return parquet.ByteArrayValue([]byte(field)), true
	}
	field = strings.TrimSpace(field)
	if absent(field) {
		return parquet.NullValue(), true
	}
	switch k {
	case integer:
		n, ok := parseInteger(field)
		return parquet.Int64Value(n), ok
	case number:
		x, ok := parseNumber(field)
		return parquet.DoubleValue(x), ok
	case boolean:
		yes := strings.EqualFold(field, "true")
		return parquet.BooleanValue(yes), yes || strings.EqualFold(field, "false")
	case date:
		t, err := time.Parse(time.DateOnly, field)
		return parquet.Int32Value(int32(t.Unix() / 86400)), err == nil
	case local:
		t, ok := parseTime(field, time.DateOnly, time.DateTime, "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04")
		return parquet.Int64Value(t.UnixMicro()), ok
	case moment:
		t, ok := parseTime(field, time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 Z07:00")
		return parquet.Int64Value(t.UnixMicro()), ok
	}
	return parquet.Value{}, false
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
	if _, whole := parseInteger(field); !whole && !strings.ContainsAny(field, ".eE") {
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
