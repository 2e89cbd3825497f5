package mcp

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/cli/shell"
)

// connectBody is where a user authorizes Portico at a server.
type connectBody struct {
	Name       string `json:"name"`
	User       string `json:"user"`
	URL        string `json:"url"`
	Authorized bool   `json:"authorized"`
}

// connect prints an address and begins nothing: only the user can, with a key or
// a session of their own, in the browser that comes back.
func (c commands) connect() *cobra.Command {
	var user string
	s := shell.Spec{Use: "connect NAME", Short: "Print where a user authorizes Portico at an MCP server", Example: "portico mcp connect docs --user anna", JSON: true}
	cmd := c.Command(s, func(cmd *cobra.Command, args []string) error {
		if user == "" {
			return fmt.Errorf("--user missing: say who authorizes it: %w", shell.ErrUsage)
		}
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			who, err := ownerOf(ctx, a, user)
			if err != nil {
				return err
			}
			v, err := a.Servers.Show(ctx, who, args[0])
			if err != nil {
				return err
			}
			if !v.OAuth {
				return errs.Newf(errs.Invalid, "MCP server %s does not use OAuth.", v.Name).Do("Nothing has to be authorized.")
			}
			b := connectBody{v.Name, user, a.Authorizations.ConnectURL(v.Name), v.Authorized}
			return c.Answer(b, func() error {
				if b.Authorized {
					fmt.Fprintf(c.Stderr, "%s has authorized %s; this authorizes it anew\n", b.User, b.Name)
				}
				fmt.Fprintln(c.Stdout, b.URL)
				return nil
			})
		})
	})
	cmd.Flags().StringVar(&user, "user", "", "name of the user who authorizes it")
	return cmd
}
