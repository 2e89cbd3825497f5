package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/modules/account"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/cli/shell"
)

func (c *cli) userErase() *cobra.Command {
	s := shell.Spec{
		Use: "erase USER", Short: "Erase everything of a user, by id, name or e-mail address; amounts of credits stay",
		Example: "portico user erase anna@example.com --yes",
	}
	return c.Deletion(s, func(ctx context.Context, a *app.App, name string) (shell.Doomed, error) {
		u, err := anyUser(ctx, a, name)
		if err != nil {
			return shell.Doomed{}, err
		}
		users, err := a.Accounts.Service.Users(ctx)
		if err == nil && len(users) == 1 {
			err = account.ErrLastUser
		}
		if err != nil {
			return shell.Doomed{}, err
		}
		held, err := a.Accounts.Service.Holdings(ctx, u.UID)
		if err != nil {
			return shell.Doomed{}, err
		}
		d := shell.Doomed{What: "everything of user " + u.Name, Name: u.UID, Stays: []string{"amounts and dates of credits, and what was done, under the id " + u.UID}}
		for _, h := range held {
			d.Along = append(d.Along, fmt.Sprintf("%s: %d", h.What, h.Count))
		}
		d.Delete = func(ctx context.Context) error {
			_, err := a.Erase(ctx, operator(), u.UID)
			return err
		}
		return d, nil
	})
}

// anyUser finds a user by id, name or e-mail address.
func anyUser(ctx context.Context, a *app.App, name string) (account.User, error) {
	u, err := userByUID(ctx, a, name)
	if errors.Is(err, account.ErrUserMissing) {
		u, _, err = a.Accounts.Service.ByLogin(ctx, name)
	}
	return u, err
}
