package mcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/cli/shell"
	"github.com/portico-run/portico/modules/connector/mcp/describe"
	"github.com/portico-run/portico/modules/connector/mcp/server"
)

type appliedBody struct {
	Created   []string `json:"created"`
	Updated   []string `json:"updated"`
	Unchanged []string `json:"unchanged"`
	Removed   []string `json:"removed"`
	Problems  []string `json:"problems"`
}

func (c commands) apply() *cobra.Command {
	s := shell.Spec{Use: "apply FILE", Short: "Make the MCP servers of files what the files say", Example: "portico mcp apply mcp.yaml", JSON: true}
	return c.Command(s, func(cmd *cobra.Command, args []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			applied, problems, err := describe.Load(ctx, a.MCPFiles(), args[0], a.Variables())
			if err != nil {
				return err
			}
			all := func(names []string) []string { return append([]string{}, names...) }
			b := appliedBody{all(applied.Created), all(applied.Updated), all(applied.Unchanged), all(applied.Removed), []string{}}
			for _, p := range problems {
				b.Problems = append(b.Problems, p.Error())
			}
			err = c.Answer(b, func() error {
				for _, line := range []struct {
					what  string
					names []string
				}{{"created", b.Created}, {"updated", b.Updated}, {"unchanged", b.Unchanged}, {"removed", b.Removed}} {
					if len(line.names) > 0 {
						fmt.Fprintf(c.Stdout, "%-9s  %s\n", line.what, strings.Join(line.names, ", "))
					}
				}
				return nil
			})
			if err == nil && len(problems) > 0 {
				err = fmt.Errorf("these stay as they were:\n%s", strings.Join(b.Problems, "\n"))
			}
			return err
		})
	})
}

type importedBody struct {
	Added []string   `json:"added"`
	Left  []leftBody `json:"left"`
}

type leftBody struct {
	Server string `json:"server"`
	Reason string `json:"reason"`
}

func (c commands) imports() *cobra.Command {
	var sandbox bool
	s := shell.Spec{Use: "import FILE", Short: "Add the MCP servers of a desktop client's configuration", Example: "portico mcp import claude_desktop_config.json --sandbox", JSON: true}
	cmd := c.ofOwner(s, func(ctx context.Context, a *app.App, owner actor.Actor, args []string) error {
		specs, left, err := describe.Desktop(args[0], shell.Environment(c.Environ))
		if err != nil {
			return err
		}
		b := importedBody{Added: []string{}, Left: []leftBody{}}
		for _, one := range left {
			b.Left = append(b.Left, leftBody(one))
		}
		for _, spec := range specs {
			spec.Sandbox = sandbox && spec.Transport == server.Stdio
			if err := a.Servers.Operators().Add(ctx, owner.UID, spec); err != nil {
				b.Left = append(b.Left, leftBody{spec.Name, shell.Explain(err)})
				continue
			}
			b.Added = append(b.Added, spec.Name)
		}
		return c.Answer(b, func() error {
			fmt.Fprintf(c.Stdout, "added  %s\n", strings.Join(b.Added, ", "))
			for _, one := range b.Left {
				fmt.Fprintf(c.Stdout, "left   %s: %s\n", one.Server, one.Reason)
			}
			return nil
		})
	})
	cmd.Flags().BoolVar(&sandbox, "sandbox", false, "run the commands inside the isolation of the sandbox")
	return cmd
}
