package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/account"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/cli/shell"
)

type userBody struct {
	UID       string    `json:"uid"`
	Name      string    `json:"name"`
	Email     string    `json:"email"`
	Disabled  bool      `json:"disabled"`
	Role      string    `json:"role"`
	CreatedAt time.Time `json:"createdAt"`
	// From is where a user comes from that a host's token made.
	From *fromBody `json:"from"`
}

// shownUser is a user with what they have.
type shownUser struct {
	userBody

	Has []holdingBody `json:"has"`
}

type fromBody struct {
	Issuer  string `json:"issuer"`
	Tenant  string `json:"tenant"`
	Subject string `json:"subject"`
}

type holdingBody struct {
	What  string `json:"what"`
	Count int64  `json:"count"`
	Stays bool   `json:"keepsUser"`
}

func toUser(u account.User) userBody {
	body := userBody{UID: u.UID, Name: u.Name, Email: u.Email, Disabled: u.Disabled, Role: u.Role(), CreatedAt: u.CreatedAt}
	if u.From != nil {
		body.From = &fromBody{u.From.Issuer, u.From.Tenant, u.From.Subject}
	}
	return body
}

func (u userBody) state() string {
	if u.Disabled {
		return "disabled"
	}
	return "enabled"
}

func (u userBody) origin() string {
	if u.From == nil {
		return ""
	}
	return fmt.Sprintf("%s, tenant %s: %s", u.From.Issuer, u.From.Tenant, u.From.Subject)
}

func (c *cli) user() *cobra.Command {
	return c.Group("user", "Users", c.userCreate(), c.userList(), c.userShow(), c.userDelete(), c.userErase(), c.userToken(),
		c.userRole(), c.userPassword(), c.userInvite(),
		c.disable(shell.Spec{Use: "disable NAME", Short: "Refuse every credential of a user", Example: "portico user disable anna"}, true),
		c.disable(shell.Spec{Use: "enable NAME", Short: "Take the credentials of a disabled user again", Example: "portico user enable anna"}, false))
}

func (c *cli) userList() *cobra.Command {
	return c.Command(shell.Spec{Use: "list", Short: "List every user", Example: "portico user list", JSON: true}, func(cmd *cobra.Command, _ []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			users, err := a.Accounts.Service.Users(ctx)
			if err != nil {
				return err
			}
			bodies := make([]userBody, len(users))
			for i, u := range users {
				bodies[i] = toUser(u)
			}
			return c.Answer(bodies, c.Table("UID | NAME | EMAIL | CREATED | STATE | ROLE | FROM", func(w io.Writer) {
				for _, u := range bodies {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", u.UID, u.Name, u.Email, shell.Moment(&u.CreatedAt), u.state(), u.Role, u.origin())
				}
			}))
		})
	})
}

func (c *cli) userShow() *cobra.Command {
	s := shell.Spec{Use: "show NAME", Short: "Show a user and what they have", Example: "portico user show anna", JSON: true}
	return c.Command(s, func(cmd *cobra.Command, args []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			u, held, err := userWith(ctx, a, args[0])
			if err != nil {
				return err
			}
			body := shownUser{toUser(u), []holdingBody{}}
			for _, h := range held {
				body.Has = append(body.Has, holdingBody(h))
			}
			return c.Answer(body, c.Table("", func(w io.Writer) {
				fmt.Fprintf(w, "uid\t%s\nname\t%s\nemail\t%s\ncreated\t%s\nstate\t%s\nrole\t%s\nfrom\t%s\n", u.UID, u.Name, u.Email, shell.Moment(&u.CreatedAt), body.state(), body.Role, body.origin())
				for _, h := range held {
					fmt.Fprintf(w, "%s\t%d\n", h.What, h.Count)
				}
			}))
		})
	})
}

func userWith(ctx context.Context, a *app.App, name string) (account.User, []account.Holding, error) {
	u, err := a.Accounts.Service.UserByName(ctx, name)
	if err != nil {
		return u, nil, err
	}
	if u, err = userByUID(ctx, a, u.UID); err != nil { // with where they come from
		return u, nil, err
	}
	held, err := a.Accounts.Service.Holdings(ctx, u.UID)
	return u, held, err
}

// userByUID finds a user by id.
func userByUID(ctx context.Context, a *app.App, uid string) (account.User, error) {
	users, err := a.Accounts.Service.Users(ctx)
	if err != nil {
		return account.User{}, err
	}
	i := slices.IndexFunc(users, func(u account.User) bool { return u.UID == uid })
	if i < 0 {
		return account.User{}, account.ErrUserMissing
	}
	return users[i], nil
}

func (c *cli) userDelete() *cobra.Command {
	s := shell.Spec{Use: "delete NAME", Short: "Delete a user of whom no records are kept", Example: "portico user delete anna --yes"}
	return c.Deletion(s, func(ctx context.Context, a *app.App, name string) (shell.Doomed, error) {
		u, held, err := userWith(ctx, a, name)
		if err != nil {
			return shell.Doomed{}, err
		}
		if api := a.Config.CodeAPI; !api.Auth && api.User == u.Name {
			return shell.Doomed{}, errs.Newf(errs.Conflict, "User %s is CODEAPI_USER: callers without a credential are this user.", u.Name).Do("Set another CODEAPI_USER before.")
		}
		if err := a.Accounts.Service.Deletable(ctx, u); err != nil {
			return shell.Doomed{}, err
		}
		d := shell.Doomed{What: "user " + u.Name, Name: u.Name, Delete: func(ctx context.Context) error { return a.Accounts.Service.DeleteUser(ctx, u) }}
		for _, h := range held {
			d.Along = append(d.Along, fmt.Sprintf("%s: %d", h.What, h.Count))
		}
		d.Stays = []string{"the audit log"}
		return d, nil
	})
}

func (c *cli) userCreate() *cobra.Command {
	var email string
	s := shell.Spec{Use: "create NAME", Short: "Create a user", Example: "portico user create anna --email anna@example.com", JSON: true}
	create := c.Command(s, func(cmd *cobra.Command, args []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			u, err := a.Accounts.Service.CreateUser(ctx, args[0], email)
			if err != nil {
				return err
			}
			return c.Answer(toUser(u), c.Line("%s", u.UID))
		})
	})
	create.Flags().StringVar(&email, "email", "", "e-mail address of the user")
	return create
}

func (c *cli) userToken() *cobra.Command {
	s := shell.Spec{Use: "token NAME", Short: "Issue a session token, as the frontend's login does", Example: "portico user token admin", JSON: true}
	return c.Command(s, func(cmd *cobra.Command, args []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			u, err := a.Accounts.Service.UserByName(ctx, args[0])
			if err != nil {
				return err
			}
			token, err := a.Accounts.Service.IssueToken(ctx, actor.Actor{UID: u.UID, Scope: actor.Full})
			if err != nil {
				return err
			}
			return c.Answer(map[string]string{"token": token}, c.Line("%s", token))
		})
	})
}

func (c *cli) disable(s shell.Spec, disabled bool) *cobra.Command {
	return c.Command(s, func(cmd *cobra.Command, args []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			u, err := a.Accounts.Service.UserByName(ctx, args[0])
			if err != nil {
				return err
			}
			return a.Accounts.Service.Disable(ctx, u.UID, disabled)
		})
	})
}
