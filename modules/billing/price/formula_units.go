package price

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"github.com/portico-run/portico/internal/money"
)

// units counts the units in a value: text by tokens or bytes, pictures by their
// number, sound and film by their length.
func (f Formula) units(r formulaRule, v any) (*big.Rat, error) {
	switch r.Category {
	case textCategory:
		text := plainText(v)
		if r.UnitMode == countBytes {
			return big.NewRat(int64(len(text)), perMillion), nil
		}
		n, err := f.count(text)
		return big.NewRat(int64(n), perMillion), err
	case imageCategory:
		if list, ok := v.([]any); ok {
			return big.NewRat(int64(len(list)), 1), nil
		}
		if _, isText := v.(string); isText {
			return big.NewRat(1, 1), nil // one picture, whatever it is called
		}
		if n, ok := numeric(v); ok && n.Sign() >= 0 {
			return n, nil
		}
		return big.NewRat(1, 1), nil
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	sum := new(big.Rat)
	for _, item := range list {
		n, ok := numeric(item)
		if !ok || n.Sign() < 0 {
			return nil, fmt.Errorf("the length at %q is not a number", r.FieldPath)
		}
		sum.Add(sum, n)
	}
	return sum, nil
}

// plainText is a value as text; items of a list are separated by a space.
func plainText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = plainText(item)
		}
		return strings.Join(parts, " ")
	case json.Number:
		return v.String()
	}
	b, _ := json.Marshal(v) // decoded JSON always has a JSON form
	return string(b)
}

// decimal is the only form in which a text is a number: neither "0x1A" nor ""
// is one.
var decimal = regexp.MustCompile(`^-?\d+(\.\d+)?$`)

// numeric reads a number, or a text that is one. A double is not: what was
// decoded into one is not what was sent.
func numeric(v any) (*big.Rat, bool) {
	switch v := v.(type) {
	case json.Number:
		return number(v.String()), true
	case string:
		if text := strings.TrimSpace(v); decimal.MatchString(text) {
			return number(text), true
		}
	}
	return nil, false
}

// number reads what has the form of a number. One that is too long to compute with, or
// whose exponent is, counts as a very large one, so that it makes no call cheap.
func number(text string) *big.Rat {
	r, err := money.ParseRat(text)
	if err == nil {
		return r
	}
	const digits = 1000
	r = new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(digits), nil))
	if strings.HasPrefix(text, "-") {
		r.Neg(r)
	}
	return r
}

// equalTier compares a value with that of a tier: strictly, except that a text
// which is a number equals the number, and "true" and "false" what they say.
func equalTier(value, tier any) bool {
	if a, ok := value.(string); ok {
		switch b := tier.(type) {
		case string:
			return a == b
		case bool:
			return a == strconv.FormatBool(b)
		}
	}
	if b, ok := value.(bool); ok {
		text, isText := tier.(string)
		return value == tier || isText && text == strconv.FormatBool(b)
	}
	a, ok := numeric(value)
	b, also := numeric(tier)
	return ok && also && a.Cmp(b) == 0
}
