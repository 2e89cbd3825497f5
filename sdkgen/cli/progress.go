package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
)

// progress shows how far a step is: a bar on a terminal, a line per item
// anywhere else, so that logs stay readable.
type progress struct {
	out   io.Writer
	label string
	total int
	count int
	bar   *progressbar.ProgressBar
}

func newProgress(out io.Writer, terminal bool, label string, total int) *progress {
	p := &progress{out: out, label: label, total: total}
	if terminal {
		p.bar = progressbar.NewOptions(total,
			progressbar.OptionSetWriter(out),
			progressbar.OptionSetDescription(label),
			progressbar.OptionShowCount(),
			progressbar.OptionClearOnFinish(),
		)
	}
	return p
}

// step counts one item. Showing progress never fails the work.
func (p *progress) step(item string) {
	p.count++
	if p.bar != nil {
		_ = p.bar.Add(1)
		return
	}
	_, _ = fmt.Fprintf(p.out, "%s %d/%d %s\n", p.label, p.count, p.total, item)
}

// note says one more thing about the step.
func (p *progress) note(text string) {
	_, _ = fmt.Fprintln(p.out, text)
}

// done takes the bar away.
func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Exit()
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
