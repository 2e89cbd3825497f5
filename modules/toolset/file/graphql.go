package file

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
	"go.yaml.in/yaml/v3"

	"github.com/portico-run/portico/modules/toolset"
)

// graphqlSpec is toolset.GraphQL with the strictness of a file.
type graphqlSpec toolset.GraphQL

// UnmarshalYAML implements yaml.Unmarshaler.
func (g *graphqlSpec) UnmarshalYAML(n *yaml.Node) error {
	return strict(n, (*toolset.GraphQL)(g), "query", "root", "fields")
}

// graphql checks a request in GraphQL's language: its variables are parameters,
// and its one field is the result.
func (c *checker) graphql(s methodSpec, m toolset.Method) {
	g := m.Adapter.GraphQL
	doc, err := parser.ParseQuery(&ast.Source{Input: g.Query})
	if err != nil {
		c.problem(s.line, "graphql of %q: the query cannot be read: %s", m.Name, strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	if len(doc.Operations) != 1 || len(doc.Operations[0].SelectionSet) != 1 || doc.Operations[0].Operation == ast.Subscription {
		c.problem(s.line, "graphql of %q: the query must be one query or mutation with one field", m.Name)
		return
	}
	if f, ok := doc.Operations[0].SelectionSet[0].(*ast.Field); !ok || f.Alias != g.Root {
		c.problem(s.line, "graphql of %q: root %q must be the field of the query", m.Name, g.Root)
	}
	if m.HTTPMethod != "POST" || m.Adapter.UseFormData || m.Adapter.BodyParameter != "" || m.Adapter.Polling != nil {
		c.problem(s.line, "graphql of %q: such a method is a POST of JSON, without form data, body parameter and polling", m.Name)
	}
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(m.Request, &schema) != nil {
		return // reported with the schema
	}
	for _, v := range doc.Operations[0].VariableDefinitions {
		if _, ok := schema.Properties[v.Variable]; !ok && v.Type.NonNull && v.DefaultValue == nil {
			c.problem(s.line, "graphql of %q: the variable $%s is no parameter", m.Name, v.Variable)
		}
	}
	declared := func(name string) bool {
		return slices.ContainsFunc(doc.Operations[0].VariableDefinitions, func(v *ast.VariableDefinition) bool { return v.Variable == name })
	}
	if g.Fields == "" {
		return
	}
	if _, ok := schema.Properties[g.Fields]; !ok || declared(g.Fields) {
		c.problem(s.line, "graphql of %q: fields %q must be a parameter, and no variable of the query", m.Name, g.Fields)
	}
	for name := range c.schemas {
		if strings.HasPrefix(name, toolset.GraphQLTypes) {
			return
		}
	}
	c.problem(s.line, "graphql of %q: fields needs the types in schemas that begin with %s", m.Name, toolset.GraphQLTypes)
}
