package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/cli/shell"
)

type stepBody struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
	Applied bool   `json:"applied"`
}

func (c *cli) migrate() *cobra.Command {
	command := func(use, short string, work func(ctx context.Context, a *app.App) error) *cobra.Command {
		return c.Command(shell.Spec{Use: use, Short: short, Example: "portico migrate " + use, JSON: true}, func(cmd *cobra.Command, _ []string) error {
			return c.Without(cmd, work)
		})
	}
	up := command("up", "Apply every migration that is not applied", func(ctx context.Context, a *app.App) error {
		n, err := a.DB.Migrate(ctx)
		if err != nil {
			return err
		}
		return c.Answer(map[string]int{"applied": n}, c.Line("%d migrations applied", n))
	})
	var all bool
	down := command("down", "Revert the newest migration", func(ctx context.Context, a *app.App) error {
		n, err := a.DB.MigrateDown(ctx, all)
		if err != nil {
			return err
		}
		return c.Answer(map[string]int{"reverted": n}, c.Line("%d migrations reverted", n))
	})
	down.Flags().BoolVar(&all, "all", false, "revert all of them; every record is lost")
	status := command("status", "List the migrations", func(ctx context.Context, a *app.App) error {
		steps, err := a.DB.Steps(ctx)
		if err != nil {
			return err
		}
		bodies := make([]stepBody, len(steps))
		for i, s := range steps {
			bodies[i] = stepBody{s.Version, s.Name, s.Applied}
		}
		return c.Answer(bodies, c.Table("", func(w io.Writer) {
			for _, s := range bodies {
				state := "not applied"
				if s.Applied {
					state = "applied"
				}
				fmt.Fprintf(w, "%d\t%s\t%s\n", s.Version, s.Name, state)
			}
		}))
	})
	return c.Group("migrate", "Change the database's schema", status, up, down)
}
