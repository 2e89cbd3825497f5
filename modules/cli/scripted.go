package cli

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/dev/scripted"
	"github.com/portico-run/portico/modules/cli/shell"
)

// scripted holds the command that serves a scripted model.
func (c *cli) scripted() *cobra.Command {
	var file, listen string
	serve := c.Command(shell.Spec{Use: "scripted", Short: "Serve a model that follows a script, to work without a provider", Example: "portico scripted --script dev/demo/agent.yaml"}, func(cmd *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		script, err := scripted.Load(file)
		if err != nil {
			return err
		}
		address, end, err := scripted.Serve(ctx, listen, scripted.New(script))
		if err != nil {
			return err
		}
		fmt.Fprintf(c.Stdout, "The SCRIPTED model %q answers. Use it with MODEL_NAME=scripted MODEL_BASE_URL=http://%s MODEL_API_KEY=none\n", script.Name, address)
		<-ctx.Done()
		return end()
	})
	serve.Flags().StringVar(&file, "script", "", "the script, such as dev/demo/agent.yaml")
	serve.Flags().StringVar(&listen, "listen", "127.0.0.1:5802", "address to serve on")
	shell.Required(serve, "script")
	return serve
}
