package configs

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Decimal is a number with at most six decimals, exact: it counts millionths.
// Prices, limits and rates are decimals.
type Decimal int64

// One is the decimal 1.
const One Decimal = 1_000_000

const decimals = 6

// String writes the shortest text that means the same: "3", "0.5".
func (d Decimal) String() string {
	whole, rest := d/One, d%One
	if rest == 0 {
		return strconv.FormatInt(int64(whole), 10)
	}
	sign := ""
	if d < 0 {
		sign, whole, rest = "-", -whole, -rest
	}
	return sign + strings.TrimRight(fmt.Sprintf("%d.%0*d", whole, decimals, rest), "0")
}

// MarshalJSON writes the decimal as a number.
func (d Decimal) MarshalJSON() ([]byte, error) { return json.Marshal(json.Number(d.String())) }

// Float is the decimal as a double, for what is not money.
func (d Decimal) Float() float64 { return float64(d) / float64(One) }

// decimalForm has no sign, no exponent and no separators: what it lets through
// means the same to everybody.
var decimalForm = regexp.MustCompile(`^([0-9]{1,12})(?:\.([0-9]{1,6}))?$`)

func parseDecimal(text string) (Decimal, error) {
	match := decimalForm.FindStringSubmatch(text)
	if match == nil {
		return 0, errors.New("must be a number such as 100 or 2.5, not negative, with at most 12 digits before the point and 6 after it")
	}
	n, err := strconv.ParseInt(match[1]+(match[2] + "000000")[:decimals], 10, 64)
	return Decimal(n), err
}

// parseLimit reads a decimal; no text is no limit.
func parseLimit(text string) (*Decimal, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // there is no limit
	}
	d, err := parseDecimal(text)
	if err != nil {
		return nil, err
	}
	return &d, nil
}
