package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/cli/shell"
)

type linkBody struct {
	Link      string    `json:"link"`
	ExpiresAt time.Time `json:"expiresAt"`
}

func (c *cli) console() *cobra.Command {
	var user string
	s := shell.Spec{
		Use: "console", Short: "Print a link that signs a user in to the console, once, within five minutes",
		Example: "portico console\nportico console --user anna", JSON: true,
	}
	cmd := c.Command(s, func(cmd *cobra.Command, _ []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			u, err := a.Accounts.Service.UserByName(ctx, user)
			if err != nil {
				return err
			}
			link, expires, err := a.SignIn.Service.Link(ctx, u)
			if err != nil {
				return err
			}
			return c.Answer(linkBody{link, expires}, c.Line("%s", link))
		})
	})
	cmd.Flags().StringVar(&user, "user", app.FirstUser, "name of the user")
	return cmd
}
