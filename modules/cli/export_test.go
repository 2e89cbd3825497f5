package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/modules/cli/shell"
)

// Root is the tree of all commands.
func Root() *cobra.Command {
	return (&cli{&shell.Shell{Stdout: io.Discard, Stderr: io.Discard}}).root()
}
