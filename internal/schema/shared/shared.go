// Package shared keeps JSON Schemas that several others refer to, so that each
// is stored once, and writes them where they are referred to.
package shared

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Prefix begins a reference: #/schemas/NAME is a shared schema, and
// #/schemas/NAME/properties/PROPERTY the schema of one of its properties. In
// place of the schema of a property, the text #/schemas/NAME is short for the
// reference to the property of the same name.
const Prefix = "#/schemas/"

// MaxSize bounds a schema that is written out, in bytes.
const MaxSize = 1 << 20

// maxDepth bounds how deep schemas are nested in what is written out.
const maxDepth = 20

// ErrTooLarge is returned for a schema that is larger than MaxSize when what it
// refers to stands in its place.
var ErrTooLarge = fmt.Errorf("larger than %d bytes with the schemas that it refers to", MaxSize)

// Schemas are shared schemas by name. NAME!2 is a variant of NAME and counts as
// NAME where one schema is within another.
type Schemas map[string]json.RawMessage

// Expand appends a schema to buffer, with the shared schemas in place of the
// references to them. Members beside a reference replace those of the shared
// schema. Any value is allowed where a schema refers to one that it is in, and
// below 20 schemas within each other. Nothing is expanded that the schema does
// not reach.
func (s Schemas) Expand(buffer []byte, schema json.RawMessage) (json.RawMessage, error) {
	e := expander{schemas: s, out: buffer, start: len(buffer)}
	err := e.root(schema)
	return e.out, err
}

// References returns a schema with {} in place of each of its references, and
// what these refer to.
func References(schema json.RawMessage) (without json.RawMessage, refs []string, err error) {
	e := expander{collect: true}
	err = e.root(schema)
	return e.out, e.refs, err
}

// IsReference reports whether a schema is a reference, with members beside it
// perhaps.
func IsReference(schema json.RawMessage) bool {
	members, err := membersOf(bytes.TrimSpace(schema))
	if err != nil {
		return false
	}
	_, is := reference(members)
	return is
}

// Find returns what a reference refers to.
func (s Schemas) Find(ref string) (json.RawMessage, error) {
	e := expander{schemas: s}
	return e.find(ref)
}

// To is the reference to a shared schema.
func To(name string) string { return Prefix + name }

// ToProperty is the reference to a property of a shared schema.
func ToProperty(name, property string) string {
	return Prefix + name + "/properties/" + strings.ReplaceAll(strings.ReplaceAll(property, "~", "~0"), "/", "~1")
}

func unescape(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
}

// baseOf is the name that counts where one schema is within another.
func baseOf(ref string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(ref, Prefix), "/")
	base, _, _ := strings.Cut(name, "!")
	return base
}

// expander writes one schema.
type expander struct {
	schemas Schemas
	out     []byte
	start   int
	// within are the schemas that are being written, outermost first: the name of
	// a shared one, or the empty text.
	within []string
	spans  []span

	// properties are those of shared schemas that were looked for, by their names.
	properties map[string][]span

	collect bool
	refs    []string
}

// find is what a reference refers to. Requests refer to many properties of one
// schema.
func (e *expander) find(ref string) (json.RawMessage, error) {
	name, property, isProperty := strings.Cut(strings.TrimPrefix(ref, Prefix), "/properties/")
	schema, ok := e.schemas[name]
	if ok && isProperty {
		members, known := e.properties[name]
		if !known {
			all, _ := memberOf(schema, "properties")
			members, _ = membersOf(all)
			if e.properties == nil {
				e.properties = map[string][]span{}
			}
			e.properties[name] = members
		}
		schema, ok = value(members, unescape(property))
	}
	if !ok {
		return nil, fmt.Errorf("%s refers to no schema", ref)
	}
	return schema, nil
}

// root writes the outermost schema, which does not count as one level.
func (e *expander) root(text []byte) error {
	text = bytes.TrimSpace(text)
	if whole(text) {
		e.out = append(e.out, text...)
		return e.full()
	}
	members, err := e.members(text)
	if err != nil {
		return err
	}
	if _, ok := reference(members); ok {
		return e.schema(text)
	}
	return e.object(members)
}

// whole reports whether a text is no object, or holds no reference.
func whole(text []byte) bool {
	return len(text) == 0 || text[0] != '{' || !bytes.Contains(text, []byte(Prefix))
}

func (e *expander) full() error {
	if len(e.out)-e.start > MaxSize {
		return ErrTooLarge
	}
	return nil
}

