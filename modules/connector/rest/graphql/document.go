// Package graphql turns GraphQL schemas into toolset files: each root field of a
// schema is a tool. Package exchange makes the requests of such tools.
package graphql

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"
)

// Limits of a schema, in bytes. What introspection answers says the same in
// several times as many.
const (
	MaxSchema        = 5 << 20
	MaxIntrospection = 20 << 20
)

// Load reads a schema: its definitions in GraphQL's language, or the answer to
// Introspection as JSON.
func Load(document []byte) (*ast.Schema, error) {
	text := bytes.TrimSpace(bytes.TrimPrefix(document, []byte("\xef\xbb\xbf")))
	if len(text) > 0 && text[0] == '{' && json.Valid(text) {
		if len(text) > MaxIntrospection {
			return nil, fmt.Errorf("the answer to introspection has %d bytes, more than %d", len(text), MaxIntrospection)
		}
		var err error
		if text, err = definitions(text); err != nil {
			return nil, err
		}
	}
	if len(text) > MaxSchema {
		return nil, fmt.Errorf("the schema has %d bytes, more than %d", len(text), MaxSchema)
	}
	doc, err := parser.ParseSchemas(validator.Prelude, &ast.Source{Name: "schema", Input: string(text)})
	if err != nil {
		return nil, fmt.Errorf("the GraphQL schema cannot be read: %w", err)
	}
	repair(doc)
	schema, err := validator.ValidateSchemaDocument(doc)
	if err != nil {
		return nil, fmt.Errorf("the GraphQL schema cannot be read: %w", err)
	}
	if schema.Query == nil && schema.Mutation == nil {
		return nil, errors.New("the GraphQL schema has no queries")
	}
	return schema, nil
}

// repair takes out of a document what published ones have although they may not,
// and what no tool needs: what is defined twice counts once, and directives are
// left out but for three that say something about a tool.
func repair(doc *ast.SchemaDocument) {
	known := map[string]bool{}
	doc.Definitions = slices.DeleteFunc(doc.Definitions, func(d *ast.Definition) bool {
		twice := known[d.Name]
		known[d.Name] = true
		return twice
	})
	directives := map[string]bool{}
	doc.Directives = slices.DeleteFunc(doc.Directives, func(d *ast.DirectiveDefinition) bool {
		own := d.Position != nil && d.Position.Src != nil && d.Position.Src.BuiltIn
		keep := own && !directives[d.Name]
		directives[d.Name] = keep
		return !keep
	})
	for _, s := range slices.Concat(doc.Schema, doc.SchemaExtension) {
		s.Directives = nil
	}
	for _, d := range slices.Concat(doc.Definitions, doc.Extensions) {
		d.Directives = telling(d.Directives)
		d.Interfaces = slices.Compact(d.Interfaces)
		fields, values := map[string]bool{}, map[string]bool{}
		d.Fields = slices.DeleteFunc(d.Fields, func(f *ast.FieldDefinition) bool {
			twice := fields[f.Name]
			fields[f.Name] = true
			f.Directives = telling(f.Directives)
			for _, a := range f.Arguments {
				a.Directives = nil
			}
			return twice
		})
		d.EnumValues = slices.DeleteFunc(d.EnumValues, func(v *ast.EnumValueDefinition) bool {
			twice := values[v.Name]
			values[v.Name] = true
			v.Directives = nil
			return twice
		})
	}
}

// telling are the directives that say something about a tool.
func telling(list ast.DirectiveList) ast.DirectiveList {
	return slices.DeleteFunc(list, func(d *ast.Directive) bool {
		return !slices.Contains([]string{"deprecated", "specifiedBy", "oneOf"}, d.Name)
	})
}

// builtin reports whether a type is one of the language's own.
func builtin(name string) bool {
	switch name {
	case "Int", "Float", "String", "Boolean", "ID":
		return true
	}
	return len(name) > 1 && name[:2] == "__"
}
