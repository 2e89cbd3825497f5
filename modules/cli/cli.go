// Package cli is the program's commands: the server, the demos, and everything an
// operator does.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/app"
)

// Main runs the program and returns its exit code: 0 for success, 1 for
// failure, 2 for a command line that is not understood.
func Main(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	c := &cli{environ: environ, stdout: stdout, stderr: stderr}
	root := c.root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprintf(stderr, "portico: %v\n", err)
		return 2
	}
	fmt.Fprintf(stderr, "portico: %s\n", explain(err))
	return 1
}

var errUsage = errors.New("see --help")

// explain is an error for an operator: with the cause that clients do not see.
func explain(err error) string {
	e, ok := errors.AsType[*errs.Error](err)
	if !ok {
		return err.Error()
	}
	text := strings.TrimSpace(e.Message + " " + e.Detail)
	if cause := errors.Unwrap(e); cause != nil {
		text += " (" + cause.Error() + ")"
	}
	return text
}

type cli struct {
	environ        []string
	stdout, stderr io.Writer
	file           string // of the configuration
}

func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "portico",
		Short:         "Programmatic tool calling: run model-written code, execute the tools it calls",
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       app.Version,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w: %w", err, errUsage) })
	root.PersistentFlags().StringVar(&c.file, "config", "", "configuration file (also PORTICO_CONFIG)")
	root.AddCommand(
		c.command("serve", "Start the server", cobra.NoArgs, c.serve),
		c.demos(),
		c.command("doctor", "Check what this machine and configuration give", cobra.NoArgs, c.doctor),
		c.command("config", "Print the configuration in force, secrets hidden", cobra.NoArgs, c.printConfig),
		c.migrate(), c.key(), c.user(), c.toolset(), c.ptc(), c.credit(), c.audit(), c.tools(), c.scripted(),
	)
	return root
}

// command makes a command whose wrong arguments are wrong usage.
func (c *cli) command(use, short string, args cobra.PositionalArgs, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, RunE: run, Args: func(cmd *cobra.Command, given []string) error {
		if err := args(cmd, given); err != nil {
			return fmt.Errorf("%w: %w", err, errUsage)
		}
		return nil
	}}
}

// group makes a command that only holds others.
func (c *cli) group(use, short string, commands ...*cobra.Command) *cobra.Command {
	g := c.command(use, short, cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		return fmt.Errorf("%s needs a subcommand: %w", cmd.CommandPath(), errUsage)
	})
	g.AddCommand(commands...)
	return g
}

func required(cmd *cobra.Command, flags ...string) {
	for _, f := range flags {
		if err := cmd.MarkFlagRequired(f); err != nil {
			panic(err) // the flag was defined just before
		}
	}
}

func (c *cli) options() configs.Options { return configs.Options{File: c.file, Environ: c.environ} }

// open wires an app for a command.
func (c *cli) open(ctx context.Context, level slog.Level) (*app.App, error) {
	cfg, err := configs.Load(c.options())
	if err != nil {
		return nil, err
	}
	return app.Open(ctx, app.Options{Config: cfg, Environ: environment(c.environ), Logger: c.logger(cfg.Log, level)})
}

// with opens an app, on a database that is up to date, for one command.
func (c *cli) with(cmd *cobra.Command, work func(ctx context.Context, a *app.App) error) error {
	a, err := c.open(cmd.Context(), slog.LevelWarn)
	if err != nil {
		return err
	}
	_, err = a.DB.Migrate(cmd.Context())
	if err == nil {
		err = work(cmd.Context(), a)
	}
	return errors.Join(err, a.Close())
}

func environment(environ []string) map[string]string {
	env := make(map[string]string, len(environ))
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	return env
}

// logger logs to standard error. Commands raise the level, so that their
// output is what they are asked for.
func (c *cli) logger(l configs.Log, least slog.Level) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		level = slog.LevelInfo // Load has refused any other word
	}
	o := &slog.HandlerOptions{Level: max(level, least)}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(c.stderr, o))
	}
	return slog.New(slog.NewTextHandler(c.stderr, o))
}

func (c *cli) printConfig(*cobra.Command, []string) error {
	cfg, err := configs.Load(c.options())
	if err != nil {
		return err
	}
	return cfg.Print(c.stdout)
}

// table writes lines whose cells are separated by tabs.
func (c *cli) table(write func(w io.Writer)) error {
	w := tabwriter.NewWriter(c.stdout, 0, 8, 2, ' ', 0)
	write(w)
	return w.Flush()
}

func (c *cli) json(v any) error {
	e := json.NewEncoder(c.stdout)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
