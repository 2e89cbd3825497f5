// Package shell is what all commands share: how they are made, how they open the
// product, how they answer and how they end.
package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/account/erasure"
	"github.com/portico-run/portico/modules/app"
)

// Exit codes: docs/cli.md#exit-codes.
const (
	done    = 0
	failed  = 1
	usage   = 2 // the command line is not understood
	missing = 3 // what it names does not exist
	refused = 4 // the state of things does not allow it, or --yes is missing
)

// Codes explains the exit codes.
const Codes = `Exit codes:
  0  done
  1  failed; standard error says why
  2  the command line is not understood; nothing was done
  3  what the command names does not exist
  4  refused: the state of things does not allow it, or --yes is missing;
     nothing was changed`

// ErrUsage is part of an error about a command line that is not understood.
var ErrUsage = errors.New("see --help")

// errRefused is part of the refusal to delete without --yes.
var errRefused = errors.New("nothing was changed")

// ExitCode is the program's exit code after an error, or after none.
func ExitCode(err error) int {
	e, ok := errors.AsType[*errs.Error](err)
	switch {
	case err == nil:
		return done
	case errors.Is(err, ErrUsage):
		return usage
	case errors.Is(err, erasure.ErrBusy):
		return failed // a conflict, but the user is disabled by now
	case errors.Is(err, errRefused), ok && e.Code.Status() == http.StatusConflict:
		return refused
	case ok && e.Code.Status() == http.StatusNotFound:
		return missing
	}
	return failed
}

// Explain is an error for an operator: with the cause that clients do not see.
func Explain(err error) string {
	e, ok := errors.AsType[*errs.Error](err)
	if !ok {
		return err.Error()
	}
	text := e.Message
	if e.Detail != "" { // some messages are those of another API, without an end
		text = strings.TrimSuffix(e.Message, ".") + ". " + e.Detail
	}
	if cause := errors.Unwrap(e); cause != nil {
		text += " (" + cause.Error() + ")"
	}
	return text
}

// Shell is what one call of the program was given, and where it answers.
type Shell struct {
	Environ        []string // as os.Environ returns it
	Stdout, Stderr io.Writer
	File           string // the configuration file of --config
	JSON           bool   // answers are JSON
	Quiet          bool   // nothing is said of the database
}

// Spec says how a command is called.
type Spec struct {
	Use, Short string // Use is the command's name and those of its arguments, all of which are needed
	Example    string // without indentation; lines of their own
	JSON       bool   // it has --json
}

// Command makes a command whose wrong arguments are wrong usage.
func (c *Shell) Command(s Spec, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: s.Use, Short: s.Short, Example: "  " + strings.ReplaceAll(s.Example, "\n", "\n  "), RunE: run, Args: complete,
		ValidArgsFunction: cobra.NoFileCompletions, // an argument is a name
	}
	if s.JSON {
		cmd.Flags().BoolVar(&c.JSON, "json", false, "print JSON, in the shape that docs/cli.md shows")
	}
	return cmd
}

// complete refuses a command line that lacks an argument or a flag, or has an
// argument too many.
func complete(cmd *cobra.Command, given []string) error {
	names := strings.Fields(cmd.Use)[1:]
	missing := names[min(len(given), len(names)):]
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, required := f.Annotations[cobra.BashCompOneRequiredFlag]; required && !f.Changed {
			missing = append(missing, "--"+f.Name)
		}
	})
	switch {
	case len(given) > len(names):
		return fmt.Errorf("%q is too much: %w", given[len(names)], ErrUsage)
	case len(missing) > 0:
		return fmt.Errorf("%s missing: %w", strings.Join(missing, ", "), ErrUsage)
	}
	return nil
}

// Group makes a command that only holds others.
func (c *Shell) Group(use, short string, commands ...*cobra.Command) *cobra.Command {
	g := c.Command(Spec{Use: use, Short: short}, func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("unknown command %q of %s: %w", args[0], cmd.CommandPath(), ErrUsage)
		}
		return fmt.Errorf("%s needs a subcommand: %w", cmd.CommandPath(), ErrUsage)
	})
	g.Args, g.Example = cobra.ArbitraryArgs, commands[0].Example
	g.AddCommand(commands...)
	return g
}

// Required makes flags required.
func Required(cmd *cobra.Command, flags ...string) {
	for _, f := range flags {
		if err := cmd.MarkFlagRequired(f); err != nil {
			panic(err) // the flag was defined just before
		}
	}
}

// Options say where the configuration comes from.
func (c *Shell) Options() configs.Options { return configs.Options{File: c.File, Environ: c.Environ} }

// Open wires an app of a configuration. Its log begins at the least level.
func (c *Shell) Open(ctx context.Context, o configs.Options, least slog.Level) (*app.App, error) {
	cfg, err := configs.Load(o)
	if err != nil {
		return nil, err
	}
	return app.Open(ctx, c.AppOptions(cfg, least))
}

// AppOptions are what the program gives to what it starts. Its log begins at the least
// level.
func (c *Shell) AppOptions(cfg *configs.Config, least slog.Level) app.Options {
	logger, level := c.logger(cfg.Log, least)
	return app.Options{Config: cfg, Environ: Environment(c.Environ), Logger: logger, Level: level}
}

// With opens an app, on a database that is up to date, for one command.
func (c *Shell) With(cmd *cobra.Command, work func(ctx context.Context, a *app.App) error) error {
	return c.Without(cmd, func(ctx context.Context, a *app.App) error {
		if err := a.Migrate(ctx); err != nil {
			return err
		}
		return work(ctx, a)
	})
}

// Without is With for a command that wants the database as it is.
func (c *Shell) Without(cmd *cobra.Command, work func(ctx context.Context, a *app.App) error) error {
	// What the server warns of when it starts is not repeated by every command.
	a, err := c.Open(cmd.Context(), c.Options(), slog.LevelError)
	if err != nil {
		return err
	}
	if !c.Quiet {
		fmt.Fprintf(c.Stderr, "Using the database %s\n", Database(a.Config.Database.URL))
	}
	return errors.Join(work(cmd.Context(), a), a.Close())
}

// Environment are the variables of an environment, by name.
func Environment(environ []string) map[string]string {
	env := make(map[string]string, len(environ))
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	return env
}

// OfUser makes a command about one user, whom the flag --user names.
func (c *Shell) OfUser(s Spec, work func(ctx context.Context, a *app.App, user actor.Actor, name string) error) *cobra.Command {
	var name string
	s.JSON = true
	cmd := c.Command(s, func(cmd *cobra.Command, _ []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			u, err := a.Accounts.Service.UserByName(ctx, name)
			if err != nil {
				return err
			}
			return work(ctx, a, actor.Actor{UID: u.UID, Scope: actor.Full}, u.Name)
		})
	})
	cmd.Flags().StringVar(&name, "user", "", "name of the user")
	Required(cmd, "user")
	return cmd
}
