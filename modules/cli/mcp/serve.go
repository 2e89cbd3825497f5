package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/modules/cli/mcp/stdio"
	"github.com/portico-run/portico/modules/cli/shell"
)

// Variables of whoever uses a server from elsewhere, as programs outside of it have
// them: docs/sdk.md.
const (
	variableURL = "PORTICO_API"
	variableKey = "PORTICO_API_KEY"
	usualURL    = "http://localhost:5800"
	path        = "/mcp"
)

// endpoint is the address of the server's MCP endpoint.
func (c commands) endpoint(flag string) (string, error) {
	given := cmp.Or(flag, shell.Environment(c.Environ)[variableURL], usualURL)
	u, err := url.Parse(given)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("%q is no address of a server, such as %s: %w", given, usualURL, shell.ErrUsage)
	}
	return strings.TrimSuffix(strings.TrimSuffix(given, "/"), path) + path, nil
}

const urlFlag = "address of the Portico server; without it, $" + variableURL + ", else " + usualURL

// serve holds the command that is an MCP server on its standard input and output.
func (c commands) serve() *cobra.Command {
	var given string
	cmd := c.Command(shell.Spec{
		Use: "serve", Short: "Be an MCP server on standard input and output, for a Portico server that runs elsewhere",
		Example: "PORTICO_API_KEY=rf_… portico mcp serve --url https://portico.example.com",
	}, func(cmd *cobra.Command, _ []string) error {
		endpoint, err := c.endpoint(given)
		if err != nil {
			return err
		}
		key := shell.Environment(c.Environ)[variableKey]
		if key == "" {
			return errors.New("set " + variableKey + " to your API key; portico key create makes one")
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = stdio.Bridge{URL: endpoint, Key: key, Client: &http.Client{}}.Serve(ctx, cmd.InOrStdin(), c.Stdout)
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	})
	cmd.Flags().StringVar(&given, "url", "", urlFlag)
	return cmd
}
