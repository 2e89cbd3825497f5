package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/cli/shell"
	"github.com/portico-run/portico/modules/run/retention"
)

type keptBody struct {
	Table   string `json:"table"`
	Kept    string `json:"kept"`
	Setting string `json:"setting"`
	Due     int64  `json:"due"`
}

func (c *cli) retention() *cobra.Command {
	s := shell.Spec{Use: "show", Short: "Show how long the rows of each table are kept, and what would be deleted now", Example: "portico retention show", JSON: true}
	return c.Group("retention", "How long things are kept", c.Command(s, func(cmd *cobra.Command, _ []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			lines, err := a.Retention.Show(ctx)
			if err != nil {
				return err
			}
			bodies := make([]keptBody, len(lines))
			for i, l := range lines {
				bodies[i] = keptBody{Table: l.Table, Kept: kept(l), Setting: l.Setting, Due: l.Due}
			}
			return c.Answer(bodies, c.Table("TABLE | DUE NOW | SETTING | KEPT", func(w io.Writer) {
				for _, b := range bodies {
					due := ""
					switch {
					case b.Due == retention.MaxDue:
						due = fmt.Sprintf("%d or more", b.Due)
					case b.Setting != "":
						due = fmt.Sprint(b.Due)
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", b.Table, due, b.Setting, b.Kept)
				}
			}))
		})
	}))
}

// kept says in words how long rows are kept.
func kept(l retention.Line) string {
	switch {
	case l.Keep > 0:
		const day = 24 * time.Hour
		if l.Keep%day == 0 {
			return fmt.Sprintf("%dd after the end", l.Keep/day)
		}
		return fmt.Sprintf("%s after the end", l.Keep)
	case l.Setting != "":
		return "for ever"
	case l.With != "":
		return "with " + l.With
	case l.Ends != "":
		return "until " + l.Ends
	}
	return "for ever: " + l.Kept
}

type holdingsBody struct {
	Named   int      `json:"named"`
	Missing []string `json:"missing"`
	Orphans []string `json:"orphans"`
}

func (c *cli) storage() *cobra.Command {
	s := shell.Spec{
		Use: "verify", Short: "Prove that every object that the database names is in the object storage, and list those that it does not name",
		Example: "portico storage verify", JSON: true,
	}
	return c.Group("storage", "The object storage", c.Command(s, func(cmd *cobra.Command, _ []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			r, err := a.Holdings.Verify(ctx)
			if err != nil {
				return err
			}
			body := holdingsBody{Named: r.Named, Missing: append([]string{}, r.Missing...), Orphans: append([]string{}, r.Orphans...)}
			err = c.Answer(body, func() error {
				for _, key := range r.Missing {
					fmt.Fprintf(c.Stdout, "missing   %s\n", key)
				}
				for _, key := range r.Orphans {
					fmt.Fprintf(c.Stdout, "orphaned  %s\n", key)
				}
				fmt.Fprintf(c.Stdout, "Objects that the database names: %d, missing: %d, orphaned: %d\n", r.Named, len(r.Missing), len(r.Orphans))
				return nil
			})
			if err == nil && len(r.Missing) > 0 {
				err = fmt.Errorf("%d of %d objects are missing", len(r.Missing), r.Named)
			}
			return err
		})
	}))
}
