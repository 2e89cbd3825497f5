package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/cli/shell"
)

type nodeBody struct {
	ID        string    `json:"id"`
	Address   string    `json:"address"`
	Version   string    `json:"version"`
	Role      string    `json:"role"`
	Running   int       `json:"running"`
	Capacity  int       `json:"capacity"`
	Queued    int       `json:"queued"`
	Paused    int       `json:"paused"`
	MaxPaused int       `json:"maxPaused"`
	Draining  bool      `json:"draining"`
	StartedAt time.Time `json:"startedAt"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// node shows the processes that serve one database.
func (c *cli) node() *cobra.Command {
	list := c.Command(shell.Spec{Use: "list", Short: "List the server processes that share this database, and the sandbox nodes", Example: "portico node list", JSON: true}, func(cmd *cobra.Command, _ []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			nodes, err := a.Nodes.Live(ctx)
			if err != nil {
				return err
			}
			bodies := make([]nodeBody, 0, len(nodes))
			for _, n := range nodes {
				bodies = append(bodies, nodeBody{
					n.ID, n.Address, n.Version, n.Role, n.Load.Running, n.Load.Capacity, n.Load.Queued, n.Load.Paused, n.Load.MaxPaused,
					n.Draining || n.Asked, n.StartedAt, n.ExpiresAt,
				})
			}
			bodies = append(bodies, sandboxNodes(ctx, a)...)
			return c.Answer(bodies, c.Table("NODE | ROLE | ADDRESS | VERSION | PROGRAMS | WAITING | PAUSED | STATE | SINCE", func(w io.Writer) {
				for _, n := range bodies {
					state := "serves"
					if n.Draining {
						state = "ends"
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d of %d\t%d\t%d of %d\t%s\t%s\n", n.ID, n.Role, n.Address, n.Version, n.Running, n.Capacity,
						n.Queued, n.Paused, n.MaxPaused, state, shell.Moment(&n.StartedAt))
				}
			}))
		})
	})
	drain := c.Command(shell.Spec{
		Use: "drain NODE", Short: "Have a server process finish its work, and end", Example: "portico node drain proc-x3k9", JSON: true,
	}, func(cmd *cobra.Command, args []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			if err := a.Nodes.Ask(ctx, args[0]); err != nil {
				return err
			}
			return c.Answer(map[string]string{"id": args[0]}, c.Line("%s finishes its work, and ends.", args[0]))
		})
	})
	return c.Group("node", "The server processes that share this database, and sandbox nodes", list, drain, c.nodeKey())
}

// sandboxNodes are those that answer this server.
func sandboxNodes(ctx context.Context, a *app.App) []nodeBody {
	if a.Sandboxes == nil {
		return nil
	}
	var bodies []nodeBody
	for _, n := range a.Sandboxes.List(ctx) {
		if n.Err != nil {
			a.Logger.ErrorContext(ctx, "a sandbox node does not answer", "node", n.Address, "error", n.Err)
			continue
		}
		s := n.Status
		bodies = append(bodies, nodeBody{
			ID: s.Nonce, Address: n.Address, Version: s.Version, Role: configs.RoleSandbox, Running: s.Running, Capacity: s.Capacity,
			Paused: s.Paused, MaxPaused: s.MaxPaused, Draining: s.Draining, StartedAt: s.Started, ExpiresAt: s.Now,
		})
	}
	return bodies
}

func (c *cli) nodeKey() *cobra.Command {
	return c.Command(shell.Spec{
		Use: "key", Short: "Print the public keys of this server, for SANDBOX_NODE_TRUST of sandbox nodes", Example: "portico node key", JSON: true,
	}, func(*cobra.Command, []string) error {
		cfg, err := configs.Load(c.Options())
		if err != nil {
			return err
		}
		keys, err := app.NodeKeys(cfg)
		if err != nil {
			return err
		}
		return c.Answer(keys, c.Line("%s", strings.Join(keys, ",")))
	})
}
