package cli

import (
	"context"
	"fmt"

	"github.com/portico-run/portico/modules/app"
)

// serveSandbox runs programs of servers until the process is told to end.
func (c *cli) serveSandbox(ctx context.Context, gently <-chan struct{}, o app.Options) error {
	n, err := app.NewSandboxNode(o)
	if err != nil {
		return err
	}
	for _, w := range o.Config.Warnings {
		o.Logger.WarnContext(ctx, "configuration", "warning", w)
	}
	if err := n.Start(ctx); err != nil {
		return err
	}
	fmt.Fprintf(c.Stdout, "\nSandbox node of Portico %s listens on %s, and trusts %d keys\n", app.Version, n.Addr(), len(o.Config.Sandbox.Nodes.Trust))
	select {
	case <-ctx.Done():
	case <-gently:
		n.Drain(ctx)
	}
	o.Logger.Info("stopping")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return n.Stop(ctx)
}
