package signature

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/portico-run/portico/internal/schema/jsontree"
)

const (
	// maxLiterals is how many values of an enum are written out.
	maxLiterals = 12
	// someLiterals is how many values of a longer enum are written out.
	someLiterals = 3
	// maxNesting is how deep objects are written out.
	maxNesting = 3
	// maxHops bounds references to references.
	maxHops = 16
	// maxLevels is how many types one is within, objects and others.
	maxLevels = 16
	// maxSpent bounds what one schema costs, in bytes that are written or followed: a
	// short one, whose parts refer to each other, may stand for a very long type.
	maxSpent = 1 << 20
)

// typer writes JSON Schemas as Python types.
type typer struct {
	root *jsontree.Object
	// members is how many members of an object are written; 0 for all.
	members int
	// space follows colons and commas within objects.
	space string
	// level is how many types this one is within, and refs are the references that
	// led here from the object around it.
	level int
	refs  []string
	spent *int
}

func newTyper(root *jsontree.Object) typer { return typer{root: root, spent: new(int)} }

// of writes the type of a schema. Objects deeper than maxNesting are dicts, and what
// is beyond the other bounds is Any.
func (t typer) of(schema any, depth int) string {
	t.level++
	if t.level > maxLevels || *t.spent > maxSpent {
		return "Any"
	}
	text := t.write(schema, depth)
	*t.spent += len(text)
	return text
}

func (t typer) write(schema any, depth int) string {
	node, refs := t.resolve(schema)
	if node == nil || slices.ContainsFunc(refs, func(r string) bool { return slices.Contains(t.refs, r) }) {
		return "Any" // also what is a list of itself
	}
	t.refs = slices.Concat(t.refs, refs)
	if node.Has("const") {
		return literal(node.Get("const"))
	}
	if values := node.List("enum"); len(values) > 0 {
		return literals(values)
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		if list := node.List(word); len(list) > 0 && !constraints(list) {
			parts := make([]string, len(list))
			for i, b := range list {
				parts[i] = t.of(b, depth)
			}
			return union(parts)
		}
	}
	if list := node.List("allOf"); len(list) > 0 && !node.Has("properties") {
		if len(list) == 1 {
			return t.of(list[0], depth)
		}
		return "dict"
	}
	switch kind := node.Get("type").(type) {
	case string:
		return t.kind(kind, node, depth)
	case []any:
		parts := make([]string, 0, len(kind))
		for _, k := range kind {
			name, _ := k.(string)
			parts = append(parts, t.kind(name, node, depth))
		}
		return union(parts)
	}
	switch {
	case node.Has("properties"):
		return t.kind("object", node, depth)
	case node.Has("items"):
		return t.kind("array", node, depth)
	}
	return "Any"
}

// within writes a type of at most limit bytes: as deep as that allows, at least
// one level.
func (t typer) within(schema any, limit int) (text string, fits bool) {
	for depth := range maxNesting {
		if text = t.of(schema, depth); len(text) <= limit {
			return text, true
		}
	}
	return text, false
}

func (t typer) kind(kind string, node *jsontree.Object, depth int) string {
	switch kind {
	case "string":
		return "str"
	case "integer":
		return "int"
	case "number":
		return "float"
	case "boolean":
		return "bool"
	case "null":
		return "None"
	case "array":
		if !node.Has("items") {
			return "list"
		}
		if item := t.of(node.Get("items"), depth); item != "Any" {
			return "list[" + item + "]"
		}
		return "list"
	case "object":
		return t.object(node, depth)
	}
	return "Any"
}

func (t typer) object(node *jsontree.Object, depth int) string {
	properties := node.Object("properties")
	if properties == nil || properties.Len() == 0 {
		if more := node.Object("additionalProperties"); more != nil && more.Len() > 0 && depth < maxNesting {
			return "dict[str," + t.of(more, depth+1) + "]"
		}
		return "dict"
	}
	if depth >= maxNesting {
		return "dict"
	}
	t.refs = nil // depth bounds what is in objects
	required := required(node)
	parts := make([]string, 0, properties.Len())
	for i, name := range properties.Names() {
		if t.members > 0 && i == t.members {
			parts = append(parts, "**Any")
			break
		}
		mark := ""
		if !required[name] {
			mark = "?"
		}
		parts = append(parts, key(name)+mark+":"+t.space+t.of(properties.Get(name), depth+1))
	}
	return "{" + strings.Join(parts, ","+t.space) + "}"
}

// resolve follows references within the document, and returns them; nil is anything.
func (t typer) resolve(schema any) (node *jsontree.Object, refs []string) {
	for range maxHops {
		node, _ = schema.(*jsontree.Object)
		if node == nil || node.String("$ref") == "" {
			return node, refs
		}
		ref := node.String("$ref")
		refs = append(refs, ref)
		*t.spent += len(ref)
		schema = t.root.Pointer(ref)
	}
	return nil, nil
}

func required(node *jsontree.Object) map[string]bool {
	names := map[string]bool{}
	for _, r := range node.List("required") {
		if name, ok := r.(string); ok {
			names[name] = true
		}
	}
	return names
}

// union joins alternatives, each once; Any takes the others in.
func union(parts []string) string {
	var out []string
	for _, p := range parts {
		if p == "Any" {
			return "Any"
		}
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		return "Any"
	}
	return strings.Join(out, "|")
}

// literals writes the values of an enum; of a long one the first few, with the
// type of the others.
func literals(values []any) string {
	var parts []string
	for i, v := range values {
		if len(values) > maxLiterals && i >= someLiterals {
			switch v.(type) {
			case string:
				parts = append(parts, "str")
			case json.Number:
				parts = append(parts, "float")
			default:
				parts = append(parts, "Any")
			}
			continue
		}
		parts = append(parts, literal(v))
	}
	return union(parts)
}

// literal writes a value as Python does.
func literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case json.Number:
		return v.String()
	case string:
		return quote(v)
	}
	return "Any"
}

// quote writes a text on one line.
func quote(s string) string { return strconv.Quote(s) }

// constraints reports whether alternatives say only what is required together.
func constraints(list []any) bool {
	return jsontree.None(list, "type", "properties", "$ref", "enum", "const", "items", "anyOf", "oneOf", "allOf")
}
