package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/toolset/file"
)

func (c *cli) migrate() *cobra.Command {
	migrate := func(use, short string, work func(ctx context.Context, a *app.App) error) *cobra.Command {
		return c.command(use, short, cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
			a, err := c.open(cmd.Context(), slog.LevelWarn)
			if err != nil {
				return err
			}
			defer func() { _ = a.Close() }()
			return work(cmd.Context(), a)
		})
	}
	up := migrate("up", "Apply every migration that is not applied", func(ctx context.Context, a *app.App) error {
		n, err := a.DB.Migrate(ctx)
		if err == nil {
			fmt.Fprintf(c.stdout, "%d migrations applied\n", n)
		}
		return err
	})
	var all bool
	down := migrate("down", "Revert the newest migration", func(ctx context.Context, a *app.App) error {
		n, err := a.DB.MigrateDown(ctx, all)
		if err == nil {
			fmt.Fprintf(c.stdout, "%d migrations reverted\n", n)
		}
		return err
	})
	down.Flags().BoolVar(&all, "all", false, "revert all of them; every record is lost")
	status := migrate("status", "List the migrations", func(ctx context.Context, a *app.App) error {
		steps, err := a.DB.Steps(ctx)
		if err != nil {
			return err
		}
		return c.table(func(w io.Writer) {
			for _, s := range steps {
				state := "not applied"
				if s.Applied {
					state = "applied"
				}
				fmt.Fprintf(w, "%d\t%s\t%s\n", s.Version, s.Name, state)
			}
		})
	})
	return c.group("migrate", "Change the database's schema", up, down, status)
}

func (c *cli) key() *cobra.Command {
	var user, name string
	var days int
	create := c.command("create", "Create an API key; it is shown this once", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		return c.with(cmd, func(ctx context.Context, a *app.App) error {
			u, err := a.Accounts.Service.UserByName(ctx, user)
			if err != nil {
				return err
			}
			_, plain, err := a.Accounts.Service.CreateKey(ctx, actor.Actor{UID: u.UID, Scope: actor.Full}, name, days)
			if err == nil {
				fmt.Fprintln(c.stdout, plain.Reveal())
			}
			return err
		})
	})
	create.Flags().StringVar(&user, "user", "", "name of the user it belongs to")
	create.Flags().StringVar(&name, "name", "made on the command line", "name of the key")
	create.Flags().IntVar(&days, "days", 0, "days it lives; 0 for ever")
	required(create, "user")
	return c.group("key", "API keys", create)
}

func (c *cli) user() *cobra.Command {
	list := c.command("list", "List every user", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		return c.with(cmd, func(ctx context.Context, a *app.App) error {
			users, err := a.Accounts.Service.Users(ctx)
			if err != nil {
				return err
			}
			return c.table(func(w io.Writer) {
				fmt.Fprintln(w, "UID\tNAME\tEMAIL\tCREATED\tSTATE\tFROM")
				for _, u := range users {
					state, from := "enabled", ""
					if u.Disabled {
						state = "disabled"
					}
					if u.From != nil {
						from = fmt.Sprintf("%s, tenant %s: %s", u.From.Issuer, u.From.Tenant, u.From.Subject)
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", u.UID, u.Name, u.Email, u.CreatedAt.Format(time.RFC3339), state, from)
				}
			})
		})
	})
	var email string
	create := c.command("create NAME", "Create a user", cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		return c.with(cmd, func(ctx context.Context, a *app.App) error {
			u, err := a.Accounts.Service.CreateUser(ctx, args[0], email)
			if err == nil {
				fmt.Fprintln(c.stdout, u.UID)
			}
			return err
		})
	})
	create.Flags().StringVar(&email, "email", "", "the user's address")
	token := c.command("token NAME", "Issue a session token, as the frontend's login does", cobra.ExactArgs(1),
		func(cmd *cobra.Command, args []string) error {
			return c.with(cmd, func(ctx context.Context, a *app.App) error {
				u, err := a.Accounts.Service.UserByName(ctx, args[0])
				if err != nil {
					return err
				}
				token, err := a.Accounts.Service.IssueToken(ctx, actor.Actor{UID: u.UID, Scope: actor.Full})
				if err == nil {
					fmt.Fprintln(c.stdout, token)
				}
				return err
			})
		})
	return c.group("user", "Users", list, create, token,
		c.disable("disable NAME", "Refuse every credential of a user", true), c.disable("enable NAME", "Take the credentials of a disabled user again", false))
}

func (c *cli) disable(use, short string, disabled bool) *cobra.Command {
	return c.command(use, short, cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		return c.with(cmd, func(ctx context.Context, a *app.App) error {
			u, err := a.Accounts.Service.UserByName(ctx, args[0])
			if err != nil {
				return err
			}
			return a.Accounts.Service.Disable(ctx, u.UID, disabled)
		})
	})
}

func (c *cli) toolset() *cobra.Command {
	var path string
	apply := c.command("apply", "Load toolset files, all or nothing", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		files, err := file.Read(path)
		if err != nil {
			return err
		}
		return c.with(cmd, func(ctx context.Context, a *app.App) error {
			r, err := a.ToolsetFiles.Apply(ctx, files)
			if err != nil {
				return err
			}
			for _, line := range []struct {
				what string
				keys []string
			}{{"created", r.Created}, {"updated", r.Updated}, {"unchanged", r.Unchanged}} {
				if len(line.keys) > 0 {
					fmt.Fprintf(c.stdout, "%-9s  %s\n", line.what, strings.Join(line.keys, ", "))
				}
			}
			return nil
		})
	})
	apply.Flags().StringVarP(&path, "file", "f", "", "a file, or a folder of them")
	required(apply, "file")
	return c.group("toolset", "Toolsets that all users share", apply, c.importToolset())
}

func (c *cli) ptc() *cobra.Command {
	var q ptc.Question
	explain := c.command("explain", "Say whether programmatic tool calling is on for a run, and why", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd, func(_ context.Context, a *app.App) error { return c.json(a.PTC.Service.Decide(q)) })
		})
	explain.Flags().StringVar(&q.UID, "uid", "", "the user")
	explain.Flags().StringSliceVar(&q.Toolsets, "toolsets", nil, "toolset keys, comma-separated")
	explain.Flags().StringVar(&q.Title, "title", "", "title of the run")
	required(explain, "uid")
	return c.group("ptc", "Programmatic tool calling", explain)
}

// audit lists who changed credentials, keys and connections.
func (c *cli) audit() *cobra.Command {
	var name string
	cmd := c.command("audit", "List changes to keys, credentials and connections: of a user, or of operators", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		return c.with(cmd, func(ctx context.Context, a *app.App) error {
			who := actor.Actor{UID: audit.Operator}
			if name != "" {
				u, err := a.Accounts.Service.UserByName(ctx, name)
				if err != nil {
					return err
				}
				who.UID = u.UID
			}
			page, err := a.Accounts.Service.Audit(ctx, who, httpapi.PageQuery{Limit: 200})
			if err != nil {
				return err
			}
			return c.table(func(w io.Writer) {
				fmt.Fprintln(w, "WHEN\tWHAT\tOF\tBY KEY")
				for _, e := range page.Items {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", e.CreatedAt.Format(time.RFC3339), e.Action, e.Subject, e.KeyID)
				}
			})
		})
	})
	cmd.Flags().StringVar(&name, "user", "", "name of the user; the operators' changes when left out")
	return cmd
}
