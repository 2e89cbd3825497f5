package knowledge

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/cli/shell"
	"github.com/portico-run/portico/modules/knowledge"
	"github.com/portico-run/portico/modules/knowledge/fetch"
	"github.com/portico-run/portico/modules/knowledge/ingest"
	"github.com/portico-run/portico/modules/knowledge/read"
)

// addBody is what became of an addition.
type addBody struct {
	Added     int        `json:"added"`
	Unchanged int        `json:"unchanged"`
	Passages  int        `json:"passages"` // of what was added
	Skipped   []leftBody `json:"skipped"`
	Failed    []leftBody `json:"failed"`
}

type leftBody struct {
	Source string `json:"source"`
	Why    string `json:"why"`
}

// adding is one use of the command.
type adding struct {
	*commands

	app       *app.App
	owner     knowledge.Owner
	place     place
	framework string
	done      addBody
	bar       *progressbar.ProgressBar // nil without a terminal
}

func (c *commands) add() *cobra.Command {
	var w adding
	var sitemap, docc string
	cmd := c.Command(shell.Spec{
		Use: "add", Short: "Add a file, a folder, a page, the pages of a sitemap or a DocC archive", JSON: true,
		Example: "portico knowledge add ./handbook --shared --collection handbook\nportico knowledge add https://example.com/guide --user anna\n" +
			"portico knowledge add --sitemap https://example.com/sitemap.xml --shared\nportico knowledge add --docc SwiftUI.doccarchive --shared --collection apple",
	}, func(cmd *cobra.Command, args []string) error {
		given := append([]string{}, args...)
		for _, more := range []string{sitemap, docc} {
			if more != "" {
				given = append(given, more)
			}
		}
		if len(given) != 1 {
			return fmt.Errorf("give one file, folder or URL, or one of --sitemap and --docc: %w", shell.ErrUsage)
		}
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			owner, err := w.place.owner(ctx, a)
			if err != nil {
				return err
			}
			w.commands, w.app, w.owner, w.done = c, a, owner, addBody{Skipped: []leftBody{}, Failed: []leftBody{}}
			switch {
			case sitemap != "":
				err = w.site(ctx, sitemap)
			case docc != "":
				err = w.archive(ctx, docc)
			case strings.HasPrefix(given[0], "http://"), strings.HasPrefix(given[0], "https://"):
				err = w.page(ctx, given[0])
			default:
				err = w.files(ctx, given[0])
			}
			return w.report(err)
		})
	})
	cmd.Use, cmd.Args, cmd.ValidArgsFunction = "add [FILE|DIR|URL]", cobra.ArbitraryArgs, nil
	w.place.flags(cmd)
	w.place.inside(cmd, "where they go; documents when left out, apple for --docc")
	cmd.Flags().StringVar(&w.framework, "framework", "", "what the documents are about, such as SwiftUI")
	cmd.Flags().StringVar(&sitemap, "sitemap", "", "URL of a sitemap whose pages are added")
	cmd.Flags().StringVar(&docc, "docc", "", "folder of a DocC archive whose pages are added")
	return cmd
}

// report says what was done, also where it ended early.
func (w *adding) report(err error) error {
	if w.bar != nil {
		_ = w.bar.Exit()
	}
	if err == nil && len(w.done.Failed) > 0 {
		err = fmt.Errorf("%d documents could not be added", len(w.done.Failed))
	}
	why := map[string]int{}
	var reasons []string
	for _, s := range w.done.Skipped {
		if why[s.Why]++; why[s.Why] == 1 {
			reasons = append(reasons, s.Why)
		}
	}
	answered := w.Answer(w.done, w.Table("", func(out io.Writer) {
		fmt.Fprintf(out, "added %d documents with %d passages; %d were as they are\n", w.done.Added, w.done.Passages, w.done.Unchanged)
		for _, r := range reasons {
			fmt.Fprintf(out, "left out %d: %s\n", why[r], r)
		}
	}))
	if !w.JSON {
		for _, f := range w.done.Failed {
			fmt.Fprintf(w.Stderr, "not added: %s: %s\n", f.Source, f.Why)
		}
	}
	if err != nil {
		return err
	}
	return answered
}

// progress shows a bar on a terminal; total is -1 where it is not known.
func (w *adding) progress(total int) {
	f, ok := w.Stderr.(*os.File)
	if !ok || w.Quiet {
		return
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return
	}
	w.bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(f), progressbar.OptionSetDescription("adding"),
		progressbar.OptionShowCount(), progressbar.OptionClearOnFinish())
}

