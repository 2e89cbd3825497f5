package eval

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/cli/shell"
)

// report is what was found out, as JSON shows it.
type report struct {
	Model    string `json:"model"`
	Scripted bool   `json:"scripted"`
	// Partial says that not all runs were made, Stopped why.
	Partial bool          `json:"partial"`
	Stopped string        `json:"stopped"`
	Planned int           `json:"planned"`
	Budget  *money.Amount `json:"budget"`
	Spent   money.Amount  `json:"spent"`
	Forms   []formReport  `json:"forms"`
	Tasks   []taskReport  `json:"tasks"`
	Runs    []outcome     `json:"runs"`
}

// formReport adds up the runs of a form. Seconds is the median of a run.
type formReport struct {
	Form     string       `json:"form"`
	About    string       `json:"about"`
	Settings []string     `json:"settings"`
	PTC      string       `json:"ptc"`
	Runs     int          `json:"runs"`
	Success  int          `json:"success"`
	Requests int          `json:"requests"`
	Input    int64        `json:"inputTokens"`
	Cached   int64        `json:"cachedTokens"`
	Output   int64        `json:"outputTokens"`
	Credits  money.Amount `json:"credits"`
	Seconds  float64      `json:"seconds"`
}

// taskReport is how often a task was done, by form.
type taskReport struct {
	Task  string  `json:"task"`
	About string  `json:"about"`
	Forms []score `json:"forms"`
}

type score struct {
	Form    string `json:"form"`
	Runs    int    `json:"runs"`
	Success int    `json:"success"`
}

// text is the score in a table; a dash where there is no run.
func (s score) text() string {
	if s.Runs == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d", s.Success, s.Runs)
}

// report adds up what was done so far.
func (b *bench) report() report {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := report{
		Model: b.model, Scripted: b.plan.scripted, Partial: len(b.outcomes) < b.plan.runs(), Stopped: b.stopped, Planned: b.plan.runs(), Budget: b.plan.budget,
		Spent: b.ledger.spent, Forms: []formReport{}, Tasks: []taskReport{}, Runs: append([]outcome{}, b.inOrder()...),
	}
	for _, f := range b.plan.forms {
		r.Forms = append(r.Forms, sum(f, r.Runs))
	}
	for _, t := range b.plan.tasks {
		one := taskReport{Task: t.Name, About: t.About, Forms: []score{}}
		for _, f := range b.plan.forms {
			s := score{Form: f.name}
			for _, o := range r.Runs {
				if o.Form == f.name && o.Task == t.Name {
					s.Runs++
					s.Success += count(o.Success)
				}
			}
			one.Forms = append(one.Forms, s)
		}
		r.Tasks = append(r.Tasks, one)
	}
	return r
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// sum adds up the runs of a form.
func sum(f form, runs []outcome) formReport {
	s := formReport{Form: f.name, About: f.about, Settings: f.settings, PTC: f.ptc}
	var times []float64
	for _, o := range runs {
		if o.Form != f.name {
			continue
		}
		s.Runs++
		s.Success += count(o.Success)
		s.Requests += o.Requests
		s.Input, s.Cached, s.Output, s.Credits = s.Input+o.Input, s.Cached+o.Cached, s.Output+o.Output, s.Credits+o.Credits
		times = append(times, o.Seconds)
	}
	if len(times) > 0 {
		slices.Sort(times)
		s.Seconds = times[(len(times)-1)/2]
	}
	return s
}

// print shows the tables to a person.
func (r report) print(c *shell.Shell, p plan) error {
	if r.Scripted {
		fmt.Fprintf(c.Stdout, "The model is SCRIPTED: the numbers are those of the forms, and say nothing of a model.\n\n")
	} else {
		fmt.Fprintf(c.Stdout, "Model %s\n\n", r.Model)
	}
	if r.Partial {
		fmt.Fprintf(c.Stdout, "PARTIAL: %d of %d runs were made. %s\n\n", len(r.Runs), r.Planned, r.Stopped)
	}
	err := c.Table("FORM | SUCCESS | REQUESTS | TOKENS IN | CACHED | TOKENS OUT | CREDITS | SECONDS (P50)", func(w io.Writer) {
		for _, f := range r.Forms {
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%s\t%.2f\n", f.Form, score{Runs: f.Runs, Success: f.Success}.text(), f.Requests, f.Input, f.Cached, f.Output, f.Credits, f.Seconds)
		}
	})()
	if err != nil {
		return err
	}
	fmt.Fprintln(c.Stdout)
	head := []string{"TASK"}
	for _, f := range p.forms {
		head = append(head, strings.ToUpper(f.name))
	}
	err = c.Table(strings.Join(head, " | "), func(w io.Writer) {
		for _, t := range r.Tasks {
			fmt.Fprint(w, t.Task)
			for _, s := range t.Forms {
				fmt.Fprint(w, "\t"+s.text())
			}
			fmt.Fprintln(w)
		}
	})()
	if err != nil {
		return err
	}
	return r.failures(c.Stdout)
}

// failures says why runs did not do their task, and what runs were warned of.
func (r report) failures(w io.Writer) (err error) {
	for _, o := range r.Runs {
		if !o.Success {
			_, err = fmt.Fprintf(w, "\n%s, %s, attempt %d: %s\n", o.Form, o.Task, o.Attempt, o.Reason)
		}
		for _, text := range o.Warnings {
			_, err = fmt.Fprintf(w, "\n%s, %s, attempt %d, warning: %s\n", o.Form, o.Task, o.Attempt, text)
		}
	}
	if r.Budget != nil {
		_, err = fmt.Fprintf(w, "\n%s of %s credits were spent.\n", r.Spent, *r.Budget)
	}
	return err
}
