// Package cli is the program's commands: the server, the demos, and everything an
// operator does.
package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/cli/approval"
	"github.com/portico-run/portico/modules/cli/credits"
	"github.com/portico-run/portico/modules/cli/eval"
	"github.com/portico-run/portico/modules/cli/knowledge"
	"github.com/portico-run/portico/modules/cli/mcp"
	"github.com/portico-run/portico/modules/cli/shell"
)

// Main runs the program and returns its exit code.
func Main(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	c := &cli{&shell.Shell{Environ: environ, Stdout: stdout, Stderr: stderr}}
	root := c.root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil {
		help := fmt.Sprintf("see `%s --help`", cmd.CommandPath())
		fmt.Fprintf(stderr, "portico: %s\n", strings.ReplaceAll(shell.Explain(err), shell.ErrUsage.Error(), help))
	}
	return shell.ExitCode(err)
}

type cli struct{ *shell.Shell }

func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "portico",
		Short: "Programmatic tool calling: run model-written code, execute the tools it calls",
		Long: `Programmatic tool calling: run model-written code, execute the tools it calls.

Settings come from the environment, from the file .env of the folder that the
command runs in, and from a configuration file, in this order. Commands work on
the database of these settings and say which one it is: run them where the
server was started.

` + shell.Codes,
		Example:       "  portico serve\n  portico key create --user admin\n  portico run list --user admin --json",
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       app.Version,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q: %w", args[0], shell.ErrUsage)
			}
			return cmd.Help()
		},
		Args: cobra.ArbitraryArgs,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w: %w", err, shell.ErrUsage) })
	root.PersistentFlags().StringVar(&c.File, "config", "", "configuration file (also PORTICO_CONFIG)")
	root.PersistentFlags().BoolVarP(&c.Quiet, "quiet", "q", false, "do not say which database is used")
	root.AddCommand(
		c.serve(), c.demo(), c.doctor(), c.config(), c.migrate(),
		c.console(), c.key(), c.user(), c.toolset(), mcp.New(c.Shell), approval.New(c.Shell), c.run(), credits.New(c.Shell), knowledge.New(c.Shell),
		c.ptc(), c.node(), c.audit(), c.retention(), c.storage(), c.model(), eval.New(c.Shell), c.tool(), c.tools(), c.stubs(), c.scripted(), c.version(),
	)
	return root
}
