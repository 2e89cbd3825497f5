package strict

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/schema/jsontree"
)

type converter struct {
	root    *jsontree.Object
	defs    *jsontree.Object
	shapes  map[string]*shape
	relaxed []string

	properties, characters, enums int
	steps                         int // schemas that were looked at
}

// shape is what Restore needs to know of a converted schema.
type shape struct {
	members  map[string]member // of an object
	required []string          // by the original
	items    *shape            // of an array
	any      []*shape          // alternatives
	ref      string            // a definition; "#" is the whole
}

type member struct {
	shape    *shape
	optional bool // null stands for "left out"
	blank    bool // so does an empty text
}

func (c *converter) misfit(path, why string, args ...any) error {
	return &misfitError{path, fmt.Sprintf(why, args...)}
}

func (c *converter) relax(path, what string) {
	if path == "" {
		path = "the schema"
	}
	c.steps += len(path) / 64 // that of one long name would be kept for all that is in it
	c.relaxed = append(c.relaxed, path+": "+what)
}

// rootObject converts the top, which must be an object without alternatives.
func (c *converter) rootObject() (*jsontree.Object, *shape, error) {
	top := c.root
	for hops := 0; top.String("$ref") != ""; hops++ {
		target, _, err := c.lookup(top.String("$ref"), "")
		if err != nil {
			return nil, nil, err
		}
		if hops == maxDepth {
			return nil, nil, c.misfit("", "refers to itself")
		}
		top = target
	}
	node, err := c.flatten(top, "", 0)
	if err != nil {
		return nil, nil, err
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		if !node.Has(word) {
			continue
		}
		if !onlyConstraints(node.List(word)) {
			return nil, nil, c.misfit("", "has %s at its top", word)
		}
		node.Delete(word)
		c.relax("", word)
	}
	if kinds := typesOf(node); len(kinds) > 0 && !slices.Equal(kinds, []string{"object"}) {
		return nil, nil, c.misfit("", "is not one of an object")
	}
	node.Set("type", "object")
	if !node.Has("properties") && !node.Has("additionalProperties") {
		node.Set("properties", jsontree.NewObject()) // no parameters
	}
	return c.convert(node, "", 0)
}

// described keeps the description that stands beside a reference: providers accept
// no other member next to $ref.
func described(node *jsontree.Object, text string) *jsontree.Object {
	if text == "" {
		return node
	}
	if node.Has("$ref") {
		out := jsontree.NewObject()
		out.Set("description", text)
		out.Set("anyOf", []any{node})
		return out
	}
	node.Set("description", text)
	return node
}

// step counts a schema that is looked at: parts of a short one may refer to each other
// so that it is never done.
func (c *converter) step(path string, depth int) error {
	if depth > maxDepth {
		return c.misfit(path, "is nested deeper than %d", maxDepth)
	}
	c.steps++
	return c.limits()
}

// convert returns the strict form of a schema and its shape.
func (c *converter) convert(value any, path string, depth int) (*jsontree.Object, *shape, error) {
	if err := c.step(path, depth); err != nil {
		return nil, nil, err
	}
	node, ok := value.(*jsontree.Object)
	if !ok {
		return nil, nil, c.misfit(path, "takes anything")
	}
	if ref := node.String("$ref"); ref != "" {
		out, s, err := c.reference(ref, path, depth)
		if err != nil {
			return nil, nil, err
		}
		return described(out, node.String("description")), s, nil
	}
	node, err := c.flatten(node, path, depth)
	if err != nil {
		return nil, nil, err
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		if node.Has(word) && !onlyConstraints(node.List(word)) {
			return c.alternatives(node, word, path, depth)
		}
	}
	out := jsontree.NewObject()
	if text := node.String("description"); text != "" {
		out.Set("description", text)
	}
	c.annotate(node, out, path)
	if node.Has("enum") || node.Has("const") {
		return out, &shape{}, c.values(node, out, path)
	}
	kinds := typesOf(node)
	switch known := slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return k == "null" }); len(known) {
	case 0:
		if slices.Contains(kinds, "null") {
			out.Set("type", "null")
			return out, &shape{}, nil
		}
		return nil, nil, c.misfit(path, "takes anything")
	case 1:
		s, err := c.kind(known[0], node, out, path, depth)
		if err == nil && len(kinds) > 1 {
			out.Set("type", []any{known[0], "null"})
		}
		return out, s, err
	default:
		branches := make([]any, len(kinds))
		for i, k := range kinds {
			one := clone(node)
			one.Delete("description")
			one.Delete("default")
			one.Set("type", k)
			branches[i] = one
		}
		node.Set("anyOf", branches)
		return c.alternatives(node, "anyOf", path, depth)
	}
}

