package approval

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"

	"github.com/portico-run/portico/internal/errs"
)

// wildcard in a pattern is any value of an argument, or none.
const wildcard = "*"

// maxPattern bounds a stored pattern, in bytes.
const maxPattern = 16 << 10

// matches reports whether a pattern covers arguments: every argument is in the
// pattern with the same value or the wildcard, and none is missing that has a value
// in the pattern. What cannot be read matches nothing.
func matches(pattern, arguments json.RawMessage) bool {
	want, err := object(pattern)
	if err != nil {
		return false
	}
	got, err := object(arguments)
	if err != nil {
		return false
	}
	for name, value := range got {
		if w, ok := want[name]; !ok || w != wildcard && !reflect.DeepEqual(w, value) {
			return false
		}
	}
	for name, w := range want {
		if _, ok := got[name]; !ok && w != wildcard {
			return false
		}
	}
	return true
}

// patternOf is the pattern that a decision stores: the given one, or exactly the
// arguments. It has to cover the call that was decided.
func patternOf(given, arguments json.RawMessage) (json.RawMessage, error) {
	exact := len(given) == 0 || string(given) == "null"
	if exact {
		given = arguments
	}
	values, err := object(given)
	if err != nil {
		return nil, errs.New(errs.Invalid, "pattern is not a JSON object.").Do(`Send the arguments to allow, with "*" for any value, such as {"to":"anna@example.com","text":"*"}.`).With(err)
	}
	for _, v := range values {
		if exact && v == wildcard {
			return nil, errs.New(errs.Invalid, `An argument is "*", which means any value in a pattern.`).Do("Send a pattern that says what is to be allowed.")
		}
	}
	text, err := json.Marshal(values)
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxPattern:
		return nil, errs.Newf(errs.TooLarge, "The pattern has more than %d bytes.", maxPattern).Do(`Replace long values by "*".`)
	case !matches(text, arguments):
		return nil, errs.New(errs.Invalid, "The pattern does not cover the call that is decided.").Do(`Name every argument of it, with its value or "*".`)
	}
	return text, nil
}

// object reads a JSON object; numbers keep all of their digits.
func object(text json.RawMessage) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var values map[string]any
	if err := d.Decode(&values); err != nil {
		return nil, err
	}
	if values == nil {
		return nil, errors.New("null is not an object")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one value")
	}
	return values, nil
}
