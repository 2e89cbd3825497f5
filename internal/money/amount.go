// Package money is exact arithmetic on credits.
package money

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// Amount is a number of credits in millionths, the resolution of the
// database's numeric(18,6) columns. Additions are exact; there is no rounding
// drift.
type Amount int64

// Credit is one whole credit.
const Credit Amount = 1_000_000

const digits = 6

// Max is the largest amount a numeric(18,6) column holds.
const Max Amount = 1_000_000_000_000_000_000 - 1

// Parse reads a decimal number such as "3", "0.03588" or "-1.5". More than six
// decimals are rounded half up, away from zero.
func Parse(s string) (Amount, error) {
	r, err := ParseRat(s)
	if err != nil {
		return 0, err
	}
	return FromRat(r)
}

// numberForm is a number of JSON, with leading zeros and a sign besides.
var numberForm = regexp.MustCompile(`^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$`)

// maxNumber bounds the text of a number, in bytes: arithmetic on a number that
// somebody else chose must stay cheap.
const maxNumber = 400

// ParseRat reads a decimal number exactly, for arithmetic that ends in FromRat.
func ParseRat(s string) (*big.Rat, error) {
	s = strings.TrimSpace(s)
	if len(s) > maxNumber {
		return nil, fmt.Errorf("a number of %d digits is too long; at most %d are read", len(s), maxNumber)
	}
	if !numberForm.MatchString(s) { // before it is computed: an exponent may be huge
		return nil, fmt.Errorf("%q is not a decimal number", s)
	}
	r, _ := new(big.Rat).SetString(s) // takes every number of this form
	return r, nil
}

// FromRat rounds a computed price half up, away from zero. It fails for a
// number that is out of range.
func FromRat(r *big.Rat) (Amount, error) {
	millionths := new(big.Rat).Mul(r, new(big.Rat).SetInt64(int64(Credit)))
	n, ok := new(big.Int).SetString(millionths.FloatString(0), 10)
	if !ok || !n.IsInt64() || n.Int64() > int64(Max) || n.Int64() < -int64(Max) {
		return 0, errors.New("the amount is out of range")
	}
	return Amount(n.Int64()), nil
}

// Rat is the amount as an exact number of credits.
func (a Amount) Rat() *big.Rat { return big.NewRat(int64(a), int64(Credit)) }

// String writes the shortest exact decimal: "3", "0.03588", "-1.5".
func (a Amount) String() string {
	sign, u := "", uint64(a)
	if a < 0 {
		sign, u = "-", -u
	}
	whole, frac := u/uint64(Credit), u%uint64(Credit)
	if frac == 0 {
		return fmt.Sprintf("%s%d", sign, whole)
	}
	return sign + strings.TrimRight(fmt.Sprintf("%d.%0*d", whole, digits, frac), "0")
}

// MarshalJSON writes the amount as a JSON number.
func (a Amount) MarshalJSON() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalJSON reads a JSON number, or a string that holds one.
func (a *Amount) UnmarshalJSON(b []byte) error {
	v, err := Parse(strings.Trim(string(b), `"`))
	if err != nil {
		return err
	}
	*a = v
	return nil
}

// Value writes the amount for a numeric(18,6) column.
func (a Amount) Value() (driver.Value, error) { return a.String(), nil }

// Scan reads a numeric(18,6) column of either database.
func (a *Amount) Scan(src any) error {
	var err error
	switch v := src.(type) {
	case string:
		*a, err = Parse(v)
	case []byte:
		*a, err = Parse(string(v))
	case int64:
		*a, err = Parse(strconv.FormatInt(v, 10))
	case float64:
		// SQLite keeps a fraction as a double, exact to 15 digits.
		*a, err = Parse(strconv.FormatFloat(v, 'f', digits, 64))
	case nil:
		*a = 0
	default:
		err = fmt.Errorf("cannot read an amount from %T", src)
	}
	return err
}

// GormDataType keeps the row structs comparable with the schema.
func (Amount) GormDataType() string { return "numeric" }

// Schema describes the amount in the API document as the number it is.
func (Amount) Schema(huma.Registry) *huma.Schema {
	most := float64(Max / Credit)
	return &huma.Schema{Type: huma.TypeNumber, Description: "Credits, with at most six decimals", Minimum: new(-most), Maximum: &most}
}
