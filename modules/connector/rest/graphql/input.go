package graphql

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/portico-run/portico/internal/schema/jsontree"
	"github.com/portico-run/portico/internal/schema/shared"
)

// maxRequest bounds the schema of the arguments of a tool, in bytes, with what
// it refers to. Types that lead to many others are cut off below some levels.
const maxRequest = 64 << 10

// inputs writes types of arguments as JSON Schemas.
type inputs struct {
	schema *ast.Schema
	// shared are the enums and input objects that stand in the file once.
	shared map[string]*jsontree.Object
	// levels is how deep input objects are written out where they are not shared;
	// 0 shares them.
	levels int
}

// of writes a type. inside is how many input objects it is in.
func (in *inputs) of(t *ast.Type, inside int) *jsontree.Object {
	out := in.value(t, inside)
	if t.NonNull {
		return out
	}
	return nullable(out)
}

// value is of without null.
func (in *inputs) value(t *ast.Type, inside int) *jsontree.Object {
	if t.Elem != nil {
		return object("type", "array", "items", in.of(t.Elem, inside))
	}
	def := in.schema.Types[t.NamedType]
	if def.Kind == ast.Scalar {
		return scalar(def)
	}
	if in.levels == 0 {
		in.share(def)
		return object("$ref", shared.To(def.Name))
	}
	if def.Kind == ast.InputObject && inside >= in.levels {
		return object("type", "object", "description", "A "+def.Name+", of which this server does not say more")
	}
	return in.content(def, inside)
}

func (in *inputs) share(def *ast.Definition) {
	if in.shared[def.Name] != nil {
		return
	}
	in.shared[def.Name] = jsontree.NewObject() // where it is within itself
	in.shared[def.Name] = in.content(def, 0)
}

// content is the schema of an enum or an input object.
func (in *inputs) content(def *ast.Definition, inside int) *jsontree.Object {
	if def.Kind == ast.Enum {
		return described(object("enum", enum(def)), def.Description)
	}
	out := described(object("type", "object"), def.Description)
	properties := jsontree.NewObject()
	var required []any
	for _, f := range def.Fields {
		p := described(in.of(f.Type, inside+1), f.Description)
		setDefault(p, f.DefaultValue)
		properties.Set(f.Name, p)
		if f.Type.NonNull && f.DefaultValue == nil {
			required = append(required, f.Name)
		}
	}
	out.Set("properties", properties)
	if len(required) > 0 {
		out.Set("required", required)
	}
	out.Set("additionalProperties", false)
	if def.Directives.ForName("oneOf") != nil {
		out.Set("minProperties", 1)
		out.Set("maxProperties", 1)
	}
	return out
}

// scalar is the schema of a scalar. Of a custom one, only its description is
// known.
func scalar(def *ast.Definition) *jsontree.Object {
	switch def.Name {
	case "String", "ID":
		return object("type", "string")
	case "Boolean":
		return object("type", "boolean")
	case "Int":
		return object("type", "integer")
	case "Float":
		return object("type", "number")
	}
	text := def.Name
	if def.Description != "" {
		text += ": " + def.Description
	}
	if d := def.Directives.ForName("specifiedBy"); d != nil && d.Arguments.ForName("url") != nil {
		text = strings.TrimSpace(text + " " + d.Arguments.ForName("url").Value.Raw)
	}
	return described(jsontree.NewObject(), text)
}

func enum(def *ast.Definition) []any {
	values := make([]any, len(def.EnumValues))
	for i, v := range def.EnumValues {
		values[i] = v.Name
	}
	return values
}

// nullable is a schema that also allows null.
func nullable(s *jsontree.Object) *jsontree.Object {
	switch kind := s.Get("type").(type) {
	case string:
		s.Set("type", []any{kind, "null"})
		return s
	case []any:
		s.Set("type", append(kind, "null"))
		return s
	}
	if values := s.List("enum"); values != nil {
		s.Set("enum", append(values, nil))
		return s
	}
	if s.Has("$ref") {
		return object("anyOf", []any{s, object("type", "null")})
	}
	return s // anything is allowed
}

// maxDescription bounds the description of one parameter, in characters.
const maxDescription = 600

// described adds a description, before one that is there.
func described(s *jsontree.Object, text string) *jsontree.Object {
	text = clean(text)
	if text == "" {
		return s
	}
	if have := s.String("description"); have != "" {
		text = strings.TrimSuffix(text, ".") + ". " + have
	}
	if r := []rune(text); len(r) > maxDescription {
		text = string(r[:maxDescription-1]) + "…"
	}
	s.Set("description", text)
	return s
}

// clean leaves out of a text what a file cannot hold.
func clean(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r == 0xfeff || r == 0xfffe || r == 0xffff {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "")))
}

// setDefault adds the default of an argument. The server applies it anyway; here
// it is told.
func setDefault(s *jsontree.Object, v *ast.Value) {
	if v != nil {
		text := "Default: " + v.String()
		if have := s.String("description"); have != "" {
			text = strings.TrimSuffix(have, ".") + ". " + text
		}
		s.Set("description", clean(text))
	}
}

// object is a JSON object of names and values.
func object(pairs ...any) *jsontree.Object {
	o := jsontree.NewObject()
	for pair := range slices.Chunk(pairs, 2) {
		o.Set(fmt.Sprint(pair[0]), pair[1])
	}
	return o
}
