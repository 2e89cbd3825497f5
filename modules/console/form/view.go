package form

import (
	_ "embed"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Template defines "form", which shows a View: the problems with links to their
// fields, and the fields. The page has the form element, the button, and
// novalidate, so that the server alone says what is wrong.
//
//go:embed form.html
var Template string

// View is a form as it is shown.
type View struct {
	Fields   []Field
	Problems []Link
}

// Link is a problem in the list above the fields; ID is empty if it concerns no
// field alone.
type Link struct{ ID, Label, Message string }

// Field is one field as it is shown.
type Field struct {
	ID, Name, Kind     string
	Label, Description string
	Hint               string // rules in words
	Value              string
	Rows               int // of a text
	Nothing            string
	Options            []Option
	Required           bool
	Problem            string
	EmptyName          string // of the box that sends it empty; empty for none
	Empty              bool
	Fields             []Field
}

// Option is one choice.
type Option struct {
	ID, Value, Label string
	Chosen           bool
}

// Describes are the elements that describe the input, for aria-describedby.
func (f Field) Describes() string {
	var ids []string
	if f.Problem != "" {
		ids = append(ids, f.ID+"-problem")
	}
	if f.Description != "" || f.Hint != "" {
		ids = append(ids, f.ID+"-hint")
	}
	return strings.Join(ids, " ")
}

// View shows the form with what its inputs hold. The prefix keeps ids of several
// forms of a page apart. Secrets are left out.
func (f *Form) View(prefix string, values url.Values, problems []Problem) View {
	s := &shower{prefix: prefix, values: values, problems: map[*node][]string{}}
	var general []Link
	for _, p := range problems {
		if n := f.at(p.Path); n != nil {
			s.problems[n] = append(s.problems[n], p.text(n))
		} else {
			general = append(general, Link{Message: Problem{p.Path, p.Message}.text(&node{})})
		}
	}
	var v View
	if values.Has(inJSON) {
		whole := s.json(f.root, inJSON)
		whole.Label, whole.Rows = f.root.label+" as a JSON object", 12
		v.Fields = []Field{whole}
	} else {
		v.Fields = s.group(f.root)
	}
	v.Problems = append(general, links(v.Fields)...)
	return v
}

// Under is the view with names of inputs that begin with a prefix, so that several
// forms can be posted together.
func (v View) Under(prefix string) View {
	v.Fields = under(prefix, v.Fields)
	return v
}

func under(prefix string, fields []Field) []Field {
	named := slices.Clone(fields)
	for i := range named {
		named[i].Name = prefix + ":" + named[i].Name
		if named[i].EmptyName != "" {
			named[i].EmptyName = prefix + ":" + named[i].EmptyName
		}
		named[i].Fields = under(prefix, named[i].Fields)
	}
	return named
}

// Under takes what was posted of the form that View.Under named.
func Under(prefix string, posted url.Values) url.Values {
	values := url.Values{}
	for name, texts := range posted {
		if inner, ok := strings.CutPrefix(name, prefix+":"); ok {
			values[inner] = texts
		}
	}
	return values
}

// text is a problem as it is said at a field, which may be a group, or JSON, of
// which only a part is wrong.
func (p Problem) text(n *node) string {
	if inner := strings.TrimPrefix(strings.TrimPrefix(p.Path, n.path), "."); inner != "" && p.Path != n.path {
		return inner + " " + p.Message
	}
	return p.Message
}

// at finds the innermost field that a problem concerns.
func (f *Form) at(path string) *node {
	var found *node
	f.root.walk(func(n *node) {
		if n == f.root {
			return
		}
		rest, under := strings.CutPrefix(path, n.path)
		if under && (rest == "" || rest[0] == '.' || rest[0] == '[') && (found == nil || len(n.path) > len(found.path)) {
			found = n
		}
	})
	if found == nil && f.root.rest {
		return f.root
	}
	return found
}

// links are the problems of fields, in their order.
func links(fields []Field) []Link {
	var list []Link
	for _, f := range fields {
		if f.Problem != "" {
			list = append(list, Link{f.ID, f.Label, f.Problem})
		}
		list = append(list, links(f.Fields)...)
	}
	return list
}

// shower makes fields with what they hold.
type shower struct {
	prefix   string
	values   url.Values
	problems map[*node][]string
	count    int
}

// id numbers the fields: names may hold any character.
func (s *shower) id() string {
	s.count++
	return fmt.Sprintf("%s-%d", s.prefix, s.count)
}

// group are the fields in an object.
func (s *shower) group(n *node) []Field {
	fields := []Field{}
	for _, m := range n.members {
		fields = append(fields, s.field(m))
	}
	if n.rest || s.values.Get(n.input(inRest)) != "" {
		rest := s.json(n, inRest)
		rest.Label, rest.Required, rest.Description = "Further members", false, ""
		if len(fields) == 0 {
			rest.Label = "As a JSON object"
		}
		rest.Hint = `a JSON object, such as {"name": "value"}`
		fields = append(fields, rest)
	}
	return fields
}

// json is the field of a place that is written as JSON.
func (s *shower) json(n *node, prefix string) Field {
	value := s.values.Get(n.input(prefix))
	return Field{
		ID: s.id(), Name: n.input(prefix), Kind: kindJSON, Label: n.label, Description: n.description, Required: n.required,
		Hint: `JSON, such as "text", 12, ["a", "b"] or {"name": true}`, Value: value, Rows: rows(value, 2),
		Nothing: n.nothing, Problem: strings.Join(s.problems[n], "; "),
	}
}

func (s *shower) field(n *node) Field {
	if s.values.Has(n.input(inJSON)) && n.kind != kindJSON && n.kind != kindSecret {
		return s.json(n, inJSON)
	}
	f := Field{
		ID: s.id(), Name: n.input(inField), Kind: n.kind, Label: n.label, Description: n.description, Required: n.required,
		Hint: hint(n), Nothing: n.nothing, Value: s.values.Get(n.input(inField)), Problem: strings.Join(s.problems[n], "; "),
	}
	for _, o := range n.options {
		f.Options = append(f.Options, Option{
			ID: fmt.Sprintf("%s-%d", f.ID, len(f.Options)+1), Value: o.json, Label: o.label,
			Chosen: slices.Contains(s.values[n.input(inField)], o.json),
		})
	}
	if n.empty && (n.kind != kindObject || !n.required) {
		f.EmptyName = n.input(inEmpty)
	}
	switch n.kind {
	case kindObject:
		f.Fields = s.group(n)
		if n.rest || s.values.Get(n.input(inRest)) != "" {
			f.Problem = "" // it is said at the further members
		}
	case kindSecret:
		f.Value = ""
	case kindDate:
		if _, err := time.Parse(time.DateOnly, f.Value); err != nil && f.Value != "" {
			f.Kind = kindLine // a date field would not show it
		}
	}
	f.Rows = rows(f.Value, 1)
	f.Empty = f.EmptyName != "" && s.values.Has(f.EmptyName)
	return f
}

// hint is what may be typed, in one line.
func hint(n *node) string {
	said := slices.DeleteFunc(slices.Clone(n.hints), func(s string) bool { return s == "" })
	if n.nothing != "" && n.kind != kindChoice && n.kind != kindBoolean {
		said = append(said, n.nothing)
	}
	return strings.Join(said, "; ")
}

// rows is how high a text is shown at first.
func rows(text string, least int) int {
	const most = 16
	return min(max(strings.Count(text, "\n")+1, least), most)
}