// one adds one document. What is wrong with it keeps none of the others from
// being added; what is wrong for all ends the work.
func (w *adding) one(ctx context.Context, a knowledge.Addition) error {
	a.Collection, a.Framework = w.place.collection, w.framework
	added, err := w.app.Knowledge.Service.Add(ctx, w.owner, a)
	if w.bar != nil {
		_ = w.bar.Add(1)
	}
	switch code := errs.CodeOf(err); {
	case err == nil && added.Unchanged:
		w.done.Unchanged++
	case err == nil:
		w.done.Added++
		w.done.Passages += added.Document.Passages
	case ctx.Err() != nil:
		return ctx.Err()
	case code == errs.Internal, code == errs.StorageFull, code == errs.Unavailable, code == errs.Forbidden:
		return fmt.Errorf("%s: %w", a.Source.Name, err)
	default:
		w.fail(a.Source.Name, err)
	}
	return nil
}

func (w *adding) fail(source string, why error) {
	w.done.Failed = append(w.done.Failed, leftBody{source, shell.Explain(why)})
}

// sandbox starts what reads PDF and Word files, and returns what stops it. Without
// it, only these cannot be added.
func (w *adding) sandbox(ctx context.Context) func() {
	if err := w.app.Engine.Start(ctx); err != nil {
		fmt.Fprintf(w.Stderr, "warning: PDF and Word files cannot be read: %s\n", shell.Explain(err))
		return func() {}
	}
	return func() { _ = w.app.Engine.Stop(context.WithoutCancel(ctx)) } // its processes end with this one
}

func (w *adding) files(ctx context.Context, name string) error {
	found, err := ingest.Find(name, w.app.Config.Knowledge.MaxDocument)
	if err != nil {
		return err
	}
	defer func() { _ = found.Close() }() // it was only read
	office := false
	for _, s := range found.Sources {
		office = office || !strings.HasPrefix(s.MIME, "text/")
	}
	if office {
		defer w.sandbox(ctx)()
	}
	for _, s := range found.Skipped {
		w.done.Skipped = append(w.done.Skipped, leftBody{s.Name, string(s.Reason)})
	}
	return w.all(ctx, found.Sources, nil)
}

func (w *adding) all(ctx context.Context, sources []read.Source, reader read.Reader) error {
	w.progress(len(sources))
	for _, s := range sources {
		if err := w.one(ctx, knowledge.Addition{Source: s, Reader: reader}); err != nil {
			return err
		}
	}
	return nil
}

func (w *adding) archive(ctx context.Context, name string) error {
	if w.place.collection == "" {
		w.place.collection = knowledge.Apple
	}
	root, err := os.OpenRoot(name)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it was only read
	sources, err := read.Archive(root.FS(), filepath.Base(filepath.Clean(name)))
	if err != nil {
		return err
	}
	return w.all(ctx, sources, read.DocC{})
}

// Validators implements fetch.Known.
func (w *adding) Validators(ctx context.Context, address string) (fetch.Validators, error) {
	v, err := w.app.Knowledge.Service.Validators(ctx, w.owner, w.place.collection, address)
	return fetch.Validators(v), err
}

func (w *adding) page(ctx context.Context, address string) error {
	defer w.sandbox(ctx)()
	known, err := w.Validators(ctx, address)
	if err != nil {
		return err
	}
	got, err := w.app.Fetch.Service.Document(ctx, address, known)
	if err != nil {
		return err
	}
	return w.fetched(ctx, got)
}

func (w *adding) site(ctx context.Context, sitemap string) error {
	defer w.sandbox(ctx)()
	w.progress(-1)
	return w.app.Fetch.Service.Site(ctx, sitemap, w, func(f fetch.Fetched) error { return w.fetched(ctx, f) })
}

func (w *adding) fetched(ctx context.Context, f fetch.Fetched) error {
	switch {
	case f.Err != nil:
		w.fail(f.URL, f.Err)
		return ctx.Err() // its end is no fault of the page
	case f.Unchanged:
		w.done.Unchanged++
		return nil
	}
	return w.one(ctx, knowledge.Addition{Source: read.Source{Name: f.URL}, Document: &f.Document, Validators: knowledge.Validators(f.Validators)})
}
