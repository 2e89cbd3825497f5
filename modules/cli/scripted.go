package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/dev/scripted"
)

// scripted holds the command that serves a scripted model.
func (c *cli) scripted() *cobra.Command {
	var file, listen string
	serve := c.command("scripted", "Serve a model that follows a script, to work without a provider", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		script, err := scripted.Load(file)
		if err != nil {
			return err
		}
		address, end, err := serveModel(ctx, listen, scripted.New(script))
		if err != nil {
			return err
		}
		fmt.Fprintf(c.stdout, "The SCRIPTED model %q answers. Use it with MODEL_NAME=scripted MODEL_BASE_URL=http://%s MODEL_API_KEY=none\n", script.Name, address)
		<-ctx.Done()
		return end()
	})
	serve.Flags().StringVar(&file, "script", "", "the script, such as dev/demo/agent.yaml")
	serve.Flags().StringVar(&listen, "listen", "127.0.0.1:5802", "address to serve on")
	required(serve, "script")
	return serve
}

// serveModel serves a scripted model until end.
func serveModel(ctx context.Context, listen string, h http.Handler) (address string, end func() error, err error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", listen)
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	return l.Addr().String(), func() error {
		err := server.Close()
		if served := <-done; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}, nil
}
