package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/cli/shell"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/erase"
)

type runBody struct {
	ResultID  string    `json:"resultId"`
	Version   int       `json:"version"`
	UID       string    `json:"uid"`
	Title     string    `json:"title"`
	Type      string    `json:"type"`
	Status    string    `json:"status"`
	CanvasID  string    `json:"canvasId"`
	Model     string    `json:"model"`
	Toolsets  []string  `json:"toolsets"`
	Errors    []string  `json:"errors"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
}

func toRun(r run.Run) runBody {
	return runBody{
		ResultID: r.ResultID, Version: r.Version, UID: r.UID, Title: r.Title, Type: r.Type, Status: string(r.Status), CanvasID: r.CanvasID, Model: r.Model,
		Toolsets: append([]string{}, r.Toolsets...), Errors: append([]string{}, r.Errors...), CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}

// shownRun is a run with what is kept of it, over all of its versions.
type shownRun struct {
	runBody

	Versions int64        `json:"versions"`
	Events   int64        `json:"events"`
	Messages int64        `json:"messages"`
	Calls    int          `json:"calls"`
	Charged  money.Amount `json:"charged"`
}

func (c *cli) run() *cobra.Command {
	return c.Group("run", "Runs of programs and agents", c.runList(), c.runShow(), c.runDelete())
}

func (c *cli) runList() *cobra.Command {
	var limit int
	s := shell.Spec{Use: "list", Short: "List the newest runs of a user", Example: "portico run list --user admin --limit 20", JSON: true}
	cmd := c.OfUser(s, func(ctx context.Context, a *app.App, user actor.Actor, _ string) error {
		if limit < 1 || limit > httpapi.MaxPageSize {
			return fmt.Errorf("--limit is a number from 1 to %d: %w", httpapi.MaxPageSize, shell.ErrUsage)
		}
		page, err := a.Runs.Service.List(ctx, user, run.Filter{}, httpapi.PageQuery{Limit: limit})
		if err != nil {
			return err
		}
		bodies := make([]runBody, len(page.Items))
		for i, r := range page.Items {
			bodies[i] = toRun(r)
		}
		return c.Answer(bodies, c.Table("ID | VERSION | STATUS | CREATED | TITLE", func(w io.Writer) {
			for _, r := range bodies {
				fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", r.ResultID, r.Version, r.Status, shell.Moment(&r.CreatedAt), r.Title)
			}
		}))
	})
	cmd.Flags().IntVar(&limit, "limit", httpapi.DefaultPageSize, "how many at most, up to 200")
	return cmd
}

func (c *cli) runShow() *cobra.Command {
	s := shell.Spec{Use: "show RUN-ID", Short: "Show the newest version of a run and what is kept of it", Example: "portico run show ar-x3k9", JSON: true}
	return c.Command(s, func(cmd *cobra.Command, args []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			who, held, err := runByID(ctx, a, args[0])
			if err != nil {
				return err
			}
			r, err := a.Runs.Service.Get(ctx, who, args[0], nil)
			if err != nil {
				return err
			}
			cost, err := a.Credits.Reports.RunReport(ctx, who, args[0], nil)
			if err != nil {
				return err
			}
			body := shownRun{toRun(r), held.Versions, held.Events, held.Messages, len(held.Calls), cost.Charged}
			return c.Answer(body, c.Table("", func(w io.Writer) {
				fmt.Fprintf(w, "id\t%s\nversion\t%d\nuser\t%s\ntitle\t%s\nstatus\t%s\n", r.ResultID, r.Version, r.UID, r.Title, r.Status)
				fmt.Fprintf(w, "created\t%s\nchanged\t%s\n", shell.Moment(&r.CreatedAt), shell.Moment(&r.UpdatedAt))
				for _, e := range r.Errors {
					fmt.Fprintf(w, "error\t%s\n", e)
				}
				fmt.Fprintf(w, "events\t%d\nmessages\t%d\ncalls\t%d\ncharged\t%s\n", body.Events, body.Messages, body.Calls, body.Charged)
			}))
		})
	})
}

// runByID finds a run of any user's, and what is kept of it.
func runByID(ctx context.Context, a *app.App, id string) (who actor.Actor, held erase.Holdings, err error) {
	uid, err := a.Erasure.Owner(ctx, id)
	if err != nil {
		return who, held, err
	}
	who = actor.Actor{UID: uid, Scope: actor.Full}
	held, err = a.Erasure.Holdings(ctx, who, id)
	return who, held, err
}

func (c *cli) runDelete() *cobra.Command {
	s := shell.Spec{Use: "delete RUN-ID", Short: "Delete a run that has ended, with what was said in it", Example: "portico run delete ar-x3k9 --yes"}
	return c.Deletion(s, func(ctx context.Context, a *app.App, id string) (shell.Doomed, error) {
		who, held, err := runByID(ctx, a, id)
		if err == nil && held.Open {
			err = erase.ErrRunning
		}
		return shell.Doomed{
			What: "run " + id, Name: id,
			Along: []string{
				fmt.Sprintf("versions: %d, events: %d, messages: %d", held.Versions, held.Events, held.Messages),
				fmt.Sprintf("arguments and results of calls: %d", len(held.Calls)),
			},
			Stays:  []string{"that the calls were made, and what they cost", "files of its canvas"},
			Delete: func(ctx context.Context) error { return a.Erasure.Delete(ctx, who, id) },
		}, err
	})
}
