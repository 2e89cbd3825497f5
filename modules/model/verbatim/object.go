// Package verbatim writes JSON whose parts stay as they were, byte for byte: what a
// provider wrote goes back to it unchanged, whether or not it is known here.
package verbatim

import (
	"bytes"
	"encoding/json"
)

// Object writes an object of members that are encoded already, in the order in which
// they are added, byte for byte: an encoder would take the space out of them.
type Object struct{ text bytes.Buffer }

// Add adds a member.
func (o *Object) Add(name string, value []byte) {
	if o.text.Len() == 0 {
		o.text.WriteByte('{')
	} else {
		o.text.WriteByte(',')
	}
	o.text.WriteByte('"')
	o.text.WriteString(name)
	o.text.WriteString(`":`)
	o.text.Write(value)
}

// Inside adds the members of an object that is encoded without space around it, to one
// that has members already.
func (o *Object) Inside(members []byte) {
	o.text.WriteByte(',')
	o.text.Write(members[1 : len(members)-1])
}

// End returns the whole object.
func (o *Object) End() []byte {
	if o.text.Len() == 0 {
		return []byte("{}")
	}
	o.text.WriteByte('}')
	return o.text.Bytes()
}

// List writes values that are encoded already as an array.
func List(values []json.RawMessage) []byte {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, v := range values {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(v)
	}
	b.WriteByte(']')
	return b.Bytes()
}

// Encode writes JSON as it is, without the escapes for pages.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}
