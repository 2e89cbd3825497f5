// Package credits is the commands about credits: grants, plans, limits, reports
// and the proof of the books.
package credits

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/billing/report"
	"github.com/portico-run/portico/modules/cli/shell"
)

type commands struct{ *shell.Shell }

// New makes the command credit.
func New(s *shell.Shell) *cobra.Command {
	c := commands{s}
	return c.Group("credit", "Credits",
		c.grant(), c.refund(), c.balance(), c.report(), c.recharges(),
		c.plan(), c.subscribe(), c.cancel(), c.limit(), c.rate(), c.verify())
}

// amounts is a flag of credits.
type amounts struct{ amount *money.Amount }

// String implements pflag.Value.
func (a *amounts) String() string {
	if a.amount == nil {
		return ""
	}
	return a.amount.String()
}

// Set implements pflag.Value.
func (a *amounts) Set(text string) error {
	n, err := money.Parse(text)
	a.amount = &n
	return err
}

// Type implements pflag.Value.
func (*amounts) Type() string { return "credits" }

// or is the amount, or another one where it was not given.
func (a *amounts) or(otherwise money.Amount) money.Amount {
	if a.amount == nil {
		return otherwise
	}
	return *a.amount
}

func (c commands) grant() *cobra.Command {
	var (
		amount   amounts
		days     int
		id, text string
	)
	cmd := c.OfUser(shell.Spec{Use: "grant", Short: "Give credits to a user", Example: "portico credit grant --user anna --amount 100"}, func(ctx context.Context, a *app.App, user actor.Actor, name string) error {
		if id == "" {
			id = ids.New(ids.Recharge)
		}
		err := a.Credits.Service.Grant(ctx, user.UID, billing.Recharge{
			ID: id, Amount: amount.or(0), Source: "gift", Text: text, ExpiresAt: time.Now().AddDate(0, 0, days),
		})
		if err != nil {
			return err
		}
		return c.showBalance(ctx, a, user, name)
	})
	cmd.Flags().Var(&amount, "amount", "such as 100 or 2.5")
	cmd.Flags().IntVar(&days, "days", 30, "days until they expire")
	cmd.Flags().StringVar(&id, "id", "", "the same id grants once, however often it is sent")
	cmd.Flags().StringVar(&text, "text", "", "what they are for")
	shell.Required(cmd, "amount")
	return cmd
}

func (c commands) showBalance(ctx context.Context, a *app.App, user actor.Actor, name string) error {
	return c.showBalanceAfter(ctx, a, user, balanceBody{User: name})
}

// balanceBody is what a user has, and what a refund gave back.
type balanceBody struct {
	User     string        `json:"user"`
	Refunded *money.Amount `json:"refunded,omitempty"`
	billing.Balance
}

func (c commands) showBalanceAfter(ctx context.Context, a *app.App, user actor.Actor, body balanceBody) error {
	b, err := a.Credits.Service.Balance(ctx, user)
	if err != nil {
		return err
	}
	body.Balance = b
	return c.Answer(body, func() error {
		if body.Refunded != nil {
			fmt.Fprintf(c.Stdout, "%s credits given back\n", body.Refunded)
		}
		_, err := fmt.Fprintf(c.Stdout, "%s has %s credits\n", body.User, b.Net)
		return err
	})
}

func (c commands) balance() *cobra.Command {
	return c.OfUser(shell.Spec{Use: "balance", Short: "What a user has, with today's gift", Example: "portico credit balance --user anna"}, c.showBalance)
}

func (c commands) refund() *cobra.Command {
	var call, text string
	cmd := c.OfUser(shell.Spec{Use: "refund", Short: "Give back what a call cost, once", Example: "portico credit refund --user anna --call CALL-ID"}, func(ctx context.Context, a *app.App, user actor.Actor, name string) error {
		n, err := a.Credits.Service.Refund(ctx, user.UID, call, text)
		if err != nil {
			return err
		}
		return c.showBalanceAfter(ctx, a, user, balanceBody{User: name, Refunded: &n})
	})
	cmd.Flags().StringVar(&call, "call", "", "id of the call")
	cmd.Flags().StringVar(&text, "text", "", "why")
	shell.Required(cmd, "call")
	return cmd
}

func (c commands) report() *cobra.Command {
	var run, from, until string
	cmd := c.OfUser(shell.Spec{Use: "report", Short: "What a user was charged, by tool and model", Example: "portico credit report --user anna --from 2026-01-01"}, func(ctx context.Context, a *app.App, user actor.Actor, _ string) error {
		var (
			p   report.Period
			r   report.Statement
			err error
		)
		for text, moment := range map[*string]*time.Time{&from: &p.From, &until: &p.Until} {
			if *text == "" {
				continue
			}
			if *moment, err = time.Parse(time.DateOnly, *text); err != nil {
				return fmt.Errorf("%q is not a day such as 2026-01-31: %w", *text, shell.ErrUsage)
			}
		}
		if run != "" {
			r, err = a.Credits.Reports.RunReport(ctx, user, run, nil)
		} else {
			r, err = a.Credits.Reports.Report(ctx, user, p)
		}
		if err != nil {
			return err
		}
		return c.Answer(r, c.Table("WHAT | CALLS | BY THE LIST | CHARGED", func(w io.Writer) {
			for _, l := range r.Lines {
				what := l.Toolset + "." + l.Tool
				if l.Model != "" {
					what = l.Model
				}
				fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", what, l.Calls, l.Total, l.Charged)
			}
			fmt.Fprintf(w, "total\t\t%s\t%s\n", r.Total, r.Charged)
		}))
	})
	cmd.Flags().StringVar(&run, "run", "", "only this run")
	cmd.Flags().StringVar(&from, "from", "", "from this day (UTC) on, such as 2026-01-31")
	cmd.Flags().StringVar(&until, "until", "", "before this day (UTC)")
	return cmd
}

