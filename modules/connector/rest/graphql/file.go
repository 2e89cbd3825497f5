package graphql

import (
	"bytes"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/formatter"

	"github.com/portico-run/portico/internal/schema/jsontree"
	"github.com/portico-run/portico/modules/toolset"
)

// maxPiece bounds a shared schema that holds definitions, in bytes.
const maxPiece = 128 << 10

// file writes a toolset file. Its values are JSON, which YAML is a superset of,
// so that arguments keep their order.
func (c *converter) file(o Options, endpoint *url.URL, methods []method) ([]byte, error) {
	f := &fileWriter{}
	f.line("key", o.Key)
	f.line("name", o.Key)
	f.line("domain", endpoint.Scheme+"://"+endpoint.Host)
	f.line("billing", o.Price)
	if len(o.Egress) > 0 {
		f.line("egress", object("allow", o.Egress))
	}
	headers := f.credential(o)
	pieces := c.types()
	if len(pieces)+len(c.shared) > 0 {
		f.WriteString("schemas:\n")
	}
	for i, piece := range pieces {
		f.line(fmt.Sprintf("  %s%03d", toolset.GraphQLTypes, i+1), object("$comment", piece))
	}
	for _, name := range slices.Sorted(maps.Keys(c.shared)) {
		f.line("  "+name, c.shared[name])
	}
	f.WriteString("methods:\n")
	for _, m := range methods {
		f.line("  - name", m.Name)
		if m.Description != "" {
			f.line("    description", m.Description)
		}
		f.line("    endpoint", m.endpoint)
		f.line("    method", "POST")
		f.adapter(m, headers)
		f.line("    request", m.request)
		f.line("    response", m.response)
	}
	return f.Bytes(), f.err
}

type fileWriter struct {
	bytes.Buffer

	err error
}

func (f *fileWriter) line(key string, value any) {
	text, err := jsontree.Encode(value)
	if err != nil {
		f.err = err
	}
	fmt.Fprintf(f, "%s: %s\n", key, text)
}

func (f *fileWriter) adapter(m method, headers *jsontree.Object) {
	g := object("query", m.query, "root", m.field.Name)
	if m.fields != "" {
		g.Set("fields", m.fields)
	}
	a := jsontree.NewObject()
	if headers.Len() > 0 {
		a.Set("headers", headers)
	}
	if m.Kind == "query" {
		a.Set("idempotent", true)
	}
	a.Set("graphql", g)
	f.line("    adapter", a)
}

var notInName = regexp.MustCompile(`[^A-Za-z0-9]+`)

// Variable is the name of the variable that holds a credential of a toolset.
func Variable(key, name string) string {
	return "TOOLSET_" + strings.ToUpper(notInName.ReplaceAllString(key+"_"+name, "_"))
}

// credential says where calls take their credential from, and returns the
// headers that they carry besides. What these hold are variables of the
// environment: a file has no secrets in it.
func (f *fileWriter) credential(o Options) *jsontree.Object {
	variable := func(name string) string { return "${" + Variable(o.Key, name) + "}" }
	headers := jsontree.NewObject()
	more := o.Headers
	switch {
	case o.Bearer:
		f.line("credential", object("type", "bearer", "value", variable("api_key")))
	case len(more) > 0:
		f.line("credential", object("type", "header", "name", more[0], "value", variable("api_key")))
		more = more[1:]
	}
	for _, name := range more {
		headers.Set(name, variable(name))
	}
	return headers
}

// types are the definitions that choosing fields needs, in GraphQL's language
// and without descriptions, in pieces.
func (c *converter) types() []string {
	reached := map[string]bool{}
	roots := map[string]*ast.Definition{}
	for _, op := range c.used {
		c.reach(op.field, reached)
		if roots[op.Kind] == nil {
			roots[op.Kind] = &ast.Definition{Kind: ast.Object, Name: map[string]string{"query": "Query", "mutation": "Mutation"}[op.Kind]}
		}
		roots[op.Kind].Fields = append(roots[op.Kind].Fields, op.field)
	}
	head := &ast.SchemaDefinition{}
	var doc ast.SchemaDocument
	for kind, operation := range map[string]ast.Operation{"query": ast.Query, "mutation": ast.Mutation} {
		root := roots[kind]
		if root == nil {
			continue
		}
		// A type of the schema that is a root and reached as well stays as it is.
		if own := c.root(kind); reached[own.Name] {
			root = own
		} else {
			root.Name = own.Name
			doc.Definitions = append(doc.Definitions, root)
		}
		head.OperationTypes = append(head.OperationTypes, &ast.OperationTypeDefinition{Operation: operation, Type: root.Name})
	}
	doc.Schema = ast.SchemaDefinitionList{head}
	for _, name := range slices.Sorted(maps.Keys(reached)) {
		doc.Definitions = append(doc.Definitions, c.schema.Types[name])
	}
	return pieces(doc)
}

func (c *converter) root(kind string) *ast.Definition {
	if kind == "mutation" {
		return c.schema.Mutation
	}
	return c.schema.Query
}

// reach marks the types that a field leads to.
func (c *converter) reach(f *ast.FieldDefinition, reached map[string]bool) {
	names := []string{f.Type.Name()}
	for _, a := range f.Arguments {
		names = append(names, a.Type.Name())
	}
	for _, name := range names {
		c.reachType(name, reached)
	}
}

func (c *converter) reachType(name string, reached map[string]bool) {
	def := c.schema.Types[name]
	if def == nil || reached[name] || builtin(name) {
		return
	}
	reached[name] = true
	for _, f := range def.Fields {
		if !strings.HasPrefix(f.Name, "__") {
			c.reach(f, reached)
		}
	}
	for _, t := range slices.Concat(def.Types, def.Interfaces) {
		c.reachType(t, reached)
	}
	for _, t := range c.schema.GetPossibleTypes(def) {
		c.reachType(t.Name, reached)
	}
}

// pieces writes definitions, each piece at most maxPiece long where its
// definitions are.
func pieces(doc ast.SchemaDocument) []string {
	var out []string
	var b strings.Builder
	write := func(d *ast.SchemaDocument) string {
		var one strings.Builder
		formatter.NewFormatter(&one, formatter.WithoutDescription(), formatter.WithCompacted()).FormatSchemaDocument(d)
		return one.String()
	}
	b.WriteString(write(&ast.SchemaDocument{Schema: doc.Schema}))
	for _, def := range doc.Definitions {
		text := write(&ast.SchemaDocument{Definitions: ast.DefinitionList{plain(def)}})
		if b.Len()+len(text) > maxPiece {
			out = append(out, b.String())
			b.Reset()
		}
		b.WriteString(text)
	}
	return append(out, b.String())
}

// plain is a definition without directives: they would need definitions, too.
func plain(def *ast.Definition) *ast.Definition {
	p := *def
	p.Directives = nil
	p.Fields = make(ast.FieldList, 0, len(def.Fields))
	for _, f := range def.Fields {
		if strings.HasPrefix(f.Name, "__") {
			continue
		}
		field := *f
		field.Directives = nil
		field.Arguments = make(ast.ArgumentDefinitionList, len(f.Arguments))
		for i, a := range f.Arguments {
			argument := *a
			argument.Directives = nil
			field.Arguments[i] = &argument
		}
		p.Fields = append(p.Fields, &field)
	}
	p.EnumValues = make(ast.EnumValueList, len(def.EnumValues))
	for i, v := range def.EnumValues {
		p.EnumValues[i] = &ast.EnumValueDefinition{Name: v.Name}
	}
	return &p
}
