// Package cli is the command line of sdkgen: definition, generate, upload.
// Paths and hashes that a script may want go to stdout, progress and problems
// to stderr.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// everything is the word for all toolsets.
const everything = "all"

// usageError is a command line that cannot be understood.
type usageError struct{ error }

// app is one invocation: its environment and its flags.
type app struct {
	env    map[string]string
	stdout io.Writer
	stderr io.Writer

	out, libs, api, key      string
	prune                    bool
	hash, prefix, activate   string
	local                    string
	named, apart             bool // --local has a value, and as an argument of its own
	s3                       bool
	endpoint, region, bucket string
}

// Main runs one command line and returns its exit code: 0 when it did what it
// was asked, 1 when it could not, 2 when the command line is wrong. The
// environment has the form of os.Environ; nothing else of the process is read.
func Main(ctx context.Context, args, env []string, stdout, stderr io.Writer) int {
	a := &app{env: map[string]string{}, stdout: stdout, stderr: stderr}
	for _, e := range env {
		if name, value, ok := strings.Cut(e, "="); ok {
			a.env[name] = value
		}
	}
	root := a.command()
	root.SetArgs(a.localArgs(args))
	root.SetOut(stdout)
	root.SetErr(stderr)
	_, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	_, _ = fmt.Fprintln(stderr, "sdkgen:", err) // nowhere is left to report to
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	return exitFailed
}

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "sdkgen",
		Short: "Turn exported tool definitions into the Python package refly_tools",
		Long: "Turn exported tool definitions into the Python package refly_tools.\n\n" +
			"The steps, each on its own: definition fetches, generate writes the package, upload publishes it.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRun: func(*cobra.Command, []string) {
			if a.out = a.envOr(a.out, "SDKGEN_OUT"); a.out == "" {
				a.out = "data"
			}
			if a.libs = a.envOr(a.libs, "SDKGEN_LIBS"); a.libs == "" {
				a.libs = a.out
			}
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.PersistentFlags().StringVar(&a.out, "out", "", "folder for tool-definition/ (SDKGEN_OUT, default data)")
	root.PersistentFlags().StringVar(&a.libs, "libs", "", "folder for refly_tools/ (SDKGEN_LIBS, default that of --out)")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	tool := &cobra.Command{
		Use: "tool", Short: "Hold the command definition, for scripts that call it so", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	tool.AddCommand(a.definitionCommand())
	root.AddCommand(a.definitionCommand(), a.generateCommand(), a.uploadCommand(), tool)
	for _, c := range slices.Concat(root.Commands(), tool.Commands(), []*cobra.Command{root}) {
		check := c.Args
		c.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
			}
			return nil
		}
	}
	return root
}

// envOr returns the flag's value, or that of the first variable that is set.
func (a *app) envOr(flag string, names ...string) string {
	for _, name := range names {
		if flag != "" {
			break
		}
		flag = strings.TrimSpace(a.env[name])
	}
	return flag
}

// wanted checks the toolset arguments: names, or the single word all. It
// returns no names for all.
func wanted(_ *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return errors.New("name one or more toolsets, or all")
	case len(args) == 1:
		return nil
	}
	seen := map[string]bool{}
	for _, arg := range args {
		if arg == everything {
			return errors.New("all cannot be combined with toolset names")
		}
		if seen[arg] {
			return fmt.Errorf("toolset %q is named twice", arg)
		}
		seen[arg] = true
	}
	return nil
}

func isAll(args []string) bool { return len(args) == 1 && args[0] == everything }
