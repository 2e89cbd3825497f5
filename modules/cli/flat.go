package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/cli/shell"
	"github.com/portico-run/portico/modules/program/flat"
	"github.com/portico-run/portico/modules/toolset/mark"
)

// tool holds the commands about tools that programs call as plain functions.
func (c *cli) tool() *cobra.Command {
	return c.Group("tool", "Tools that programs call as plain functions", c.toolMark(), c.toolUnmark(), c.toolList())
}

func (c *cli) toolMark() *cobra.Command {
	var m mark.Mark
	s := shell.Spec{
		Use: "mark TOOLSET TOOL", Short: "Let programs call a tool as a plain function", JSON: true,
		Example: "portico tool mark demo get_weather\nportico tool mark github github__search_code --as search_code --read-only",
	}
	cmd := c.Command(s, func(cmd *cobra.Command, args []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			m.Toolset, m.Tool = args[0], args[1]
			made, err := a.Flat.Service.Mark(ctx, m)
			if err != nil {
				return err
			}
			return c.Answer(made, func() error {
				_, err := fmt.Fprintf(c.Stdout, "Programs call %s of %s as %s(...).\n", made.Tool, made.Toolset, made.Name)
				return err
			})
		})
	})
	cmd.Flags().StringVar(&m.Name, "as", "", "the name of the function; the tool's own when left out")
	cmd.Flags().BoolVar(&m.ReadOnly, "read-only", false, "the tool changes nothing; so it is with GET")
	cmd.Flags().BoolVar(&m.Idempotent, "idempotent", false, "calling it twice is calling it once")
	return cmd
}

func (c *cli) toolUnmark() *cobra.Command {
	s := shell.Spec{Use: "unmark TOOLSET TOOL", Short: "Take a plain function away from programs", Example: "portico tool unmark demo get_weather"}
	return c.Command(s, func(cmd *cobra.Command, args []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			return a.Flat.Service.Unmark(ctx, args[0], args[1])
		})
	})
}

func (c *cli) toolList() *cobra.Command {
	s := shell.Spec{Use: "list", Short: "List the tools that programs call as plain functions", Example: "portico tool list", JSON: true}
	return c.Command(s, func(cmd *cobra.Command, _ []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			list, err := a.Flat.Service.Marks(ctx)
			if err != nil {
				return err
			}
			return c.Answer(list, c.Table("FUNCTION | TOOLSET | TOOL | WHY | FROM | PROBLEM", func(w io.Writer) {
				for _, m := range list {
					why, from := "idempotent", "operator"
					if m.ReadOnly {
						why = "read-only"
					}
					if m.FromFile {
						from = "file"
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", m.Name, m.Toolset, m.Tool, why, from, m.Problem)
				}
			}))
		})
	})
}

// stubs prints the functions for sandboxes that are not this server's.
func (c *cli) stubs() *cobra.Command {
	var callback flat.Callback
	s := shell.Spec{
		Use: "stubs", Short: "Print the plain functions as Python, for a sandbox that is not this server's",
		Example: "portico stubs > functions.py\nportico stubs --local\nportico stubs --callback-url http://10.0.0.5:5800",
	}
	cmd := c.Command(s, func(cmd *cobra.Command, _ []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			text, err := a.Flat.Service.Stubs(ctx, actor.Actor{}, callback)
			if err != nil {
				return err
			}
			_, err = io.WriteString(c.Stdout, text)
			return err
		})
	})
	cmd.Flags().StringVar(&callback.URL, "callback-url", "", "where the sandbox reaches this server; http://host.docker.internal:PORT when left out")
	cmd.Flags().BoolVar(&callback.Local, "local", false, "the sandbox is a process of this machine: http://127.0.0.1:PORT")
	return cmd
}
