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
	"github.com/portico-run/portico/modules/cli/demos"
	"github.com/portico-run/portico/modules/cli/shell"
)

// stopTimeout bounds the stop of everything but the requests in flight, which
// have their own.
const stopTimeout = 30 * time.Second

func (c *cli) serve() *cobra.Command {
	var role string
	cmd := c.Command(shell.Spec{Use: "serve", Short: "Start the server", Example: "portico serve\nportico serve --role=sandbox"}, func(cmd *cobra.Command, _ []string) error {
		if role != "" {
			c.Environ = append(c.Environ, "PORTICO_ROLE="+role)
		}
		return c.start(cmd)
	})
	cmd.Flags().StringVar(&role, "role", "", "all, api (programs run on sandbox nodes) or sandbox (a sandbox node); also PORTICO_ROLE")
	return cmd
}

func (c *cli) start(cmd *cobra.Command) error {
	ctx, gently, stop := endings(cmd.Context())
	defer stop()
	cfg, err := configs.Load(c.Options())
	if err != nil {
		return err
	}
	if cfg.Server.Role == configs.RoleSandbox {
		return c.serveSandbox(ctx, gently, c.AppOptions(cfg, slog.LevelDebug))
	}
	a, err := c.Open(ctx, c.Options(), slog.LevelDebug)
	if err != nil {
		return err
	}
	return errors.Join(c.serveUntil(ctx, gently, a), a.Close())
}

// endings turns signals into what they ask for: the first SIGTERM to finish the work
// first, an interrupt, or a second signal, to end at once.
func endings(ctx context.Context) (now context.Context, gently <-chan struct{}, stop func()) {
	now, end := context.WithCancel(ctx)
	signals, first := make(chan os.Signal, 2), make(chan struct{}) //nolint:mnd // the two that mean something
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case s := <-signals:
			if s == os.Interrupt {
				end()
			} else {
				close(first)
			}
		case <-now.Done():
		}
		select {
		case <-signals:
			end()
		case <-now.Done():
		}
	}()
	return now, first, func() {
		signal.Stop(signals)
		end()
	}
}

func (c *cli) serveUntil(ctx context.Context, gently <-chan struct{}, a *app.App) error {
	key, err := a.Prepare(ctx)
	if err != nil {
		return err
	}
	s, err := a.Start(ctx, c.Options())
	if err != nil {
		c.showFirst(key) // it exists now, and cannot be shown later
		return err
	}
	c.welcome(ctx, a, s.Addr(), key)
	select {
	case <-ctx.Done():
	case <-gently:
		s.Drain(ctx)
	case <-s.Asked():
		s.Drain(ctx)
	}
	a.Logger.Info("stopping")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.Config.Server.ShutdownGrace+stopTimeout)
	defer cancel()
	return s.Stop(ctx)
}

// showFirst shows the key of the first user when it was made just now.
func (c *cli) showFirst(key account.Plaintext) {
	if key != "" {
		fmt.Fprintf(c.Stdout, "\nThe first user, %s, was created with this API key. It is not shown again:\n\n  %s\n", app.FirstUser, key.Reveal())
	}
}

// showLink prints a link that signs the first user in, where whoever starts the
// server tries it: in development, on their own machine. Without a console, without
// that user, or when the user is disabled, there is none.
func (c *cli) showLink(ctx context.Context, a *app.App, url string) {
	if a.Config.Console.Place() == "" || a.Config.Server.Mode != configs.Development || !configs.IsLoopback(url) {
		return
	}
	u, err := a.Accounts.Service.UserByName(ctx, app.FirstUser)
	if err != nil || u.Disabled {
		return
	}
	link, _, err := a.SignIn.Service.LinkAt(ctx, url, u)
	if err != nil {
		a.Logger.WarnContext(ctx, "no link to sign in was made", "error", err)
		return
	}
	fmt.Fprintf(c.Stdout, "\nOpen the console with this link, once, within five minutes (`%s console` prints another):\n\n  %s\n", program(), link)
}

// program is how the command line calls this program.
func program() string {
	if strings.ContainsRune(os.Args[0], os.PathSeparator) {
		return os.Args[0]
	}
	return "portico"
}

// welcome says where the server is and what to do next.
func (c *cli) welcome(ctx context.Context, a *app.App, addr net.Addr, key account.Plaintext) {
	url := a.Config.Server.Endpoint
	if strings.HasSuffix(url, ":0") { // the system chose the port
		url = configs.EndpointOf(addr.String())
	}
	fmt.Fprintf(c.Stdout, "\nPortico %s answers on %s (%s), with the database %s\n", app.Version, url, addr, shell.Database(a.Config.Database.URL))
	shown := "rf_…"
	if key != "" {
		shown = key.Reveal()
	}
	c.showFirst(key)
	if !a.PTC.Service.On() {
		fmt.Fprintf(c.Stdout, "\nProgrammatic tool calling (PTC) is off. Start with PTC_MODE=on to run programs.\n")
	}
	demo := demos.Loaded(ctx, a)
	if demo != nil && !errors.Is(demo, demos.ErrOff) {
		fmt.Fprintf(c.Stdout, "\n%s\n", shell.Explain(demo))
	}
	c.showLink(ctx, a, url)
	if demo == nil {
		fmt.Fprintf(c.Stdout, `
Next:

  %[1]s demo               # in another terminal: a program with twelve tool calls, live
  export PORTICO_API_KEY=%[2]s
  curl -s %[3]s/v1/tool/execute -H "X-API-Key: $PORTICO_API_KEY" -H 'Content-Type: application/json' \
    -d '{"toolsetKey":"demo","toolName":"get_weather","arguments":{"city":"Rome"}}'
`, program(), shown, url)
	}
	fmt.Fprintf(c.Stdout, "\n%s/docs describes every route. A lost key is replaced with: %s key create --user %s\n\n", url, program(), app.FirstUser)
}