type rechargeBody struct {
	ID        string       `json:"id"`
	Source    string       `json:"source"`
	Text      string       `json:"text"`
	Amount    money.Amount `json:"amount"`
	Left      money.Amount `json:"left"`
	CreatedAt time.Time    `json:"createdAt"`
	ExpiresAt time.Time    `json:"expiresAt"`
}

func (c commands) recharges() *cobra.Command {
	return c.OfUser(shell.Spec{Use: "recharges", Short: "What a user was given, newest first", Example: "portico credit recharges --user anna"}, func(ctx context.Context, a *app.App, user actor.Actor, _ string) error {
		bodies, err := shell.All(func(q httpapi.PageQuery) (httpapi.Page[billing.Lot], error) {
			return a.Credits.Service.Recharges(ctx, user, q)
		}, func(l billing.Lot) rechargeBody {
			return rechargeBody{l.ID, l.Source, l.Text, l.Amount, l.Left, l.CreatedAt, l.ExpiresAt}
		})
		if err != nil {
			return err
		}
		return c.Answer(bodies, c.Table("ID | SOURCE | GIVEN | LEFT | EXPIRES", func(w io.Writer) {
			for _, l := range bodies {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", l.ID, l.Source, l.Amount, l.Left, shell.Moment(&l.ExpiresAt))
			}
		}))
	})
}

type planBody struct {
	LookupKey string       `json:"lookupKey"`
	Type      string       `json:"type"`
	Interval  string       `json:"interval"`
	Monthly   money.Amount `json:"monthly"`
	DailyGift money.Amount `json:"dailyGift"`
}

func (c commands) plan() *cobra.Command {
	var (
		p              billing.Plan
		monthly, daily amounts
	)
	cmd := c.Command(shell.Spec{
		Use: "plan LOOKUP_KEY", Short: "Add or change a plan",
		Example: "portico credit plan plus_monthly --type plus --interval monthly --monthly 2000 --daily-gift 100", JSON: true,
	}, func(cmd *cobra.Command, args []string) error {
		if !slices.Contains([]string{"", "monthly", "yearly"}, p.Interval) {
			return fmt.Errorf("--interval is monthly or yearly: %w", shell.ErrUsage)
		}
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			p.LookupKey, p.Monthly, p.DailyGift = args[0], monthly.or(0), daily.or(0)
			if err := a.Credits.Service.SetPlan(ctx, p); err != nil {
				return err
			}
			plans, err := a.Credits.Service.Plans(ctx)
			if err != nil {
				return err
			}
			bodies := make([]planBody, len(plans))
			for i, p := range plans {
				bodies[i] = planBody{p.LookupKey, p.Type, p.Interval, p.Monthly, p.DailyGift}
			}
			return c.Answer(bodies, c.Table("PLAN | TYPE | INTERVAL | A MONTH | A DAY", func(w io.Writer) {
				for _, p := range bodies {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", p.LookupKey, p.Type, p.Interval, p.Monthly, p.DailyGift)
				}
			}))
		})
	})
	cmd.Flags().StringVar(&p.Type, "type", "", "a name for plans of one kind, such as plus; free is for users without a subscription")
	cmd.Flags().StringVar(&p.Interval, "interval", "", "monthly or yearly")
	cmd.Flags().Var(&monthly, "monthly", "given each calendar month")
	cmd.Flags().Var(&daily, "daily-gift", "given each day")
	shell.Required(cmd, "type")
	return cmd
}

func (c commands) subscribe() *cobra.Command {
	var (
		sub  billing.Subscription
		days int
	)
	cmd := c.OfUser(shell.Spec{Use: "subscribe", Short: "Give a user a plan", Example: "portico credit subscribe --user anna --plan plus_monthly"}, func(ctx context.Context, a *app.App, user actor.Actor, name string) error {
		if days < 0 {
			return fmt.Errorf("--days is 0 or more: %w", shell.ErrUsage)
		}
		if days > 0 {
			sub.CancelAt = time.Now().AddDate(0, 0, days)
		}
		if err := a.Credits.Service.Subscribe(ctx, user.UID, sub); err != nil {
			return err
		}
		return c.showBalance(ctx, a, user, name)
	})
	cmd.Flags().StringVar(&sub.LookupKey, "plan", "", "lookup key of the plan")
	cmd.Flags().StringVar(&sub.ID, "id", "", "the same id subscribes once")
	cmd.Flags().IntVar(&days, "days", 0, "days until it ends; 0 for never")
	shell.Required(cmd, "plan")
	return cmd
}

