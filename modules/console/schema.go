package console

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// schema is the part of a JSON Schema that the page shows.
type schema struct {
	Ref                  string `json:"$ref"`
	Type                 any    // a text or a list of texts
	Format, Description  string
	Pattern              string
	Enum                 []json.RawMessage
	Default              json.RawMessage
	Properties           map[string]schema
	Required             []string
	Items                *schema
	AdditionalProperties json.RawMessage
	OneOf, AnyOf         []schema
	MinLength, MaxLength *int
	MinItems, MaxItems   *int
	Minimum, Maximum     *float64
}

// field is a row of a table: a parameter, or a member of an object.
type field struct {
	Name, In    string
	Required    bool
	Type        typeText
	Limits      string
	Description string
	Example     string
}

// typeText is a type in words, with the schemas of the page that it names.
type typeText []word

// word is a text, or the name of a schema.
type word struct{ Text, Schema string }

// name is that of the schema which a reference means.
func (s schema) name() string { return s.Ref[strings.LastIndex(s.Ref, "/")+1:] }

func (s schema) text() typeText {
	if s.Ref != "" {
		return typeText{{Schema: s.name()}}
	}
	if either := append(slices.Clone(s.OneOf), s.AnyOf...); len(either) > 0 {
		var t typeText
		for i, one := range either {
			if i > 0 {
				t = append(t, word{Text: " or "})
			}
			t = append(t, one.text()...)
		}
		return t
	}
	name := "any JSON"
	switch kind := s.Type.(type) {
	case string:
		name = kind
	case []any: // the type and null
		name = strings.ReplaceAll(strings.Trim(fmt.Sprint(kind...), "[]"), "null", " or null")
	}
	if s.Items != nil {
		return append(typeText{{Text: "list of "}}, s.Items.text()...)
	}
	if s.Format != "" {
		name += " (" + s.Format + ")"
	}
	return typeText{{Text: name}}
}

// fields are the members of an object; those of objects that have no name of
// their own follow theirs.
func (s schema) fields(prefix string) []field {
	var list []field
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		list = append(list, field{
			Name: prefix + name, Required: slices.Contains(s.Required, name), Type: p.text(), Limits: p.limits(), Description: p.Description,
		})
		list = append(list, p.fields(prefix+name+".")...)
		if p.Items != nil {
			list = append(list, p.Items.fields(prefix+name+"[].")...)
		}
	}
	return list
}

// limits says what values may be.
func (s schema) limits() string {
	var said []string
	say := func(format string, value any) { said = append(said, fmt.Sprintf(format, value)) }
	if len(s.Enum) > 0 {
		values := make([]string, len(s.Enum))
		for i, v := range s.Enum {
			values[i] = line(v)
		}
		say("%s", strings.Join(values, ", "))
	}
	said = append(said, span(s.MinLength, s.MaxLength, "characters")...)
	said = append(said, span(s.MinItems, s.MaxItems, "items")...)
	if s.Minimum != nil {
		say("from %v", *s.Minimum)
	}
	if s.Maximum != nil {
		say("to %.0f", *s.Maximum)
	}
	if s.Pattern != "" {
		say("matches %s", s.Pattern)
	}
	if len(s.Default) > 0 {
		say("default %s", line(s.Default))
	}
	return strings.Join(said, "; ")
}

// span says how many of something there may be.
func span(least, most *int, of string) []string {
	switch {
	case least != nil && most != nil:
		return []string{fmt.Sprintf("%d to %d %s", *least, *most, of)}
	case most != nil:
		return []string{fmt.Sprintf("at most %d %s", *most, of)}
	case least != nil:
		return []string{fmt.Sprintf("%d or more %s", *least, of)}
	}
	return nil
}
