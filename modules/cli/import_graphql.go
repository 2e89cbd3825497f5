package cli

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/portico-run/portico/modules/cli/shell"
	"github.com/portico-run/portico/modules/connector/rest/graphql"
	"github.com/portico-run/portico/modules/connector/rest/openapi"
)

// graphqlImport is what only `portico toolset import --graphql` has.
type graphqlImport struct {
	source    string
	mutations bool
	headers   []string
}

func (g *graphqlImport) flags(f *pflag.FlagSet) {
	f.StringVar(&g.source, "graphql", "", "a GraphQL schema instead: a file, or the URL of the API")
	f.BoolVar(&g.mutations, "mutations", false, "with --graphql: mutations as well as queries")
	f.StringArrayVar(&g.headers, "header", nil, "with --graphql: a header for reading the schema, as \"Name: value\"; calls take its value from the environment")
}

// importGraphQL makes a toolset of a GraphQL schema.
func (c *cli) importGraphQL(cmd *cobra.Command, i imported) error {
	o := graphql.Options{Key: i.Key, Endpoint: i.Domain, Mutations: i.graphql.mutations, Operations: i.Operations, Egress: i.Egress, Price: i.Price, Bearer: i.Bearer}
	if o.Endpoint == "" && isURL(i.graphql.source) {
		o.Endpoint = i.graphql.source
	}
	header := http.Header{}
	for _, h := range i.graphql.headers {
		name, value, ok := strings.Cut(h, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return fmt.Errorf("--header is \"Name: value\": %w", shell.ErrUsage)
		}
		header.Add(name, strings.TrimSpace(value))
		o.Headers = append(o.Headers, name)
	}
	if o.Bearer && isURL(i.graphql.source) {
		token := c.variable(graphql.Variable(o.Key, "api_key"))
		if token == "" {
			return fmt.Errorf("--bearer reads the token from %s, which is not set: %w", graphql.Variable(o.Key, "api_key"), shell.ErrUsage)
		}
		header.Set("Authorization", "Bearer "+token)
	}
	reader, err := newDocumentReader(i.graphql.source, i.Egress, nil)
	if err != nil {
		return err
	}
	defer reader.close()
	schema, err := graphql.Read(cmd.Context(), i.graphql.source, header, reader.allow)
	if err != nil {
		return err
	}
	if i.list {
		found, left, err := graphql.Operations(schema, o)
		if err != nil {
			return err
		}
		return c.Answer(schemaBody{found, left}, func() error {
			for _, op := range found {
				fmt.Fprintf(c.Stdout, "%s %s\n", op.Kind, op.Signature)
			}
			c.tellLeft(leftOfSchema(left), nil)
			return nil
		})
	}
	made, err := graphql.Convert(schema, o)
	if err != nil {
		return err
	}
	return c.keepImported(cmd, i, openapi.Toolset{File: made.File, Methods: made.Methods, LeftOut: leftOfSchema(made.LeftOut)})
}

// schemaBody is what a schema has.
type schemaBody struct {
	Operations []graphql.Operation `json:"operations"`
	LeftOut    []graphql.LeftOut   `json:"leftOut,omitempty"`
}

func leftOfSchema(left []graphql.LeftOut) []openapi.Left {
	var out []openapi.Left
	for _, l := range left {
		out = append(out, openapi.Left{Operation: l.Operation, Reason: l.Reason})
	}
	return out
}

// variable is one of the environment; empty where it is not set.
func (c *cli) variable(name string) string {
	for _, v := range c.Environ {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}