// kind converts what belongs to one type.
func (c *converter) kind(kind string, node, out *jsontree.Object, path string, depth int) (*shape, error) {
	out.Set("type", kind)
	switch kind {
	case "object":
		return c.object(node, out, path, depth)
	case "array":
		for _, word := range []string{"prefixItems", "additionalItems", "contains", "uniqueItems"} {
			if node.Has(word) {
				c.relax(path, word)
			}
		}
		keep(node, out, "minItems", "maxItems")
		items, shapeOf, err := c.convert(node.Get("items"), join(path, "[]"), depth+1)
		out.Set("items", items)
		return &shape{items: shapeOf}, err
	case "string":
		c.drop(node, path, "minLength", "maxLength")
		c.pattern(node, out, path)
		c.format(node, out, path)
		return &shape{}, nil
	case "number", "integer":
		keep(node, out, "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum")
		return &shape{}, nil
	case "boolean", "null":
		return &shape{}, nil
	}
	return nil, c.misfit(path, "has the unknown type %q", kind)
}

// object converts an object: closed, and with all properties required.
func (c *converter) object(node, out *jsontree.Object, path string, depth int) (*shape, error) {
	properties := node.Object("properties")
	if properties == nil {
		properties = jsontree.NewObject()
	}
	more, closed := node.Get("additionalProperties"), node.Get("additionalProperties") == false
	switch {
	case node.Has("patternProperties"), !closed && properties.Len() == 0 && (node.Has("additionalProperties") || !node.Has("properties")):
		return nil, c.misfit(path, "is a map with keys of the caller's")
	case !closed && node.Has("additionalProperties"):
		if _, typed := more.(*jsontree.Object); typed && more.(*jsontree.Object).Len() > 0 { //nolint:forcetypeassert // just tried
			return nil, c.misfit(path, "is a map with keys of the caller's")
		}
		c.relax(path, "additionalProperties")
	}
	c.drop(node, path, "propertyNames", "minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "dependencies",
		"unevaluatedProperties", "not", "if", "then", "else")
	s := &shape{members: map[string]member{}}
	required := map[string]bool{}
	for _, r := range node.List("required") {
		if name, ok := r.(string); ok {
			s.required = append(s.required, name)
			required[name] = true
		}
	}
	converted, all := jsontree.NewObject(), []any{}
	for _, name := range properties.Names() {
		c.properties++
		c.characters += utf8.RuneCountInString(name)
		sub, shapeOf, err := c.convert(properties.Get(name), join(path, name), depth+1)
		if err != nil {
			return nil, err
		}
		m := member{shape: shapeOf, optional: !required[name]}
		if m.optional {
			isText, takesEmpty := c.text(properties.Get(name), 0)
			m.blank = isText && !takesEmpty
			sub = nullable(sub)
		}
		s.members[name] = m
		converted.Set(name, sub)
		all = append(all, name)
	}
	out.Set("properties", converted)
	out.Set("required", all)
	out.Set("additionalProperties", false)
	return s, nil
}

