// Package decode reads the JSON of requests, and says what is wrong with it in
// words for their senders.
package decode

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/portico-run/portico/internal/schema/jsonschema"
)

// problem is what is wrong with a body, as a sentence for its sender.
type problem string

func (p problem) Error() string { return string(p) }

// JSON decodes every JSON body. Members that a type does not know are
// ignored, unless one of them is nearly one that the type knows and the body
// has not: the sender would be answered as if it had sent nothing.
func JSON(body []byte, into any) error {
	if _, untyped := into.(*any); untyped {
		return explainJSON(json.Unmarshal(body, into))
	}
	if err := unmarshalWhole(body, into); err != nil {
		return explainJSON(err)
	}
	return misspelled(body, reflect.TypeOf(into).Elem(), "")
}

// Each integer that is written like 1.0 has the body read once more. That is done
// for anyRewrites of them, and for more as long as it is cheap.
const (
	anyRewrites = 8
	cheapBytes  = 8 << 20 // to read again
)

// unmarshalWhole takes 1.0 and 1e3 for the integers that they are.
func unmarshalWhole(body []byte, into any) error {
	for n, read := 0, 0; ; n++ {
		err := json.Unmarshal(body, into)
		wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
		if !ok {
			return err
		}
		number, isNumber := strings.CutPrefix(wrong.Value, "number ")
		begin := int(wrong.Offset) - len(number)
		if !isNumber || begin < 0 || string(body[begin:wrong.Offset]) != number {
			return err
		}
		whole, ok := integer(number)
		if !ok || whole == number {
			return err
		}
		if read += len(body); n >= anyRewrites && read > cheapBytes {
			return problem("is full of whole numbers with a fraction or an exponent: write them like 1, not like 1.0")
		}
		body = slices.Concat(body[:begin], []byte(whole), body[wrong.Offset:])
		reflect.ValueOf(into).Elem().SetZero()
	}
}

// integer writes a number that is whole without fraction and exponent.
func integer(number string) (string, bool) {
	const longest = 30 // longer ones fit no integer, and 1e999999999 is expensive
	if _, exponent, found := strings.Cut(strings.ToLower(number), "e"); found {
		if n, err := strconv.Atoi(exponent); err != nil || n > longest || n < -longest {
			return "", false
		}
	}
	r, ok := new(big.Rat).SetString(number)
	if len(number) > longest || !ok || !r.IsInt() {
		return "", false
	}
	return r.Num().String(), true
}

// explainJSON puts what the decoder says into words for the sender.
func explainJSON(err error) error {
	if said, ok := errors.AsType[problem](err); ok {
		return said
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := wrong.Field
		if field == "" {
			field = "the body"
		}
		return problem(fmt.Sprintf("%s must be %s", field, kindOf(wrong.Type, strings.HasPrefix(wrong.Value, "number"))))
	}
	if wrong, ok := errors.AsType[*json.SyntaxError](err); ok {
		return problem(fmt.Sprintf("is not JSON: it goes wrong at byte %d", wrong.Offset))
	}
	if err != nil {
		return problem("is not JSON of the expected form")
	}
	return nil
}

// kindOf says what fits into a type; a number that does not is too large.
func kindOf(t reflect.Type, number bool) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int, reflect.Int64:
		if number {
			return fmt.Sprintf("a whole number of at most %d bits", t.Bits())
		}
		return "a whole number"
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint, reflect.Uint64:
		return "a whole number from 0"
	}
	return "of another type"
}

// misspelled finds a member that is nearly one that is known and absent.
func misspelled(body []byte, t reflect.Type, path string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if p := reflect.PointerTo(t); p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return nil // it has a form of its own
	}
	switch t.Kind() {
	case reflect.Slice:
		var items []json.RawMessage
		if !nested(t.Elem()) {
			return nil
		}
		if err := json.Unmarshal(body, &items); err != nil {
			return explainJSON(err)
		}
		for i, item := range items {
			if err := misspelled(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		var members map[string]json.RawMessage
		if err := json.Unmarshal(body, &members); err != nil {
			return explainJSON(err)
		}
		return misspelledMember(members, t, path)
	}
	return nil
}

// nested reports whether values of a type can hold members.
func nested(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct
}

func misspelledMember(members map[string]json.RawMessage, t reflect.Type, path string) error {
	known := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); f.IsExported() && name != "" && name != "-" {
			known[name] = f.Type
		}
	}
	var unknown []string
	for name, member := range members {
		matches := false
		for k, of := range known {
			if !strings.EqualFold(k, name) {
				continue
			}
			if err := misspelled(member, of, strings.TrimPrefix(path+"."+k, ".")); err != nil {
				return err
			}
			matches = true
			delete(known, k)
		}
		if !matches {
			unknown = append(unknown, name)
		}
	}
	absent := make([]string, 0, len(known))
	for name := range known {
		absent = append(absent, name)
	}
	slices.Sort(absent)
	slices.Sort(unknown)
	for _, name := range unknown {
		if meant := jsonschema.Nearly(name, absent); meant != "" {
			return problem(strings.TrimPrefix(fmt.Sprintf("%s.%.64s is not known; did you mean %s?", path, name, meant), "."))
		}
	}
	return nil
}
