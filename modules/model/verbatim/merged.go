package verbatim

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Merged is an object that comes in pieces. What is in it need not be known here:
// texts are joined, except those that name something; objects are merged; lists
// follow one another, or are merged by the index of their members; of other values
// the last one holds.
type Merged struct {
	names  []string // in the order in which they came
	values map[string]*value
}

// value is one member: a text, an object, a list, or anything else.
type value struct {
	text   *strings.Builder
	object *Merged
	list   []*value
	other  json.RawMessage
}

// Add takes a piece. Some providers repeat in each what names something.
func (m *Merged) Add(piece map[string]json.RawMessage) {
	for _, name := range slices.Sorted(maps.Keys(piece)) {
		v := m.values[name]
		if v == nil {
			v = &value{}
			m.put(name, v)
		}
		if v.text != nil && v.text.Len() > 0 && slices.Contains([]string{"id", "type", "role", "name", "format"}, name) {
			continue
		}
		v.add(piece[name])
	}
}

func (m *Merged) put(name string, v *value) {
	if m.values == nil {
		m.values = map[string]*value{}
	}
	if m.values[name] == nil {
		m.names = append(m.names, name)
	}
	m.values[name] = v
}

// Set sets a member.
func (m *Merged) Set(name string, raw json.RawMessage) { m.put(name, &value{other: raw}) }

// Text is that of a member; empty where it has none.
func (m *Merged) Text(name string) string {
	if v := m.values[name]; v != nil && v.text != nil {
		return v.text.String()
	}
	return ""
}

// List reports whether a member is a list.
func (m *Merged) List(name string) bool { return m.values[name] != nil && m.values[name].list != nil }

// Within is a member that is an object; an empty one where it is none.
func (m *Merged) Within(name string) *Merged {
	if v := m.values[name]; v != nil && v.object != nil {
		return v.object
	}
	return &Merged{}
}

// Raw is the whole object.
func (m *Merged) Raw() json.RawMessage {
	var o Object
	for _, name := range m.names {
		o.Add(name, m.values[name].raw())
	}
	return o.End()
}

func (v *value) add(piece json.RawMessage) {
	piece = bytes.TrimSpace(piece)
	switch {
	case len(piece) == 0, string(piece) == "null":
		if v.text == nil && v.object == nil && v.list == nil && v.other == nil {
			v.other = piece
		}
	case piece[0] == '"':
		var text string
		_ = json.Unmarshal(piece, &text) // it was read as a part of something already
		if v.text == nil {
			*v = value{text: &strings.Builder{}}
		}
		v.text.WriteString(text)
	case piece[0] == '{':
		var members map[string]json.RawMessage
		_ = json.Unmarshal(piece, &members) // as above
		if v.object == nil {
			*v = value{object: &Merged{}}
		}
		v.object.Add(members)
	case piece[0] == '[':
		var values []json.RawMessage
		_ = json.Unmarshal(piece, &values) // as above
		if v.list == nil {
			*v = value{list: []*value{}}
		}
		for _, one := range values {
			v.at(one).add(one)
		}
	default:
		*v = value{other: piece}
	}
}

// at is the member of a list that a piece belongs to: the one with its index, or a
// new one.
func (v *value) at(piece json.RawMessage) *value {
	var part struct {
		Index json.Number `json:"index"`
	}
	if json.Unmarshal(piece, &part) == nil && part.Index != "" {
		for _, one := range v.list {
			if one.object != nil && one.object.values["index"] != nil && string(one.object.values["index"].other) == part.Index.String() {
				return one
			}
		}
	}
	one := &value{}
	v.list = append(v.list, one)
	return one
}

func (v *value) raw() json.RawMessage {
	switch {
	case v.text != nil:
		text, _ := Encode(v.text.String()) // texts always marshal
		return text
	case v.object != nil:
		return v.object.Raw()
	case v.list != nil:
		values := make([]json.RawMessage, len(v.list))
		for i, one := range v.list {
			values[i] = one.raw()
		}
		return List(values)
	case len(v.other) == 0:
		return []byte("null")
	}
	return v.other
}
