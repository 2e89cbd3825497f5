package stub

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/schema/jsontree"
	"github.com/portico-run/portico/modules/sandbox"
)

// Tool is what is known about a tool. Schema is a JSON Schema of an object, or
// nothing.
type Tool struct {
	Name        string
	Toolset     string // empty for a tool of the caller
	Description string
	Schema      json.RawMessage
	// Returns is the type of the result; empty to leave it out of the docstring.
	Returns string
	// Plain leaves FileTitle out and keeps defaults.
	Plain bool
}

// FileTitle is the parameter that names the file a result becomes. Functions
// take it by keyword only and have a default for it.
const FileTitle = "file_name_title"

// schema is what a signature needs of a JSON Schema. Anything else in it, and
// a schema of an unexpected form, means that all arguments are taken.
type schema struct {
	Properties           ordered         `json:"properties"`
	Required             []string        `json:"required"`
	AdditionalProperties json.RawMessage `json:"additionalProperties"`
}

type property struct {
	Type        json.RawMessage `json:"type"`
	Description string          `json:"description"`
	Enum        []any           `json:"enum"`
	Default     json.RawMessage `json:"default"`

	null nullness
}

// nullness is what a schema says about null.
type nullness struct {
	Type     json.RawMessage    `json:"type"`
	Enum     *[]json.RawMessage `json:"enum"`
	Const    json.RawMessage    `json:"const"`
	Nullable bool               `json:"nullable"`
	AnyOf    []nullness         `json:"anyOf"`
	OneOf    []nullness         `json:"oneOf"`
	AllOf    []nullness         `json:"allOf"`
	Ref      string             `json:"$ref"`
}

// allowed reports whether null is a value. What a reference stands for is not
// looked up: the service checks what arrives.
func (n nullness) allowed() bool {
	isNull := func(raw json.RawMessage) bool { return string(raw) == "null" }
	some := func(list []nullness) bool { return len(list) == 0 || slices.ContainsFunc(list, nullness.allowed) }
	switch {
	case n.Nullable:
		return true
	case n.Enum != nil && !slices.ContainsFunc(*n.Enum, isNull):
		return false
	case n.Const != nil && !isNull(n.Const):
		return false
	case len(n.Type) > 0 && !strings.Contains(string(n.Type), `"null"`):
		return false
	}
	return some(n.AnyOf) && some(n.OneOf) && !slices.ContainsFunc(n.AllOf, func(m nullness) bool { return !m.allowed() })
}

// ordered keeps properties in the order they were written, which is that of
// positional arguments.
type ordered []namedProperty

type namedProperty struct {
	name string
	property
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *ordered) UnmarshalJSON(text []byte) error {
	members, err := jsontree.Members(text)
	if err != nil {
		return nil //nolint:nilerr // null, or no object: no properties are known
	}
	for _, m := range members {
		p := namedProperty{name: m.Name}
		_ = json.Unmarshal(m.Value, &p.property) // what does not fit is not described
		if json.Unmarshal(m.Value, &p.null) != nil {
			p.null = nullness{Type: json.RawMessage(`"unknown"`)}
		}
		*o = append(*o, p)
	}
	return nil
}

// New is the function for a tool. Its identifier is empty when its name leaves
// none.
func New(l sandbox.Language, t Tool) sandbox.Stub {
	s := sandbox.Stub{Identifier: Name(l, t.Name), Name: t.Name, Toolset: t.Toolset, Parameters: []sandbox.Parameter{}}
	var known schema
	if len(t.Schema) > 0 && json.Unmarshal(t.Schema, &known) != nil {
		known = schema{}
	}
	more := string(known.AdditionalProperties)
	s.Open = len(known.Properties) == 0 || (more != "" && more != "false" && more != "null")
	switch {
	case t.Plain:
		known.dropFileTitle()
	case t.Toolset != "":
		known.defaultFileTitle()
	}
	for _, required := range []bool{true, false} {
		for _, p := range known.Properties {
			if slices.Contains(known.Required, p.name) == required {
				made := sandbox.Parameter{Name: p.name, Required: required, Nullable: required && p.null.allowed()}
				if t.Plain && !required {
					made.Default = p.Default
				}
				s.Parameters = append(s.Parameters, made)
			}
		}
	}
	s.Doc = doc(t, known)
	return s
}

// dropFileTitle takes the name of a file away.
func (s *schema) dropFileTitle() {
	s.Properties = slices.DeleteFunc(slices.Clone(s.Properties), func(p namedProperty) bool { return p.name == FileTitle })
	s.Required = slices.DeleteFunc(slices.Clone(s.Required), func(name string) bool { return name == FileTitle })
}

// defaultFileTitle makes the name of a file the last parameter, and one that a
// call need not give: functions of toolsets make it themselves.
func (s *schema) defaultFileTitle() {
	is := func(p namedProperty) bool { return p.name == FileTitle }
	if i := slices.IndexFunc(s.Properties, is); i >= 0 {
		s.Properties = append(slices.DeleteFunc(slices.Clone(s.Properties), is), s.Properties[i])
	}
	s.Required = slices.DeleteFunc(slices.Clone(s.Required), func(name string) bool { return name == FileTitle })
}

// doc is the docstring: what the tool does, its parameters and its result.
func doc(t Tool, known schema) string {
	var parts []string
	if text := strings.TrimSpace(t.Description); text != "" {
		parts = append(parts, text)
	}
	if len(known.Properties) > 0 {
		parts = append(parts, parameters(known))
	}
	if t.Returns != "" {
		parts = append(parts, "Returns "+t.Returns+". Raises ToolExecutionError when the call fails.")
	}
	return strings.Join(parts, "\n\n")
}

func parameters(known schema) string {
	var b strings.Builder
	b.WriteString("Parameters:")
	for _, p := range known.Properties {
		fmt.Fprintf(&b, "\n    %s (%s%s)", p.name, p.kind(), optional(slices.Contains(known.Required, p.name)))
		if text := strings.Join(strings.Fields(p.Description), " "); text != "" {
			b.WriteString(": " + text)
		}
	}
	return b.String()
}

func optional(required bool) string {
	if required {
		return ""
	}
	return ", optional"
}

func (p property) kind() string {
	if len(p.Enum) > 0 {
		values := make([]string, len(p.Enum))
		for i, v := range p.Enum {
			text, _ := json.Marshal(v) // it came from JSON
			values[i] = string(text)
		}
		return "one of " + strings.Join(values, ", ")
	}
	var one string
	if json.Unmarshal(p.Type, &one) == nil && one != "" {
		return one
	}
	var several []string
	if json.Unmarshal(p.Type, &several) == nil && len(several) > 0 {
		return strings.Join(several, " or ")
	}
	return "any"
}