// schema writes a schema that is within another one.
func (e *expander) schema(text []byte) error {
	if len(text) == 0 || text[0] != '{' { // true or false
		e.out = append(e.out, text...)
		return e.full()
	}
	if whole(text) && (!e.inShared() || len(e.within)+nesting(text) <= maxDepth) {
		e.out = append(e.out, text...)
		return e.full()
	}
	members, err := e.members(text)
	if err != nil {
		return err
	}
	ref, isRef := reference(members)
	switch {
	case isRef:
		return e.refer(ref, others(members))
	case e.inShared() && len(e.within) > maxDepth:
		e.out = append(e.out, "{}"...)
		return e.full()
	}
	e.within = append(e.within, "")
	err = e.object(members)
	e.within = e.within[:len(e.within)-1]
	return err
}

// inShared reports whether what is being written is part of a shared schema.
func (e *expander) inShared() bool {
	return slices.ContainsFunc(e.within, func(name string) bool { return name != "" })
}

// refer writes what a reference refers to, with the members beside it.
func (e *expander) refer(ref string, beside []span) error {
	if e.collect {
		e.refs = append(e.refs, ref)
		return e.object(beside)
	}
	name := baseOf(ref)
	if len(e.within) > maxDepth || slices.Contains(e.within, name) {
		return e.object(beside)
	}
	text, err := e.find(ref)
	if err != nil {
		return err
	}
	e.within = append(e.within, name)
	defer func() { e.within = e.within[:len(e.within)-1] }()
	if strings.Contains(ref, "/properties/") { // the property is a level of its own
		return e.beside(text, beside, e.schema)
	}
	return e.beside(text, beside, e.content)
}

// content writes a shared schema, whose level is that of the reference to it.
func (e *expander) content(text []byte) error {
	if len(text) == 0 || text[0] != '{' {
		return e.schema(text)
	}
	members, err := e.members(text)
	if err != nil {
		return err
	}
	if ref, ok := reference(members); ok {
		return e.refer(ref, others(members))
	}
	return e.object(members)
}

// others are the members beside a reference.
func others(members []span) []span {
	return slices.DeleteFunc(members, func(m span) bool { return string(m.name) == `"$ref"` })
}

// beside writes a schema and puts members into it, sorted by their names as
// those of shared schemas are.
func (e *expander) beside(text []byte, more []span, write func(text []byte) error) error {
	start := len(e.out)
	if err := write(text); err != nil || len(more) == 0 {
		return err
	}
	members, err := membersOf(slices.Clone(e.out[start:]))
	if err != nil {
		return err
	}
	for _, m := range more {
		i := slices.IndexFunc(members, func(had span) bool { return bytes.Compare(had.name, m.name) >= 0 })
		switch {
		case i < 0:
			members = append(members, m)
		case bytes.Equal(members[i].name, m.name):
			members[i] = m
		default:
			members = slices.Insert(members, i, m)
		}
	}
	e.out = append(e.out[:start], '{')
	for i, m := range members {
		e.name(i, m)
		e.out = append(e.out, m.value...)
	}
	e.out = append(e.out, '}')
	return e.full()
}

func (e *expander) name(i int, m span) {
	if i > 0 {
		e.out = append(e.out, ',')
	}
	e.out = append(append(e.out, m.name...), ':')
}

// object writes the members of a schema, and the schemas that are in them.
func (e *expander) object(members []span) error {
	e.out = append(e.out, '{')
	for i, m := range members {
		e.name(i, m)
		var err error
		switch holds(m.name) {
		case one:
			err = e.oneOrList(m.value)
		case named:
			err = e.named(m.value)
		default:
			e.out = append(e.out, m.value...)
		}
		if err != nil {
			return err
		}
	}
	e.out = append(e.out, '}')
	return e.full()
}

func (e *expander) oneOrList(value []byte) error {
	if len(value) == 0 || value[0] != '[' {
		return e.schema(value)
	}
	items, err := e.items(value)
	if err != nil {
		return err
	}
	e.out = append(e.out, '[')
	for i, item := range items {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		if err := e.schema(item.value); err != nil {
			return err
		}
	}
	e.out = append(e.out, ']')
	return nil
}

func (e *expander) named(value []byte) error {
	members, err := e.members(value)
	if err != nil {
		return err
	}
	e.out = append(e.out, '{')
	for i, m := range members {
		e.name(i, m)
		if err := e.property(m); err != nil {
			return err
		}
	}
	e.out = append(e.out, '}')
	return nil
}

// property writes the schema of a property.
func (e *expander) property(m span) error {
	if !bytes.HasPrefix(m.value, []byte(`"`+Prefix)) {
		return e.schema(m.value)
	}
	of, err := text(m.value)
	if err != nil {
		return err
	}
	name, err := text(m.name)
	if err != nil {
		return err
	}
	return e.refer(ToProperty(strings.TrimPrefix(of, Prefix), name), nil)
}

// What a keyword holds: any value, schemas, or schemas by name.
const (
	one = iota + 1
	named
)

var errForm = errors.New("not a JSON object")
