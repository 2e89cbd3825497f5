package python

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/portico-run/portico/sdkgen/python/schema"
)

// maxNesting bounds how deep nested objects are listed in the documentation,
// the parameter itself counted.
const maxNesting = 4

// noValue is how the runtime names "this argument was not given". It is needed
// only where None is a value of its own.
const noValue = "NOT_GIVEN"

// field describes one parameter, or one member of an object inside one.
type field struct {
	wire string // name on the wire
	// python is the name of the parameter. Below the top level it is the wire
	// name, after "[]" or "{}" for each list or map on the way.
	python   string
	typ      schema.Type
	required bool
	// literal is the Python default, empty when there is none.
	literal  string
	fallback string // the default as compact JSON, empty when there is none
	notes    string // limits and format as one phrase, may be empty
	text     string // description as one line
	children []field
	// alternative is "either" or "or" for what is no member itself: its children
	// are the members of one of several objects.
	alternative string
}

// fieldsOf lists the members of an object schema with their nested members.
// The trail is the references that led here: one that comes again is not
// followed, so a recursive schema is listed once.
func fieldsOf(s *schema.Schema, trail []string) (list []field, open bool) {
	props, open := s.Properties()
	for _, p := range props {
		list = append(list, newField(p, trail))
	}
	return list, open
}

func newField(p schema.Property, trail []string) field {
	f := field{wire: p.Name, python: p.Name, required: p.Required, typ: schema.TypeOf(p.Node)}
	for _, variant := range p.Also {
		f.typ.Union(schema.TypeOf(variant))
	}
	f.text = oneLine(p.Node.Text("description"))
	target := p.Node.Resolve()
	if target == nil {
		return f
	}
	if f.text == "" {
		f.text = oneLine(target.Text("description"))
	}
	if def, ok := defaultOf(p.Node, target); ok {
		literal, name := schema.Literal(def)
		if literal != "" && f.typ.Accepts(literal, name) {
			f.literal = literal
		}
		if name != "None" {
			f.fallback = compactJSON(def)
		}
	}
	f.notes = notesOf(target)
	f.children = childrenOf(p.Node, trail, "")
	return f
}

// defaultOf reads the default; one written beside a reference wins.
func defaultOf(node, target *schema.Schema) (json.RawMessage, bool) {
	for _, s := range []*schema.Schema{node, target} {
		if raw := s.Keyword("default"); raw != nil {
			return raw, true
		}
	}
	return nil, false
}

// childrenOf lists the members of an object, or of the objects in a list ("[]")
// or a map ("{}") of them.
func childrenOf(s *schema.Schema, trail []string, path string) []field {
	ref := s.Text("$ref")
	if ref != "" && slices.Contains(trail, ref) || len(trail) >= maxNesting {
		return nil
	}
	target := s.Resolve()
	if target == nil {
		return nil
	}
	trail = append(slices.Clone(trail), ref)
	if list := alternativesOf(target, trail, path); len(list) > 0 {
		return list
	}
	if list := membersOf(target, trail, path); len(list) > 0 {
		return list
	}
	trail = trail[:len(trail)-1]
	if len(path) > 2*maxNesting {
		return nil
	}
	for _, c := range []struct{ keyword, mark string }{{"items", "[]"}, {"additionalProperties", "{}"}} {
		if values := target.Node(c.keyword); values != nil {
			return childrenOf(values, trail, path+c.mark)
		}
	}
	return nil
}

// membersOf lists the members of an object that is below path.
func membersOf(s *schema.Schema, trail []string, path string) []field {
	list, _ := fieldsOf(s, trail)
	for i := range list {
		if path != "" {
			list[i].python = path + "." + list[i].wire
		}
	}
	return list
}

// alternativesOf lists the members of each object that s may be, where there
// are several with other members: together they would describe none of them.
func alternativesOf(s *schema.Schema, trail []string, path string) (list []field) {
	if s.Keyword("properties") != nil {
		return nil
	}
	differ := false
	for _, keyword := range []string{"anyOf", "oneOf"} {
		for _, variant := range s.List(keyword) {
			children := membersOf(variant, trail, path)
			if len(children) == 0 {
				continue
			}
			word := "or"
			if len(list) == 0 {
				word = "either"
			} else if !slices.EqualFunc(children, list[0].children, func(a, b field) bool { return a.wire == b.wire && a.required == b.required }) {
				differ = true
			}
			list = append(list, field{alternative: word, children: children})
		}
	}
	if !differ {
		return nil
	}
	return list
}

// notesOf is what a caller should know beyond the type, as one phrase.
func notesOf(s *schema.Schema) string {
	var notes []string
	if format := oneLine(s.Text("format")); format != "" {
		notes = append(notes, format)
	}
	low, high := limit(s, "minimum"), limit(s, "maximum")
	switch {
	case low != "" && high != "":
		notes = append(notes, low+" to "+high)
	case low != "":
		notes = append(notes, "at least "+low)
	case high != "":
		notes = append(notes, "at most "+high)
	}
	for _, l := range []struct{ keyword, phrase string }{
		{"minLength", "min length %s"},
		{"maxLength", "max length %s"},
		{"minItems", "min items %s"},
		{"maxItems", "max items %s"},
	} {
		if n := limit(s, l.keyword); n != "" {
			notes = append(notes, fmt.Sprintf(l.phrase, n))
		}
	}
	if pattern := s.Text("pattern"); pattern != "" && s.Text("format") == "" {
		notes = append(notes, "matches "+oneLine(pattern))
	}
	return strings.Join(notes, ", ")
}

// limit returns a numeric keyword as it is written, or "".
func limit(s *schema.Schema, keyword string) string {
	var n json.Number
	raw := bytes.TrimSpace(s.Keyword(keyword))
	if len(raw) == 0 || raw[0] == '"' || json.Unmarshal(raw, &n) != nil {
		return ""
	}
	return n.String()
}

func compactJSON(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return ""
	}
	return oneLine(b.String())
}

// optional reports whether a call may leave the parameter out. A required one
// with a default in the signature may: the default is sent.
func (f field) optional() bool { return !f.required || f.literal != "" }

// signature is the parameter as Python declares it.
//
// A parameter without a default of its own shows None where None is not a
// value, and NOT_GIVEN where it is; in both cases nothing is sent. So does one
// whose default is null: the server fills in the same.
func (f field) signature() string {
	typ := f.typ
	def := f.literal
	switch {
	case !f.optional():
		return f.python + ": " + typ.String()
	case def == "None":
		typ.Null = true
	case def == "" && typ.Null:
		def = noValue
	case def == "":
		def = "None"
		typ.Null = true
	}
	return f.python + ": " + typ.String() + " = " + def
}

// sendsNull reports whether None, given for the parameter, is sent as null. In
// every other case None means "not given".
func (f field) sendsNull() bool {
	return f.typ.Null && (f.required || f.literal != "None")
}
