package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/cli/shell"
	"github.com/portico-run/portico/modules/connector/rest/openapi"
	"github.com/portico-run/portico/modules/toolset/file"
)

// importedBody names what was written, a toolset or a file, or is its content, and
// says what was left out of it.
type importedBody struct {
	Toolset string         `json:"toolset,omitempty"`
	File    string         `json:"file,omitempty"`
	Content string         `json:"content,omitempty"`
	Methods int            `json:"methods"`
	LeftOut []openapi.Left `json:"leftOut,omitempty"`
	Notes   []string       `json:"notes,omitempty"`
}

// listedBody is what a document has.
type listedBody struct {
	Operations []openapi.Operation `json:"operations"`
	LeftOut    []openapi.Left      `json:"leftOut,omitempty"`
}

// imported is what the flags of the command say.
type imported struct {
	openapi.Options

	source, out  string
	allowRef     []string
	list, strict bool
	graphql      graphqlImport
}

// importToolset makes a toolset of an OpenAPI document.
func (c *cli) importToolset() *cobra.Command {
	var i imported
	s := shell.Spec{Use: "import", Short: "Turn an OpenAPI or Swagger document, or a GraphQL schema, into a toolset", Example: "portico toolset import --openapi https://api.example.com/openapi.json --name pets", JSON: true}
	cmd := c.Command(s, func(cmd *cobra.Command, _ []string) error {
		if i.Key == "" && !i.list {
			return fmt.Errorf("--name is missing: it is the key of the toolset: %w", shell.ErrUsage)
		}
		if i.graphql.source != "" {
			return c.importGraphQL(cmd, i)
		}
		r, err := newDocumentReader(i.source, i.Egress, i.allowRef)
		if err != nil {
			return err
		}
		defer r.close()
		document, err := r.read(cmd.Context(), r.source)
		if err != nil {
			return err
		}
		i.Location, i.Read = r.source, r.read
		if i.list {
			return c.listOperations(cmd.Context(), document, i)
		}
		made, err := openapi.Convert(cmd.Context(), document, i.Options)
		if err != nil {
			return err
		}
		return c.keepImported(cmd, i, made)
	})
	flags := cmd.Flags()
	flags.StringVar(&i.source, "openapi", "", "the document: a file, or a URL")
	flags.StringVar(&i.Key, "name", "", "key of the toolset; needed unless --list is given")
	flags.BoolVar(&i.list, "list", false, "show the operations that are chosen, and make nothing")
	flags.StringSliceVar(&i.Tags, "tag", nil, "only operations with these tags, and those of --operation")
	flags.StringSliceVar(&i.Operations, "operation", nil, "only operations with these operationIds, and those of --tag")
	flags.BoolVar(&i.ReadOnly, "read-only", false, "only operations that read: GET and HEAD")
	flags.BoolVar(&i.strict, "strict", false, "make nothing where something would be left out")
	flags.StringVar(&i.Domain, "domain", "", "where the API is, if the document does not say it")
	flags.StringToStringVar(&i.ServerVariables, "server-var", nil, "a variable of the document's server, as NAME=VALUE")
	flags.StringSliceVar(&i.Security, "security", nil, "the security schemes that calls use; the ones of most operations if not given")
	flags.BoolVar(&i.Bearer, "bearer", false, "calls carry a bearer token, whatever the document says")
	flags.StringVar(&i.Price, "price", "0", "credits of a call")
	flags.StringVar(&i.out, "out", "", "write a toolset file instead of loading it; - prints it, with --json as content")
	flags.StringSliceVar(&i.Egress, "egress", nil, "networks beyond the public internet where the document and the API are")
	flags.StringSliceVar(&i.allowRef, "allow-ref", nil, "folders outside the document's own where files are that it refers to")
	i.graphql.flags(flags)
	cmd.MarkFlagsOneRequired("openapi", "graphql")
	cmd.MarkFlagsMutuallyExclusive("openapi", "graphql")
	return cmd
}

// listOperations shows what a document has.
func (c *cli) listOperations(ctx context.Context, document []byte, i imported) error {
	found, left, err := openapi.List(ctx, document, i.Options)
	if err != nil {
		return err
	}
	if i.strict && len(left) > 0 {
		return leftOut(left)
	}
	return c.Answer(listedBody{found, left}, func() error {
		err := c.Table("METHOD | PATH | NAME | READS ONLY | SUMMARY", func(w io.Writer) {
			for _, o := range found {
				only := "no"
				if o.ReadOnly {
					only = "yes"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", o.Method, o.Path, o.Name, only, strings.Join(strings.Fields(o.Summary), " "))
			}
		})()
		c.tellLeft(left, nil)
		return err
	})
}

// keepImported loads what was made, or writes it.
func (c *cli) keepImported(cmd *cobra.Command, i imported, made openapi.Toolset) error {
	if i.strict && len(made.LeftOut) > 0 {
		return leftOut(made.LeftOut)
	}
	body := importedBody{Methods: made.Methods, LeftOut: made.LeftOut, Notes: made.Notes}
	if i.out != "" {
		if i.out == "-" {
			body.Content = string(made.File)
			return c.Answer(body, func() error {
				c.tellLeft(made.LeftOut, made.Notes)
				_, err := c.Stdout.Write(made.File)
				return err
			})
		}
		if err := os.WriteFile(i.out, made.File, 0o600); err != nil {
			return err
		}
		body.File = i.out
		return c.Answer(body, c.told(made, "%s: %d methods", i.out, made.Methods))
	}
	return c.With(cmd, func(ctx context.Context, a *app.App) error {
		if _, err := a.ToolsetFiles.Apply(ctx, []file.File{{Name: i.Key, Content: made.File}}); err != nil {
			return err
		}
		body.Toolset = i.Key
		return c.Answer(body, c.told(made, "toolset %s: %d methods", i.Key, made.Methods))
	})
}

// told is a line for people, with what was left out on the standard error.
func (c *cli) told(made openapi.Toolset, format string, args ...any) func() error {
	return func() error {
		c.tellLeft(made.LeftOut, made.Notes)
		return c.Line(format, args...)()
	}
}

func (c *cli) tellLeft(left []openapi.Left, notes []string) {
	for _, l := range left {
		fmt.Fprintln(c.Stderr, "warning:", l)
	}
	for _, n := range notes {
		fmt.Fprintln(c.Stderr, "note:", n)
	}
}

// leftOut is the error of --strict.
func leftOut(left []openapi.Left) error {
	lines := make([]string, len(left))
	for i, l := range left {
		lines[i] = l.String()
	}
	return errs.Newf(errs.Invalid, "Something would be left out:\n%s", strings.Join(lines, "\n")).Do("Choose operations with --tag and --operation, or import without --strict.")
}
