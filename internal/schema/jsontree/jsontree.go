// Package jsontree holds JSON with the members of objects in the order they
// were written: in a schema, that order tells a reader what matters.
package jsontree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxDepth bounds the nesting of a text, which may be anybody's.
const maxDepth = 200

// Object is a JSON object. Values are *Object, []any, string, json.Number, bool
// and nil.
type Object struct {
	names  []string
	values map[string]any
}

// NewObject returns an empty object.
func NewObject() *Object { return &Object{values: map[string]any{}} }

// Get returns a member, nil if there is none.
func (o *Object) Get(name string) any { return o.values[name] }

// Has reports whether there is a member of that name, which may be null.
func (o *Object) Has(name string) bool {
	_, ok := o.values[name]
	return ok
}

// None reports whether a list holds only objects, and none of them has a member
// of these names.
func None(list []any, names ...string) bool {
	return !slices.ContainsFunc(list, func(v any) bool {
		o, ok := v.(*Object)
		return !ok || slices.ContainsFunc(names, o.Has)
	})
}

// Set adds a member at the end, or replaces one at its place.
func (o *Object) Set(name string, value any) {
	if !o.Has(name) {
		o.names = append(o.names, name)
	}
	o.values[name] = value
}

// Delete removes a member.
func (o *Object) Delete(name string) {
	if o.Has(name) {
		delete(o.values, name)
		o.names = slices.DeleteFunc(o.names, func(n string) bool { return n == name })
	}
}

// Names lists the members in order.
func (o *Object) Names() []string { return o.names }

// Len is the number of members.
func (o *Object) Len() int { return len(o.names) }

// Object returns a member that is an object, or nil.
func (o *Object) Object(name string) *Object {
	v, _ := o.values[name].(*Object)
	return v
}

// String returns a member that is a text, or the empty text.
func (o *Object) String(name string) string {
	v, _ := o.values[name].(string)
	return v
}

// List returns a member that is an array, or nil.
func (o *Object) List(name string) []any {
	v, _ := o.values[name].([]any)
	return v
}

// Pointer follows a JSON Pointer in the form of a fragment, "#/a/b", from o. It
// returns nil for what is in another document, or not there.
func (o *Object) Pointer(ref string) any {
	pointer, local := strings.CutPrefix(ref, "#")
	if !local {
		return nil
	}
	var at any = o
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if step == "" {
			continue
		}
		parent, ok := at.(*Object)
		if !ok {
			return nil
		}
		at = parent.Get(strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~"))
	}
	return at
}

// MarshalJSON implements json.Marshaler.
func (o *Object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, name := range o.names {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := Encode(name)
		if err != nil {
			return nil, err
		}
		value, err := Encode(o.values[name])
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Encode writes a value on one line and leaves <, > and & readable.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Parse reads one value and refuses what follows it. Of members that come
// twice the last counts.
func Parse(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := parse(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one value")
	}
	return v, nil
}

func parse(d *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		o := NewObject()
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := parse(d, depth+1)
			if err != nil {
				return nil, err
			}
			o.Set(name.(string), v) //nolint:forcetypeassert // the decoder gives no other names
		}
		_, err = d.Token()
		return o, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := parse(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, err
	}
	return t, nil
}
