package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/cli/shell"
	"github.com/portico-run/portico/modules/ptc"
)

func (c *cli) ptc() *cobra.Command {
	var q ptc.Question
	s := shell.Spec{Use: "explain", Short: "Say whether programmatic tool calling is on for a run, and why", Example: "portico ptc explain --uid u-x3k9 --toolsets demo", JSON: true}
	explain := c.Command(s, func(cmd *cobra.Command, _ []string) error {
		return c.With(cmd, func(_ context.Context, a *app.App) error {
			decision := a.PTC.Service.Decide(q)
			c.JSON = true // its answer has always been JSON
			return c.Answer(decision, nil)
		})
	})
	explain.Flags().StringVar(&q.UID, "uid", "", "id of the user, such as u-x3k9")
	explain.Flags().StringSliceVar(&q.Toolsets, "toolsets", nil, "toolset keys, comma-separated")
	explain.Flags().StringVar(&q.Title, "title", "", "title of the run")
	shell.Required(explain, "uid")
	return c.Group("ptc", "Programmatic tool calling (PTC)", explain)
}

type eventBody struct {
	When    time.Time         `json:"when"`
	Action  string            `json:"action"`
	Subject string            `json:"subject"`
	KeyID   string            `json:"keyId"`
	Detail  map[string]string `json:"detail"`
}

// audit lists who changed credentials, keys and connections.
func (c *cli) audit() *cobra.Command {
	var name string
	s := shell.Spec{Use: "audit", Short: "List changes to keys, credentials and connections: of a user, or of operators", Example: "portico audit --user admin", JSON: true}
	cmd := c.Command(s, func(cmd *cobra.Command, _ []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			who := actor.Actor{UID: audit.Operator}
			if name != "" {
				u, err := a.Accounts.Service.UserByName(ctx, name)
				if err != nil {
					return err
				}
				who.UID = u.UID
			}
			bodies, err := shell.All(func(q httpapi.PageQuery) (httpapi.Page[audit.Event], error) {
				return a.Accounts.Service.Audit(ctx, who, q)
			}, func(e audit.Event) eventBody { return eventBody{e.CreatedAt, e.Action, e.Subject, e.KeyID, e.Detail} })
			if err != nil {
				return err
			}
			return c.Answer(bodies, c.Table("WHEN | WHAT | OF | BY KEY", func(w io.Writer) {
				for _, e := range bodies {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", shell.Moment(&e.When), e.Action, e.Subject, e.KeyID)
				}
			}))
		})
	})
	cmd.Flags().StringVar(&name, "user", "", "name of the user; the operators' changes when left out")
	return cmd
}
