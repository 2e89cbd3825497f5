package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/modules/account"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/cli/shell"
)

// keyBody is a key without its secret, but where it was created just now.
type keyBody struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	User       string     `json:"user"`
	UID        string     `json:"uid"`
	Prefix     string     `json:"prefix"`
	Key        string     `json:"key,omitempty"`
	CreatedAt  time.Time  `json:"createdAt"`
	LastUsedAt *time.Time `json:"lastUsedAt"`
	ExpiresAt  *time.Time `json:"expiresAt"`
	Scopes     []string   `json:"scopes"`
	Model      string     `json:"model"`
}

func toKey(k account.Key, user string) keyBody {
	return keyBody{
		ID: k.ID, Name: k.Name, User: user, UID: k.UID, Prefix: k.Prefix,
		CreatedAt: k.CreatedAt, LastUsedAt: k.LastUsedAt, ExpiresAt: k.ExpiresAt, Scopes: k.Rights.Names(), Model: k.Model,
	}
}

func (c *cli) key() *cobra.Command {
	show := c.Command(shell.Spec{Use: "show KEY-ID", Short: "Show a key, without its secret", Example: "portico key show ak-x3k9", JSON: true},
		func(cmd *cobra.Command, args []string) error {
			return c.With(cmd, func(ctx context.Context, a *app.App) error {
				k, user, err := keyByID(ctx, a, args[0])
				if err != nil {
					return err
				}
				return c.Answer(toKey(k, user.Name), c.Table("", func(w io.Writer) {
					fmt.Fprintf(w, "id\t%s\nname\t%s\nuser\t%s\nbegins with\t%s\n", k.ID, k.Name, user.Name, k.Prefix)
					fmt.Fprintf(w, "created\t%s\nlast used\t%s\nexpires\t%s\nmay\t%s\n", shell.Moment(&k.CreatedAt), shell.Moment(k.LastUsedAt), shell.Moment(k.ExpiresAt), may(k.Rights))
				}))
			})
		})
	remove := c.Deletion(shell.Spec{Use: "delete KEY-ID", Short: "Revoke a key at once", Example: "portico key delete ak-x3k9 --yes"},
		func(ctx context.Context, a *app.App, id string) (shell.Doomed, error) {
			k, user, err := keyByID(ctx, a, id)
			return shell.Doomed{
				What: fmt.Sprintf("the key %q of %s (%s…)", k.Name, user.Name, k.Prefix), Name: k.ID,
				Delete: func(ctx context.Context) error {
					return a.Accounts.Service.RevokeKey(ctx, actor.Actor{UID: k.UID}, k.ID)
				},
			}, err
		})
	return c.Group("key", "API keys, and the key that seals what is stored", c.keyCreate(), c.keyList(), show, c.keyModel(), c.keyRotate(), remove)
}

func (c *cli) keyModel() *cobra.Command {
	s := shell.Spec{
		Use: "model KEY-ID NAME", Short: "Choose the model of agents that are asked with a key and name none; an empty name is the first model", JSON: true,
		Example: "portico key model ak-x3k9 small",
	}
	return c.Command(s, func(cmd *cobra.Command, args []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			if name := args[1]; name != "" && (a.Models == nil || !a.Models.Has(name)) {
				return noModel(name)
			}
			k, user, err := keyByID(ctx, a, args[0])
			if err != nil {
				return err
			}
			if err := a.Accounts.Service.ChooseModel(ctx, actor.Actor{UID: k.UID}, k.ID, args[1]); err != nil {
				return err
			}
			k.Model = args[1]
			return c.Answer(toKey(k, user.Name), c.Line("agents that are asked with the key %q of %s have the model %q", k.Name, user.Name, k.Model))
		})
	})
}

func keyByID(ctx context.Context, a *app.App, id string) (k account.Key, user account.User, err error) {
	if k, err = a.Accounts.Service.KeyByID(ctx, id); err == nil {
		user, err = userByUID(ctx, a, k.UID)
	}
	return k, user, err
}

func (c *cli) keyCreate() *cobra.Command {
	var user, name string
	var days int
	var scopes []string
	s := shell.Spec{Use: "create", Short: "Create an API key; it is shown this once", Example: "portico key create --user admin --days 30", JSON: true}
	create := c.Command(s, func(cmd *cobra.Command, _ []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			u, err := a.Accounts.Service.UserByName(ctx, user)
			if err != nil {
				return err
			}
			k, plain, err := a.Accounts.Service.CreateKey(ctx, actor.Actor{UID: u.UID, Scope: actor.Full}, name, days, scopes...)
			if err != nil {
				return err
			}
			body := toKey(k, u.Name)
			body.Key = plain.Reveal()
			return c.Answer(body, c.Line("%s", plain.Reveal()))
		})
	})
	create.Flags().StringVar(&user, "user", "", "name of the user it belongs to")
	create.Flags().StringVar(&name, "name", "made on the command line", "name of the key")
	create.Flags().IntVar(&days, "days", 0, "days it lives; 0 for ever")
	create.Flags().StringSliceVar(&scopes, "scope", nil, "what it may do: read, run (programs, agents and tools), tools; everything when left out")
	shell.Required(create, "user")
	return create
}

// may says what a key may do.
func may(r actor.Rights) string {
	if r == 0 {
		return "everything"
	}
	return r.String()
}

func (c *cli) keyList() *cobra.Command {
	var user string
	s := shell.Spec{Use: "list", Short: "List the keys that are not revoked, newest first", Example: "portico key list --user admin", JSON: true}
	list := c.Command(s, func(cmd *cobra.Command, _ []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			uid := ""
			if user != "" {
				u, err := a.Accounts.Service.UserByName(ctx, user)
				if err != nil {
					return err
				}
				uid = u.UID
			}
			users, err := a.Accounts.Service.Users(ctx)
			if err != nil {
				return err
			}
			names := map[string]string{}
			for _, u := range users {
				names[u.UID] = u.Name
			}
			keys, err := a.Accounts.Service.KeysOf(ctx, uid)
			if err != nil {
				return err
			}
			bodies := make([]keyBody, len(keys))
			for i, k := range keys {
				bodies[i] = toKey(k, names[k.UID])
			}
			return c.Answer(bodies, c.Table("ID | USER | NAME | BEGINS WITH | CREATED | LAST USED | EXPIRES | SCOPES", func(w io.Writer) {
				for _, k := range bodies {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.User, k.Name, k.Prefix, shell.Moment(&k.CreatedAt), shell.Moment(k.LastUsedAt), shell.Moment(k.ExpiresAt), strings.Join(k.Scopes, ","))
				}
			}))
		})
	})
	list.Flags().StringVar(&user, "user", "", "only the keys of this user")
	return list
}
