// Package eval is the command that lets a model do twenty tasks in five forms of
// tools, and compares what that takes. What it shows came over HTTP, from the
// records of the runs.
package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/dev/services/tasks"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/cli/shell"
)

// asked is what the command line says.
type asked struct {
	model            string
	scripted         bool
	tasks, forms     []string
	repeat, parallel int
	budget, json     string
}

// Bounds of the command line.
const (
	maxRepeat   = 100
	maxParallel = 16
)

// New makes the command.
func New(c *shell.Shell) *cobra.Command {
	var a asked
	cmd := c.Command(shell.Spec{
		Use: "eval", Short: "Let a model do twenty tasks in five forms of tools, and compare what that takes",
		Example: "portico eval --scripted\nportico eval --model large --budget 500 --json large.json\nportico eval --task rank --form plain --form lines --repeat 5",
	}, func(cmd *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		p, err := a.plan()
		if err != nil {
			return err
		}
		return run(ctx, c, p)
	})
	f := cmd.Flags()
	f.StringVar(&a.model, "model", "", "name of the model, as portico model list shows it; the first one when left out")
	f.BoolVar(&a.scripted, "scripted", false, "a scripted model, which does every task: a test of this installation")
	f.StringSliceVar(&a.tasks, "task", nil, "only this task; several times for several; all when left out")
	f.StringSliceVar(&a.forms, "form", nil, "only this form: plain, lines, docs, search or minimal; all when left out")
	f.IntVar(&a.repeat, "repeat", 1, "how often each task is done in each form")
	f.IntVar(&a.parallel, "parallel", 4, "how many tasks are done at once")
	f.StringVar(&a.budget, "budget", "", "stop where another run would cost more credits than this in all; only a request that is under way may go over it")
	f.StringVar(&a.json, "json", "", "write JSON to this file; - for standard output, in the place of the table")
	return cmd
}

// plan is what is to be done.
type plan struct {
	model    string
	scripted bool
	tasks    []tasks.Task
	forms    []form
	repeat   int
	parallel int
	budget   *money.Amount // nil is none
	json     string
}

// runs is how many there are.
func (p plan) runs() int { return len(p.tasks) * len(p.forms) * p.repeat }

// plan reads the command line. What is wrong with it is wrong usage; a task, a form
// or a model that there is not is missing.
func (a asked) plan() (plan, error) {
	p := plan{model: a.model, scripted: a.scripted, repeat: a.repeat, parallel: a.parallel, json: a.json}
	switch {
	case a.scripted && a.model != "":
		return p, fmt.Errorf("--scripted and --model name two models: %w", shell.ErrUsage)
	case a.repeat < 1 || a.repeat > maxRepeat:
		return p, fmt.Errorf("--repeat must be 1 to %d: %w", maxRepeat, shell.ErrUsage)
	case a.parallel < 1 || a.parallel > maxParallel:
		return p, fmt.Errorf("--parallel must be 1 to %d: %w", maxParallel, shell.ErrUsage)
	}
	if a.budget != "" {
		limit, err := money.Parse(a.budget)
		if err != nil || limit <= 0 {
			return p, fmt.Errorf("--budget must be an amount of credits above 0: %w", shell.ErrUsage)
		}
		p.budget = &limit
	}
	var err error
	if p.tasks, err = chosen("task", tasks.All(), a.tasks, func(t tasks.Task) string { return t.Name }); err != nil {
		return p, err
	}
	p.forms, err = chosen("form", forms(), a.forms, func(f form) string { return f.name })
	return p, err
}

// chosen are those of a list that are named, in the order of the list; all where
// none is.
func chosen[T any](what string, all []T, names []string, name func(T) string) ([]T, error) {
	if len(names) == 0 {
		return all, nil
	}
	known := make([]string, len(all))
	for i, one := range all {
		known[i] = name(one)
	}
	for _, n := range names {
		if !slices.Contains(known, n) {
			return nil, errs.Newf(errs.NotFound, "There is no %s %q.", what, n).Do("There are: " + strings.Join(known, ", ") + ".")
		}
	}
	return slices.DeleteFunc(all, func(one T) bool { return !slices.Contains(names, name(one)) }), nil
}

// Errors of a comparison that is shown all the same.
var (
	errPartial = errors.New("not everything was done")
	errScript  = errors.New("the scripted model does every task: this installation does not work as it should")
)

// run does what is to be done, and shows it, also where it ends early.
func run(ctx context.Context, c *shell.Shell, p plan) (err error) {
	out := io.Writer(nil) // of the JSON
	switch p.json {
	case "":
	case "-":
		out = c.Stdout
	default: // now, because what the runs cost is paid when they are over
		file, failed := os.Create(p.json)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		out = file
	}
	b := newBench(c, p)
	failed := b.all(ctx)
	if failed != nil {
		b.stop(shell.Explain(failed))
	}
	r := b.report()
	if len(r.Runs) == 0 && failed != nil {
		return failed
	}
	if out != nil {
		err = encode(out, r)
	}
	if p.json != "-" {
		err = errors.Join(err, r.print(c, p))
	}
	return errors.Join(err, failed, r.verdict(p))
}

func encode(w io.Writer, r report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// verdict is an error where not all was done, or the scripted model failed.
func (r report) verdict(p plan) error {
	switch {
	case r.Partial:
		return fmt.Errorf("%w: %d of %d runs. %s", errPartial, len(r.Runs), r.Planned, r.Stopped)
	case p.scripted && slices.ContainsFunc(r.Runs, func(o outcome) bool { return !o.Success }):
		return errScript
	}
	return nil
}