// alternatives converts anyOf and oneOf: the subset knows anyOf only.
func (c *converter) alternatives(node *jsontree.Object, word, path string, depth int) (*jsontree.Object, *shape, error) {
	out := jsontree.NewObject()
	if text := node.String("description"); text != "" {
		out.Set("description", text)
	}
	c.annotate(node, out, path)
	if word == "oneOf" {
		c.relax(path, "oneOf is anyOf")
	}
	var branches []any
	s := &shape{}
	for _, branch := range node.List(word) {
		// What stands beside the alternatives holds for each.
		if o, ok := branch.(*jsontree.Object); ok && !o.Has("type") && !o.Has("$ref") && !o.Has("enum") && !o.Has("const") && node.Has("type") {
			o = clone(o)
			o.Set("type", node.Get("type"))
			branch = o
		}
		converted, shapeOf, err := c.convert(branch, path, depth+1)
		if err != nil {
			return nil, nil, err
		}
		branches = append(branches, converted)
		s.any = append(s.any, shapeOf)
	}
	if len(branches) == 0 {
		return nil, nil, c.misfit(path, "has no alternative")
	}
	out.Set("anyOf", branches)
	return out, s, nil
}

// values converts enum and const.
func (c *converter) values(node, out *jsontree.Object, path string) error {
	list := node.List("enum")
	if node.Has("const") {
		list = []any{node.Get("const")}
	}
	var kinds []any
	size := 0
	for _, v := range list {
		kind := kindOf(v)
		if kind == "object" || kind == "array" {
			return c.misfit(path, "lists values that are no scalars")
		}
		if !slices.Contains(kinds, any(kind)) {
			kinds = append(kinds, kind)
		}
		size += utf8.RuneCountInString(fmt.Sprint(v))
	}
	if len(list) == 0 {
		return c.misfit(path, "lists no value")
	}
	if len(list) > largeEnum && size > maxLargeEnum {
		return c.misfit(path, "lists %d values of %d characters", len(list), size)
	}
	c.enums += len(list)
	c.characters += size
	if len(kinds) == 1 {
		out.Set("type", kinds[0])
	} else {
		out.Set("type", kinds)
	}
	out.Set("enum", list)
	return nil
}

// annotate adds constraints that the subset cannot express to the description.
func (c *converter) annotate(node, out *jsontree.Object, path string) {
	if !node.Has("default") || node.Get("default") == nil {
		return
	}
	text, err := jsontree.Encode(node.Get("default"))
	if err != nil || len(text) > 200 {
		c.relax(path, "default")
		return
	}
	describe(out, "Default: "+string(text)+".")
}

// formats are those that the provider enforces.
func formats() []string {
	return []string{"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
}

func (c *converter) format(node, out *jsontree.Object, path string) {
	format := node.String("format")
	switch {
	case format == "":
	case slices.Contains(formats(), format):
		out.Set("format", format)
	default:
		c.relax(path, "format "+format)
		describe(out, "Format: "+format+".")
	}
}

// pattern keeps those that the provider can compile.
func (c *converter) pattern(node, out *jsontree.Object, path string) {
	p := node.String("pattern")
	switch {
	case p == "":
	case strings.Contains(p, "(?"):
		c.relax(path, "pattern")
		describe(out, "Pattern: "+p)
	default:
		out.Set("pattern", p)
	}
}

func (c *converter) drop(node *jsontree.Object, path string, words ...string) {
	for _, w := range words {
		if node.Has(w) {
			c.relax(path, w)
		}
	}
}

func keep(node, out *jsontree.Object, words ...string) {
	for _, w := range words {
		if _, ok := node.Get(w).(json.Number); ok {
			out.Set(w, node.Get(w))
		}
	}
}

// describe puts the description first, where a reader looks.
func describe(out *jsontree.Object, more string) {
	out.Set("description", strings.TrimSpace(out.String("description")+" "+more))
}

func join(path, name string) string {
	if path == "" || name == "[]" {
		return path + name
	}
	return path + "." + name
}
