package graphql

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"
	"github.com/vektah/gqlparser/v2/validator/rules"

	"github.com/portico-run/portico/internal/schema/jsontree"
	"github.com/portico-run/portico/internal/schema/shared"
	"github.com/portico-run/portico/modules/connector/rest/graphql/exchange"
)

// MaxOperations is how many tools one toolset may get from a schema.
const MaxOperations = 2000

// Options say what becomes of a schema.
type Options struct {
	// Key is that of the toolset.
	Key string
	// Endpoint is the URL that requests are sent to.
	Endpoint string
	// Mutations makes tools of these, too.
	Mutations bool
	// Operations chooses root fields by name; all of them where it is empty.
	Operations []string
	// Egress are networks beyond the public internet where the API is.
	Egress []string
	// Price is what a call of each tool costs, in credits.
	Price string
	// Bearer says that calls carry a token, Headers name the headers that calls
	// carry. What they hold comes from the environment when the file is applied.
	Bearer  bool
	Headers []string
}

// Operation is a root field that can be a tool.
type Operation struct {
	Kind        string `json:"kind"` // query or mutation
	Name        string `json:"name"`
	Signature   string `json:"signature"` // in GraphQL's language
	Description string `json:"description,omitempty"`

	field *ast.FieldDefinition
}

// LeftOut is a root field that is no tool.
type LeftOut struct {
	Operation string `json:"operation"`
	Reason    string `json:"reason"`
}

// Toolset is a toolset file, and what is not in it.
type Toolset struct {
	File    []byte
	Methods int
	LeftOut []LeftOut
}

// Operations lists the root fields that options choose, and those that are left
// out.
func Operations(schema *ast.Schema, o Options) ([]Operation, []LeftOut, error) {
	var (
		chosen []Operation
		out    []LeftOut
		known  = map[string]bool{}
	)
	roots := []*ast.Definition{schema.Query}
	if o.Mutations {
		roots = append(roots, schema.Mutation)
	}
	for i, root := range roots {
		if root == nil {
			continue
		}
		kind := []string{"query", "mutation"}[i]
		for _, f := range root.Fields {
			named := slices.Contains(o.Operations, f.Name)
			if strings.HasPrefix(f.Name, "__") || len(o.Operations) > 0 && !named {
				continue
			}
			op := Operation{Kind: kind, Name: f.Name, Signature: signature(f), Description: clean(f.Description), field: f}
			if known[op.Name] {
				op.Name += "_" + kind
			}
			known[op.Name] = true
			if reason := refused(f, named); reason != "" {
				out = append(out, LeftOut{op.Name, reason})
				continue
			}
			chosen = append(chosen, op)
		}
	}
	for _, name := range o.Operations {
		if !known[name] {
			return nil, nil, fmt.Errorf("there is no operation %q%s", name, hint(schema, name))
		}
	}
	if len(chosen) > MaxOperations {
		return nil, nil, fmt.Errorf("the schema has %d operations, more than %d; choose some with --operation", len(chosen), MaxOperations)
	}
	return chosen, out, nil
}

func hint(schema *ast.Schema, name string) string {
	if schema.Mutation != nil && schema.Mutation.Fields.ForName(name) != nil {
		return ", it is a mutation: add --mutations"
	}
	return ""
}

// refused is why a root field is no tool; empty where it is one.
func refused(f *ast.FieldDefinition, named bool) string {
	if d := f.Directives.ForName("deprecated"); d != nil && !named {
		reason := "deprecated"
		if a := d.Arguments.ForName("reason"); a != nil && a.Value.Raw != "" {
			reason += ": " + clean(a.Value.Raw)
		}
		return reason
	}
	switch {
	case f.Name == "_service" || f.Name == "_entities":
		return "for gateways that join servers, not for callers"
	case len(f.Name) > 128:
		return "its name is too long"
	}
	return ""
}

func signature(f *ast.FieldDefinition) string {
	args := make([]string, len(f.Arguments))
	for i, a := range f.Arguments {
		args[i] = a.Name + ": " + a.Type.String()
	}
	if len(args) == 0 {
		return f.Name + ": " + f.Type.String()
	}
	return f.Name + "(" + strings.Join(args, ", ") + "): " + f.Type.String()
}

// Convert makes a toolset of a schema.
func Convert(schema *ast.Schema, o Options) (Toolset, error) {
	endpoint, err := url.Parse(o.Endpoint)
	if err != nil || endpoint.Host == "" || endpoint.User != nil || endpoint.Scheme != "http" && endpoint.Scheme != "https" || strings.ContainsAny(o.Endpoint, "{}") {
		return Toolset{}, errors.New("the schema does not say where the API is; give its http or https URL with --domain")
	}
	operations, out, err := Operations(schema, o)
	if err != nil {
		return Toolset{}, err
	}
	c := &converter{schema: schema, shared: map[string]*jsontree.Object{}, rules: rules.NewDefaultRules()}
	var methods []method
	for _, op := range operations {
		m, err := c.method(op)
		if err != nil {
			out = append(out, LeftOut{op.Name, err.Error()})
			continue
		}
		m.endpoint = endpoint.RequestURI()
		methods = append(methods, m)
	}
	if len(methods) == 0 {
		return Toolset{}, errors.New("no operation of the schema is chosen")
	}
	text, err := c.file(o, endpoint, methods)
	return Toolset{File: text, Methods: len(methods), LeftOut: out}, err
}

