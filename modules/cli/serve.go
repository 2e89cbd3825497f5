package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/modules/account"
	"github.com/portico-run/portico/modules/app"
)

// stopTimeout bounds the stop of everything but the requests in flight, which
// have their own.
const stopTimeout = 30 * time.Second

func (c *cli) serve(cmd *cobra.Command, _ []string) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a, err := c.open(ctx, slog.LevelDebug)
	if err != nil {
		return err
	}
	return errors.Join(c.serveUntil(ctx, a), a.Close())
}

func (c *cli) serveUntil(ctx context.Context, a *app.App) error {
	key, err := a.Prepare(ctx)
	if err != nil {
		return err
	}
	s, err := a.Start(ctx, c.options())
	if err != nil {
		c.showFirst(key) // it exists now, and cannot be shown later
		return err
	}
	c.welcome(a, s.Addr(), key)
	<-ctx.Done()
	a.Logger.Info("stopping")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.Config.Server.ShutdownGrace+stopTimeout)
	defer cancel()
	return s.Stop(ctx)
}

// showFirst shows the key of the first user when it was made just now.
func (c *cli) showFirst(key account.Plaintext) {
	if key != "" {
		fmt.Fprintf(c.stdout, "\nThe first user, %s, was created with this API key. It is not shown again:\n\n  %s\n", app.FirstUser, key.Reveal())
	}
}

// welcome says where the server is and what to do next.
func (c *cli) welcome(a *app.App, addr net.Addr, key account.Plaintext) {
	url := a.Config.Server.Endpoint
	if strings.HasSuffix(url, ":0") { // the system chose the port
		url = configs.EndpointOf(addr.String())
	}
	fmt.Fprintf(c.stdout, "\nPortico %s answers on %s (%s)\n", app.Version, url, addr)
	shown := "rf_…"
	if key != "" {
		shown = key.Reveal()
	}
	c.showFirst(key)
	if !a.PTC.Service.On() {
		fmt.Fprintf(c.stdout, "\nProgrammatic tool calling is off. Start with PTC_MODE=on to run programs.\n")
	}
	fmt.Fprintf(c.stdout, `
Next:

  make demo                      # in another terminal: a program with twelve tool calls, live
  export PORTICO_API_KEY=%s
  curl -s %s/v1/tool/execute -H "X-API-Key: $PORTICO_API_KEY" -H 'Content-Type: application/json' \
    -d '{"toolsetKey":"demo","toolName":"get_weather","arguments":{"city":"Rome"}}'

%s/docs describes every route. A lost key is replaced with: bin/portico key create --user %s

`, shown, url, url, app.FirstUser)
}

func (c *cli) doctor(cmd *cobra.Command, _ []string) error {
	ctx := cmd.Context()
	a, err := c.open(ctx, slog.LevelError)
	if err != nil {
		return err
	}
	defer func() { _ = a.Close() }()
	checks := a.Doctor(ctx)
	bad := 0
	for _, k := range checks {
		mark := "ok  "
		if !k.OK {
			mark = "FAIL"
			bad++
		}
		fmt.Fprintf(c.stdout, "%s  %-28s %s\n", mark, k.Name, k.Text)
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d checks failed", bad, len(checks))
	}
	return nil
}
