package graphql

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/portico-run/portico/modules/connector/rest/graphql/exchange"
)

// Introspection asks a server for its schema. It asks for nothing that only
// newer servers know.
const Introspection = `query Introspection {
  __schema {
    queryType { name }
    mutationType { name }
    subscriptionType { name }
    types {
      kind name description
      fields(includeDeprecated: true) {
        name description isDeprecated deprecationReason
        args { ...value }
        type { ...type }
      }
      inputFields { ...value }
      interfaces { name }
      enumValues(includeDeprecated: true) { name description isDeprecated deprecationReason }
      possibleTypes { name }
    }
  }
}
fragment value on __InputValue { name description defaultValue type { ...type } }
fragment type on __Type { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name } } } } } } } }`

// The answer to Introspection.
type (
	named struct {
		Name string `json:"name"`
	}
	typeRef struct {
		Kind   string   `json:"kind"`
		Name   string   `json:"name"`
		OfType *typeRef `json:"ofType"`
	}
	inputValue struct {
		Name         string  `json:"name"`
		Description  string  `json:"description"`
		DefaultValue *string `json:"defaultValue"`
		Type         typeRef `json:"type"`
	}
	deprecable struct {
		Name              string `json:"name"`
		Description       string `json:"description"`
		IsDeprecated      bool   `json:"isDeprecated"`
		DeprecationReason string `json:"deprecationReason"`
	}
	fieldDefinition struct {
		deprecable

		Args []inputValue `json:"args"`
		Type typeRef      `json:"type"`
	}
	typeDefinition struct {
		Kind          string            `json:"kind"`
		Name          string            `json:"name"`
		Description   string            `json:"description"`
		Fields        []fieldDefinition `json:"fields"`
		InputFields   []inputValue      `json:"inputFields"`
		Interfaces    []named           `json:"interfaces"`
		EnumValues    []deprecable      `json:"enumValues"`
		PossibleTypes []named           `json:"possibleTypes"`
	}
	introspected struct {
		QueryType        *named           `json:"queryType"`
		MutationType     *named           `json:"mutationType"`
		SubscriptionType *named           `json:"subscriptionType"`
		Types            []typeDefinition `json:"types"`
	}
	answerToIntrospection struct {
		Schema *introspected `json:"__schema"`
		Data   *struct {
			Schema *introspected `json:"__schema"`
		} `json:"data"`
		Errors []exchange.Error `json:"errors"`
	}
)

// definitions writes the answer to Introspection in GraphQL's language.
func definitions(answer []byte) ([]byte, error) {
	var in answerToIntrospection
	if err := json.Unmarshal(answer, &in); err != nil {
		return nil, fmt.Errorf("the answer to introspection cannot be read: %w", err)
	}
	s := in.Schema
	if in.Data != nil && in.Data.Schema != nil {
		s = in.Data.Schema
	}
	switch {
	case s == nil && len(in.Errors) > 0:
		return nil, fmt.Errorf("the server does not tell its schema: %s; give the schema as a file", in.Errors[0].Message)
	case s == nil:
		return nil, errors.New("the JSON is no answer to introspection: it has no __schema")
	}
	var b writer
	b.WriteString("schema {")
	for operation, of := range map[string]*named{"query": s.QueryType, "mutation": s.MutationType, "subscription": s.SubscriptionType} {
		if of != nil {
			fmt.Fprintf(&b, " %s: %s", operation, of.Name)
		}
	}
	b.WriteString(" }\n")
	for _, t := range s.Types {
		if !builtin(t.Name) {
			b.define(t)
		}
	}
	return []byte(b.String()), b.err
}

// writer writes definitions. Names are checked by whoever parses them.
type writer struct {
	strings.Builder

	err error
}

func (b *writer) define(t typeDefinition) {
	b.describe(t.Description)
	switch t.Kind {
	case "SCALAR":
		fmt.Fprintf(b, "scalar %s\n", t.Name)
	case "OBJECT", "INTERFACE":
		fmt.Fprintf(b, "%s %s%s {\n", map[string]string{"OBJECT": "type", "INTERFACE": "interface"}[t.Kind], t.Name, list(" implements ", " & ", t.Interfaces))
		for _, f := range t.Fields {
			b.describe(f.Description)
			b.WriteString(f.Name)
			if len(f.Args) > 0 {
				b.WriteString("(")
				b.values(f.Args)
				b.WriteString(")")
			}
			fmt.Fprintf(b, ": %s%s\n", b.typeOf(f.Type), f.deprecation())
		}
		b.WriteString("}\n")
	case "UNION":
		fmt.Fprintf(b, "union %s%s\n", t.Name, list(" = ", " | ", t.PossibleTypes))
	case "ENUM":
		fmt.Fprintf(b, "enum %s {\n", t.Name)
		for _, v := range t.EnumValues {
			b.describe(v.Description)
			fmt.Fprintf(b, "%s%s\n", v.Name, v.deprecation())
		}
		b.WriteString("}\n")
	case "INPUT_OBJECT":
		fmt.Fprintf(b, "input %s {\n", t.Name)
		b.values(t.InputFields)
		b.WriteString("}\n")
	default:
		b.err = fmt.Errorf("the answer to introspection has a type of the unknown kind %q", t.Kind)
	}
}

func (b *writer) values(list []inputValue) {
	for _, v := range list {
		b.describe(v.Description)
		fmt.Fprintf(b, "%s: %s", v.Name, b.typeOf(v.Type))
		if v.DefaultValue != nil {
			b.WriteString(" = " + *v.DefaultValue)
		}
		b.WriteString("\n")
	}
}

func (b *writer) typeOf(t typeRef) string {
	switch {
	case t.OfType != nil && t.Kind == "NON_NULL":
		return b.typeOf(*t.OfType) + "!"
	case t.OfType != nil && t.Kind == "LIST":
		return "[" + b.typeOf(*t.OfType) + "]"
	case t.Name == "":
		b.err = errors.New("the answer to introspection has a type without a name, or lists that are nested too deep")
	}
	return t.Name
}

func (b *writer) describe(text string) {
	if text != "" {
		b.WriteString(quote(text) + "\n")
	}
}

func (d deprecable) deprecation() string {
	if !d.IsDeprecated {
		return ""
	}
	return " @deprecated(reason: " + quote(d.DeprecationReason) + ")"
}

func list(prefix, separator string, names []named) string {
	if len(names) == 0 {
		return ""
	}
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = n.Name
	}
	return prefix + strings.Join(all, separator)
}

// quote writes a text as a string of GraphQL's language.
func quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r < ' ' || r == 0x7f:
			b.WriteString(`\u` + strconv.FormatInt(0x10000+int64(r), 16)[1:])
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