func (c commands) cancel() *cobra.Command {
	return c.OfUser(shell.Spec{Use: "cancel", Short: "End the subscriptions of a user; credits stay until they expire", Example: "portico credit cancel --user anna"}, func(ctx context.Context, a *app.App, user actor.Actor, name string) error {
		if err := a.Credits.Service.Cancel(ctx, user.UID); err != nil {
			return err
		}
		return c.showBalance(ctx, a, user, name)
	})
}

// limitsBody is what a user may spend; null is no limit.
type limitsBody struct {
	User      string        `json:"user"`
	Run       *money.Amount `json:"run"`
	Day       *money.Amount `json:"day"`
	Overdraft *money.Amount `json:"overdraft"`
}

func (c commands) limit() *cobra.Command {
	var run, day, overdraft amounts
	cmd := c.OfUser(shell.Spec{Use: "limit", Short: "Set what a user may spend; what is left out follows the server's settings", Example: "portico credit limit --user anna --day 50"}, func(ctx context.Context, a *app.App, user actor.Actor, name string) error {
		l := billing.Limits{Run: run.amount, Day: day.amount, Overdraft: overdraft.amount}
		if err := a.Credits.Service.SetLimits(ctx, user.UID, l); err != nil {
			return err
		}
		l, err := a.Credits.Service.LimitsOf(ctx, user.UID)
		if err != nil {
			return err
		}
		show := func(n *money.Amount) string {
			if n == nil {
				return "unlimited"
			}
			return n.String()
		}
		return c.Answer(limitsBody{name, l.Run, l.Day, l.Overdraft}, c.Line("%s: a run %s, a day %s, overdraft %s", name, show(l.Run), show(l.Day), show(l.Overdraft)))
	})
	cmd.Flags().Var(&run, "run", "most that one run may spend")
	cmd.Flags().Var(&day, "day", "most that the user may spend in a day (UTC)")
	cmd.Flags().Var(&overdraft, "overdraft", "how far the balance may go below 0")
	return cmd
}

// rateBody is what a provider takes for a thousand calls, in dollars.
type rateBody struct {
	Provider string       `json:"provider"`
	Standard money.Amount `json:"standard"`
	Premium  money.Amount `json:"premium"`
	Margin   money.Amount `json:"margin"`
}

func (c commands) rate() *cobra.Command {
	var standard, premium, margin amounts
	cmd := c.Command(shell.Spec{
		Use: "rate PROVIDER", Short: "Set what a provider takes for a thousand calls, in dollars",
		Example: "portico credit rate composio --standard 0.299 --premium 0.897", JSON: true,
	}, func(cmd *cobra.Command, args []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			r := price.Rates{Standard: standard.or(0), Premium: premium.or(0), Margin: margin.or(money.Credit)}
			if err := a.Credits.Service.SetRates(ctx, args[0], r); err != nil {
				return err
			}
			body := rateBody{args[0], r.Standard, r.Premium, r.Margin}
			return c.Answer(body, c.Line("%s: %s standard, %s premium for 1000 calls, times %s", args[0], r.Standard, r.Premium, r.Margin))
		})
	})
	cmd.Flags().Var(&standard, "standard", "dollars for 1000 calls of the standard tier")
	cmd.Flags().Var(&premium, "premium", "dollars for 1000 calls of the premium tier")
	cmd.Flags().Var(&margin, "margin", "what the price is multiplied by; 1 when left out")
	shell.Required(cmd, "standard", "premium")
	return cmd
}

// verifiedBody names the users whose books do not balance.
type verifiedBody struct {
	Users int         `json:"users"`
	Wrong []booksBody `json:"wrong"`
}

type booksBody struct {
	UID     string       `json:"uid"`
	Charged money.Amount `json:"charged"`
	Taken   money.Amount `json:"taken"`
	Owed    money.Amount `json:"owed"`
}

func (c commands) verify() *cobra.Command {
	return c.Command(shell.Spec{Use: "verify", Short: "Prove that what was charged is what was taken and owed, for every user", Example: "portico credit verify", JSON: true}, func(cmd *cobra.Command, _ []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			users, wrong, err := a.Credits.Reports.Verify(ctx)
			if err != nil {
				return err
			}
			body := verifiedBody{Users: users, Wrong: []booksBody{}}
			for _, b := range wrong {
				body.Wrong = append(body.Wrong, booksBody(b))
			}
			err = c.Answer(body, func() error {
				for _, b := range wrong {
					fmt.Fprintln(c.Stdout, b)
				}
				if len(wrong) == 0 {
					fmt.Fprintf(c.Stdout, "The books balance. Users: %d\n", users)
				}
				return nil
			})
			if err == nil && len(wrong) > 0 {
				err = fmt.Errorf("the books of %d of %d users do not balance", len(wrong), users)
			}
			return err
		})
	})
}
