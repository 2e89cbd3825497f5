package python

import (
	"fmt"
	"slices"

	"github.com/portico-run/portico/sdkgen/definition"
	"github.com/portico-run/portico/sdkgen/python/schema"
)

// class is a toolset with every name and type decided: what the code and the
// documentation are both written from.
type class struct {
	entry       Toolset
	title       string
	description string
	methods     []method
}

// method is one tool.
type method struct {
	wire   string
	python string
	text   string
	fields []field // in signature order: required first, then schema order
	// title is the parameter that names the file a result becomes. It is the
	// last one, by keyword only, and has a default; nil for a tool without it.
	title *field
	// extra is the name of the ** parameter of a tool that accepts arguments
	// its schema does not name, or whose parameters have other names in Python
	// and are taken under their own as well; empty for the others.
	extra string
	// open says that the schema takes arguments it does not name.
	open    bool
	returns string // type of the result's data
}

// fileTitle is the tool's name for method.title.
const fileTitle = "file_name_title"

// renamed reports whether a parameter has another name in Python.
func (m method) renamed() bool {
	return slices.ContainsFunc(m.fields, func(f field) bool { return f.wire != f.python })
}

// newClass decides the names and types of a toolset. A tool whose schema is no
// JSON Schema is an error that names it.
func newClass(t definition.Toolset, entry Toolset) (class, error) {
	c := class{entry: entry, title: oneLine(t.Name), description: t.Description}
	if c.title == "" {
		c.title = t.Key
	}
	wires := make([]string, len(t.Tools))
	for i, tool := range t.Tools {
		wires[i] = tool.Name
	}
	names := nameSet(wires, func(s string) string { return Name(s, "tool") }, classScope()...)
	c.entry.Methods = names
	for _, tool := range t.Tools {
		m, err := newMethod(tool, names[tool.Name])
		if err != nil {
			return class{}, fmt.Errorf("toolset %q, tool %q: %w", t.Key, tool.Name, err)
		}
		c.methods = append(c.methods, m)
	}
	return c, nil
}

func newMethod(tool definition.Tool, name string) (method, error) {
	root, err := schema.Parse(tool.InputSchema)
	if err != nil {
		return method{}, err
	}
	m := method{wire: tool.Name, python: name, text: tool.Description, returns: returnsOf(tool.OutputSchema)}
	fields, open := fieldsOf(root, []string{"#"})
	wires := make([]string, len(fields))
	for i, f := range fields {
		wires[i] = f.wire
	}
	params := nameSet(wires, func(s string) string { return Name(s, "arg") }, paramScope()...)
	for i := range fields {
		fields[i].python = params[fields[i].wire]
	}
	for _, optional := range []bool{false, true} {
		for _, f := range fields {
			switch {
			case f.wire == fileTitle && f.typ.Accepts("", "str"):
				m.title = &f
			case f.optional() == optional:
				m.fields = append(m.fields, f)
			}
		}
	}
	m.open = open
	if open || m.renamed() {
		m.extra = freeName("extra", params)
	}
	return m, nil
}

// freeName returns base, or base with "_" behind as often as it takes to be
// none of the names in use.
func freeName(base string, used map[string]string) string {
	for _, name := range used {
		if name == base {
			return freeName(base+"_", used)
		}
	}
	return base
}

// classScope lists the names a method must not take, because code in the class
// body or its annotations uses them.
func classScope() []string {
	return append([]string{"bool", "classmethod", "float", "int", "str", noValue, baseClass}, typingNames()...)
}

// paramScope lists the names a parameter must not take: what a method is given
// by Python, and what the module imports.
func paramScope() []string {
	return append([]string{"cls", "self", noValue, baseClass}, typingNames()...)
}

// typingNames lists what generated code may import from typing.
func typingNames() []string {
	return []string{"Any", "Dict", "List", "Literal", "Optional", "Union"}
}