type converter struct {
	schema *ast.Schema
	shared map[string]*jsontree.Object
	rules  *rules.Rules
	// used are the operations of the file.
	used []Operation
}

// method is a tool of the file.
type method struct {
	Operation

	endpoint          string
	query             string
	fields            string // the argument that chooses fields; empty for none
	request, response *jsontree.Object
}

func (c *converter) method(op Operation) (method, error) {
	m := method{Operation: op}
	def := c.schema.Types[op.field.Type.Name()]
	result := selection{schema: wrapped(op.field.Type, leafOf(def))}
	if def.IsCompositeType() {
		result = selectionOf(c.schema, op.field.Type)
		m.fields = "fields"
		for op.field.Arguments.ForName(m.fields) != nil {
			m.fields += "_"
		}
	}
	m.response = result.schema
	m.query = operation(op, result.text)
	if _, err := c.valid(m.query); err != nil {
		return m, err
	}
	var err error
	if m.request, err = c.request(m); err == nil {
		c.used = append(c.used, op)
	}
	return m, err
}

func leafOf(def *ast.Definition) *jsontree.Object {
	if def.IsLeafType() {
		return leaf(def)
	}
	return jsontree.NewObject()
}

// valid parses a request and checks it against the schema.
func (c *converter) valid(query string) (*ast.QueryDocument, error) {
	doc, err := parser.ParseQuery(&ast.Source{Input: query})
	if err != nil {
		return nil, fmt.Errorf("no request can be made for it: %w", err)
	}
	if errs := validator.ValidateWithRules(c.schema, doc, c.rules); len(errs) > 0 {
		return nil, fmt.Errorf("no request can be made for it: %s", exchange.Joined(errs))
	}
	return doc, nil
}

// operation writes the request of a root field.
func operation(op Operation, selected string) string {
	var variables, arguments []string
	for _, a := range op.field.Arguments {
		v := "$" + a.Name + ": " + a.Type.String()
		if a.DefaultValue != nil {
			v += " = " + a.DefaultValue.String()
		}
		variables = append(variables, v)
		arguments = append(arguments, a.Name+": $"+a.Name)
	}
	parens := func(list []string) string {
		if len(list) == 0 {
			return ""
		}
		return "(" + strings.Join(list, ", ") + ")"
	}
	return strings.TrimSpace(op.Kind+" "+op.Name+parens(variables)+" { "+op.field.Name+parens(arguments)+" "+selected) + " }"
}

// request is the schema of the arguments of a tool.
func (c *converter) request(m method) (*jsontree.Object, error) {
	whole, err := c.arguments(m, &inputs{schema: c.schema, shared: c.shared})
	if err == nil || !errors.Is(err, errLarge) {
		return whole, err
	}
	for _, levels := range []int{3, 2, 1} {
		if whole, err = c.arguments(m, &inputs{schema: c.schema, levels: levels}); err == nil {
			return whole, nil
		}
	}
	return nil, err
}

var errLarge = errors.New("the types of its arguments are too large")

func (c *converter) arguments(m method, in *inputs) (*jsontree.Object, error) {
	out := object("type", "object")
	properties := jsontree.NewObject()
	var required []any
	for _, a := range m.field.Arguments {
		p := described(in.of(a.Type, 0), a.Description)
		setDefault(p, a.DefaultValue)
		properties.Set(a.Name, p)
		if a.Type.NonNull && a.DefaultValue == nil {
			required = append(required, a.Name)
		}
	}
	if m.fields != "" {
		properties.Set(m.fields, object("type", "string", "maxLength", exchange.MaxFields, "description",
			"What to return of "+m.field.Type.Name()+", as a GraphQL selection set such as \"id name owner { login }\"; a selection of its fields if left out"))
	}
	out.Set("properties", properties)
	if len(required) > 0 {
		out.Set("required", required)
	}
	out.Set("additionalProperties", false)
	return out, c.bounded(out, in)
}

// bounded refuses a schema that is large with what it refers to.
func (c *converter) bounded(request *jsontree.Object, in *inputs) error {
	text, err := json.Marshal(request)
	if err == nil && in.levels == 0 {
		all := shared.Schemas{}
		for name, s := range in.shared {
			if all[name], err = json.Marshal(s); err != nil {
				return err
			}
		}
		text, err = all.Expand(nil, text)
	}
	switch {
	case errors.Is(err, shared.ErrTooLarge), err == nil && len(text) > maxRequest:
		return errLarge
	}
	return err
}
