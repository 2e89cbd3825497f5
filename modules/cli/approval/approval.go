// Package approval is the commands about calls that wait for a person.
package approval

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/cli/shell"
	"github.com/portico-run/portico/modules/tool/approval"
)

type commands struct{ *shell.Shell }

// New makes the command approval.
func New(s *shell.Shell) *cobra.Command {
	c := commands{s}
	return c.Group("approval", "Calls that wait for a person, and which do", c.list(), c.show(), c.allow(), c.refuse(), c.policy(), c.set())
}

// approvalBody is an approval as commands print it.
type approvalBody struct {
	CallID    string          `json:"callId"`
	User      string          `json:"uid"`
	ResultID  string          `json:"resultId"`
	Toolset   string          `json:"toolset"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Host      string          `json:"host"`
	Price     string          `json:"price"`
	Reason    string          `json:"reason"`
	Question  *approval.Asked `json:"question,omitempty"`
	State     approval.State  `json:"state"`
	Decision  string          `json:"decision"`
	Note      string          `json:"note"`
	CreatedAt time.Time       `json:"createdAt"`
	ExpiresAt time.Time       `json:"expiresAt"`
}

func toBody(a approval.Approval) approvalBody {
	return approvalBody{
		CallID: a.CallID, User: a.UID, ResultID: a.ResultID, Toolset: a.Toolset, Tool: a.Tool, Arguments: a.Arguments, Host: a.Host, Price: a.Price,
		Reason: a.Reason, Question: a.Question, State: a.State, Decision: string(a.Decision), Note: a.Note, CreatedAt: a.CreatedAt, ExpiresAt: a.ExpiresAt,
	}
}

func (c commands) list() *cobra.Command {
	var name string
	s := shell.Spec{Use: "list", Short: "List the calls that wait, the oldest first", Example: "portico approval list", JSON: true}
	cmd := c.Command(s, func(cmd *cobra.Command, _ []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			uid, err := uidOf(ctx, a, name)
			if err != nil {
				return err
			}
			waiting, err := a.Approvals.Service.WaitingOf(ctx, uid)
			if err != nil {
				return err
			}
			bodies := make([]approvalBody, len(waiting))
			for i, w := range waiting {
				bodies[i] = toBody(w)
			}
			return c.Answer(bodies, c.Table("CALL | USER | TOOL | ARGUMENTS | UNTIL", func(w io.Writer) {
				for _, b := range bodies {
					fmt.Fprintf(w, "%s\t%s\t%s.%s\t%s\t%s\n", b.CallID, b.User, b.Toolset, b.Tool, cut(b.Arguments), shell.Moment(&b.ExpiresAt))
				}
			}))
		})
	})
	cmd.Flags().StringVar(&name, "user", "", "name of the user whose calls to list; all when left out")
	return cmd
}

// cut is arguments in a line of a table; show has all of them.
func cut(arguments json.RawMessage) string {
	const most = 60
	if r := []rune(string(arguments)); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return string(arguments)
}

func uidOf(ctx context.Context, a *app.App, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	u, err := a.Accounts.Service.UserByName(ctx, name)
	return u.UID, err
}

func (c commands) show() *cobra.Command {
	return c.Command(shell.Spec{Use: "show CALL-ID", Short: "Show a call that waits, or waited", Example: "portico approval show ptc:2f1f3c4e", JSON: true},
		func(cmd *cobra.Command, args []string) error {
			return c.With(cmd, func(ctx context.Context, a *app.App) error {
				found, err := a.Approvals.Service.Find(ctx, args[0])
				if err != nil {
					return err
				}
				return c.print(found)
			})
		})
}

func (c commands) print(a approval.Approval) error {
	b := toBody(a)
	return c.Answer(b, c.Table("", func(w io.Writer) {
		fmt.Fprintf(w, "call\t%s\nuser\t%s\ntool\t%s.%s\narguments\t%s\nhost\t%s\nprice\t%s\n", b.CallID, b.User, b.Toolset, b.Tool, b.Arguments, b.Host, b.Price)
		fmt.Fprintf(w, "why\t%s\nstate\t%s\nuntil\t%s\nnote\t%s\n", b.Reason, b.State, shell.Moment(&b.ExpiresAt), b.Note)
		if q := b.Question; q != nil {
			fmt.Fprintf(w, "question\t%s\nanswer\t%s\npage\t%s\n", q.Message, q.Schema, q.URL)
		}
	}))
}

func (c commands) allow() *cobra.Command {
	var run bool
	var pattern, arguments string
	s := shell.Spec{Use: "allow CALL-ID", Short: "Allow a call that waits", Example: "portico approval allow ptc:2f1f3c4e", JSON: true}
	cmd := c.Command(s, func(cmd *cobra.Command, args []string) error {
		r := approval.Ruling{CallID: args[0], Decision: approval.Allow, Arguments: json.RawMessage(arguments), Pattern: json.RawMessage(pattern)}
		switch {
		case run && pattern != "":
			return fmt.Errorf("--run and --always exclude each other: %w", shell.ErrUsage)
		case run:
			r.Decision = approval.AllowRun
		case pattern != "":
			r.Decision = approval.AllowAlways
		}
		return c.decide(cmd, r)
	})
	cmd.Flags().BoolVar(&run, "run", false, "allow the tool for the whole run, where it has to be allowed first")
	cmd.Flags().StringVar(&pattern, "always", "", `allow such calls from now on: arguments as JSON, with "*" for any value`)
	cmd.Flags().StringVar(&arguments, "arguments", "", "make the call with these arguments, as JSON; where it asks a question, the answer")
	return cmd
}

func (c commands) refuse() *cobra.Command {
	var reason string
	s := shell.Spec{Use: "refuse CALL-ID", Short: "Refuse a call that waits", Example: `portico approval refuse ptc:2f1f3c4e --reason "not on a Friday"`, JSON: true}
	cmd := c.Command(s, func(cmd *cobra.Command, args []string) error {
		return c.decide(cmd, approval.Ruling{CallID: args[0], Decision: approval.Refuse, Reason: reason})
	})
	cmd.Flags().StringVar(&reason, "reason", "", "what the program, or the model, is told")
	return cmd
}

func (c commands) decide(cmd *cobra.Command, r approval.Ruling) error {
	return c.With(cmd, func(ctx context.Context, a *app.App) error {
		decided, err := a.Approvals.Service.DecideFor(ctx, r)
		if err != nil {
			return err
		}
		return c.print(decided)
	})
}

// ruleBody is a rule as commands print it.
type ruleBody struct {
	Toolset string         `json:"toolset"`
	Tool    string         `json:"tool"`
	UID     string         `json:"uid"`
	KeyID   string         `json:"keyId"`
	Level   approval.Level `json:"level"`
}

func (c commands) policy() *cobra.Command {
	return c.Command(shell.Spec{Use: "policy", Short: "List the rules of operators, and what is usual", Example: "portico approval policy", JSON: true},
		func(cmd *cobra.Command, _ []string) error {
			return c.With(cmd, func(ctx context.Context, a *app.App) error {
				rules, err := a.Approvals.Service.Rules(ctx)
				if err != nil {
					return err
				}
				body := struct {
					Default string     `json:"default"`
					Rules   []ruleBody `json:"rules"`
				}{a.Config.Approval.Default, make([]ruleBody, len(rules))}
				for i, r := range rules {
					body.Rules[i] = ruleBody{r.Toolset, r.Tool, r.UID, r.KeyID, r.Level}
				}
				return c.Answer(body, c.Table("TOOL | USER | KEY | WAITS", func(w io.Writer) {
					for _, r := range body.Rules {
						fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", strings.Trim(r.Toolset+"."+r.Tool, "."), r.UID, r.KeyID, r.Level)
					}
					fmt.Fprintf(w, "others that may write\t\t\t%s\n", body.Default)
				}))
			})
		})
}

func (c commands) set() *cobra.Command {
	var name, key, tools string
	s := shell.Spec{
		Use: "set LEVEL", Short: "Say when calls wait: never, first, always, or none to take the rule away", JSON: true,
		Example: "portico approval set always --tool mail.send\nportico approval set first --tool github\nportico approval set always --key ak-x3k9",
	}
	cmd := c.Command(s, func(cmd *cobra.Command, args []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			text := args[0]
			if text == "none" {
				text = ""
			}
			level, err := approval.ParseLevel(text)
			if err != nil {
				return err
			}
			r := approval.Rule{KeyID: key, Level: level}
			if r.UID, err = uidOf(ctx, a, name); err != nil {
				return err
			}
			r.Toolset, r.Tool, _ = strings.Cut(tools, ".")
			if err := a.Approvals.Service.SetRule(ctx, r); err != nil {
				return err
			}
			b := ruleBody{r.Toolset, r.Tool, r.UID, r.KeyID, r.Level}
			return c.Answer(b, c.Table("", func(w io.Writer) { fmt.Fprintf(w, "%s\t%s\n", strings.Trim(tools+" "+key+" "+name, " "), args[0]) }))
		})
	})
	cmd.Flags().StringVar(&tools, "tool", "", "a toolset or an MCP server, or a tool of one: KEY or KEY.TOOL")
	cmd.Flags().StringVar(&name, "user", "", "name of the user whose calls it is about; everybody's when left out")
	cmd.Flags().StringVar(&key, "key", "", "id of the API key that makes the calls, or began the program")
	return cmd
}
