package shell

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/modules/app"
)

// Doomed is something that is to be deleted.
type Doomed struct {
	What  string   // for a person: "user anna"
	Name  string   // for a script: its id, name or key
	Along []string // what goes with it
	Stays []string // what does not, where that may surprise
	// Delete does it. It refuses what must not be deleted.
	Delete func(ctx context.Context) error
}

type deletedBody struct {
	Deleted string   `json:"deleted"`
	Along   []string `json:"along"`
}

// Deletion makes a command that deletes what find returns. Without --yes it only
// says what that would take along.
func (c *Shell) Deletion(s Spec, find func(ctx context.Context, a *app.App, name string) (Doomed, error)) *cobra.Command {
	var yes bool
	s.JSON = true
	cmd := c.Command(s, func(cmd *cobra.Command, args []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			d, err := find(ctx, a, args[0])
			if err != nil {
				return err
			}
			if !yes {
				c.foretell(d)
				return fmt.Errorf("%w: repeat the command with --yes to delete %s", errRefused, d.What)
			}
			if err := d.Delete(ctx); err != nil {
				return err
			}
			body := deletedBody{Deleted: d.Name, Along: append([]string{}, d.Along...)}
			return c.Answer(body, c.Line("deleted %s", d.What))
		})
	})
	cmd.Flags().BoolVar(&yes, "yes", false, "delete; without it the command says what would be deleted")
	return cmd
}

func (c *Shell) foretell(d Doomed) {
	fmt.Fprintf(c.Stderr, "This would delete %s.\n", d.What)
	for _, a := range d.Along {
		fmt.Fprintf(c.Stderr, "  with it: %s\n", a)
	}
	for _, s := range d.Stays {
		fmt.Fprintf(c.Stderr, "  stays:   %s\n", s)
	}
}
