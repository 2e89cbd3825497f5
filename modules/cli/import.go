package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/internal/egress"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/cli/shell"
	"github.com/portico-run/portico/modules/connector/rest/openapi"
	"github.com/portico-run/portico/modules/toolset/file"
)

// importedBody names what was written: a toolset, or a file.
type importedBody struct {
	Toolset string `json:"toolset,omitempty"`
	File    string `json:"file,omitempty"`
	Methods int    `json:"methods"`
}

// importToolset makes a toolset of an OpenAPI document.
func (c *cli) importToolset() *cobra.Command {
	var source, out string
	var o openapi.Options
	s := shell.Spec{Use: "import", Short: "Turn an OpenAPI 3 document into a toolset", Example: "portico toolset import --openapi https://api.example.com/openapi.json --name pets", JSON: true}
	cmd := c.Command(s, func(cmd *cobra.Command, _ []string) error {
		document, err := readDocument(cmd.Context(), source, o.Egress)
		if err != nil {
			return err
		}
		made, err := openapi.Convert(cmd.Context(), document, o)
		if err != nil {
			return err
		}
		warned := map[string]bool{}
		for _, w := range made.Warnings {
			if !warned[w] {
				fmt.Fprintln(c.Stderr, "warning:", w)
			}
			warned[w] = true
		}
		switch out {
		case "-":
			_, err = c.Stdout.Write(made.File)
			return err
		case "":
		default:
			if err := os.WriteFile(out, made.File, 0o600); err != nil {
				return err
			}
			return c.Answer(importedBody{File: out, Methods: made.Methods}, c.Line("%s: %d methods", out, made.Methods))
		}
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			if _, err := a.ToolsetFiles.Apply(ctx, []file.File{{Name: o.Key, Content: made.File}}); err != nil {
				return err
			}
			return c.Answer(importedBody{Toolset: o.Key, Methods: made.Methods}, c.Line("toolset %s: %d methods", o.Key, made.Methods))
		})
	})
	cmd.Flags().StringVar(&source, "openapi", "", "the document: a file, or a URL")
	cmd.Flags().StringVar(&o.Key, "name", "", "key of the toolset")
	cmd.Flags().StringSliceVar(&o.Tags, "tag", nil, "only operations with these tags, and those of --operation")
	cmd.Flags().StringSliceVar(&o.Operations, "operation", nil, "only operations with these operationIds, and those of --tag")
	cmd.Flags().StringVar(&o.Domain, "domain", "", "where the API is, if the document does not say it")
	cmd.Flags().StringVar(&o.Price, "price", "0", "credits of a call")
	cmd.Flags().StringVar(&out, "out", "", "write a toolset file instead of loading it; - prints it")
	cmd.Flags().StringSliceVar(&o.Egress, "egress", nil, "networks beyond the public internet where the document and the API are")
	shell.Required(cmd, "openapi", "name")
	return cmd
}

// Limits of a document.
const (
	maxDocument     = 32 << 20
	documentTimeout = time.Minute
)

// readDocument reads a file, or what is behind a URL.
func readDocument(ctx context.Context, source string, networks []string) ([]byte, error) {
	if !strings.HasPrefix(source, "http://") && !strings.HasPrefix(source, "https://") {
		return os.ReadFile(source)
	}
	var allow []netip.Prefix
	for _, text := range networks {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("--egress: %w: %w", err, shell.ErrUsage)
		}
		allow = append(allow, p)
	}
	ctx, cancel := context.WithTimeout(ctx, documentTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, source, nil)
	if err != nil {
		return nil, err
	}
	client := egress.New(egress.Config{})
	defer client.Close()
	resp, err := client.Do(r, allow)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", source, resp.Status)
	}
	document, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err == nil && len(document) > maxDocument {
		err = errors.New("the document is too large")
	}
	return document, err
}
