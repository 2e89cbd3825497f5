package cli

import (
	"context"
	"fmt"
	"io"
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
)

func (c *cli) credit() *cobra.Command {
	return c.group("credit", "Credits",
		c.creditGrant(), c.creditRefund(), c.creditBalance(), c.creditReport(), c.creditRecharges(),
		c.creditPlan(), c.creditSubscribe(), c.creditCancel(), c.creditLimit(), c.creditRate(), c.creditVerify())
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

// ofUser makes a command about one user, whom the flag --user names.
func (c *cli) ofUser(use, short string, work func(ctx context.Context, a *app.App, user actor.Actor, name string) error) *cobra.Command {
	var name string
	cmd := c.command(use, short, cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		return c.with(cmd, func(ctx context.Context, a *app.App) error {
			u, err := a.Accounts.Service.UserByName(ctx, name)
			if err != nil {
				return err
			}
			return work(ctx, a, actor.Actor{UID: u.UID, Scope: actor.Full}, u.Name)
		})
	})
	cmd.Flags().StringVar(&name, "user", "", "name of the user")
	required(cmd, "user")
	return cmd
}

func (c *cli) creditGrant() *cobra.Command {
	var (
		amount   amounts
		days     int
		id, text string
	)
	cmd := c.ofUser("grant", "Give credits to a user", func(ctx context.Context, a *app.App, user actor.Actor, name string) error {
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
	required(cmd, "amount")
	return cmd
}

func (c *cli) showBalance(ctx context.Context, a *app.App, user actor.Actor, name string) error {
	b, err := a.Credits.Service.Balance(ctx, user)
	if err == nil {
		_, err = fmt.Fprintf(c.stdout, "%s has %s credits\n", name, b.Net)
	}
	return err
}

func (c *cli) creditBalance() *cobra.Command {
	return c.ofUser("balance", "What a user has, with today's gift", c.showBalance)
}

func (c *cli) creditRefund() *cobra.Command {
	var call, text string
	cmd := c.ofUser("refund", "Give back what a call cost, once", func(ctx context.Context, a *app.App, user actor.Actor, name string) error {
		n, err := a.Credits.Service.Refund(ctx, user.UID, call, text)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.stdout, "%s credits given back\n", n)
		return c.showBalance(ctx, a, user, name)
	})
	cmd.Flags().StringVar(&call, "call", "", "id of the call")
	cmd.Flags().StringVar(&text, "text", "", "why")
	required(cmd, "call")
	return cmd
}

func (c *cli) creditReport() *cobra.Command {
	var run, from, until string
	cmd := c.ofUser("report", "What a user was charged, by tool and model", func(ctx context.Context, a *app.App, user actor.Actor, _ string) error {
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
				return fmt.Errorf("%q is not a day such as 2026-01-31: %w", *text, errUsage)
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
		return c.table(func(w io.Writer) {
			fmt.Fprintln(w, "WHAT\tCALLS\tBY THE LIST\tCHARGED")
			for _, l := range r.Lines {
				what := l.Toolset + "." + l.Tool
				if l.Model != "" {
					what = l.Model
				}
				fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", what, l.Calls, l.Total, l.Charged)
			}
			fmt.Fprintf(w, "total\t\t%s\t%s\n", r.Total, r.Charged)
		})
	})
	cmd.Flags().StringVar(&run, "run", "", "only this run")
	cmd.Flags().StringVar(&from, "from", "", "from this day on, UTC")
	cmd.Flags().StringVar(&until, "until", "", "before this day, UTC")
	return cmd
}

func (c *cli) creditRecharges() *cobra.Command {
	return c.ofUser("recharges", "What a user was given, newest first", func(ctx context.Context, a *app.App, user actor.Actor, _ string) error {
		page, err := a.Credits.Service.Recharges(ctx, user, httpapi.PageQuery{Limit: 100})
		if err != nil {
			return err
		}
		return c.table(func(w io.Writer) {
			fmt.Fprintln(w, "ID\tSOURCE\tGIVEN\tLEFT\tEXPIRES")
			for _, l := range page.Items {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", l.ID, l.Source, l.Amount, l.Left, l.ExpiresAt.Format(time.RFC3339))
			}
		})
	})
}

func (c *cli) creditPlan() *cobra.Command {
	var (
		p              billing.Plan
		monthly, daily amounts
	)
	cmd := c.command("plan LOOKUP_KEY", "Add or change a plan; --type free is that of users without a subscription", cobra.ExactArgs(1),
		func(cmd *cobra.Command, args []string) error {
			return c.with(cmd, func(ctx context.Context, a *app.App) error {
				p.LookupKey, p.Monthly, p.DailyGift = args[0], monthly.or(0), daily.or(0)
				if err := a.Credits.Service.SetPlan(ctx, p); err != nil {
					return err
				}
				plans, err := a.Credits.Service.Plans(ctx)
				if err != nil {
					return err
				}
				return c.table(func(w io.Writer) {
					fmt.Fprintln(w, "PLAN\tTYPE\tINTERVAL\tA MONTH\tA DAY")
					for _, p := range plans {
						fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", p.LookupKey, p.Type, p.Interval, p.Monthly, p.DailyGift)
					}
				})
			})
		})
	cmd.Flags().StringVar(&p.Type, "type", "", "such as plus")
	cmd.Flags().StringVar(&p.Interval, "interval", "", "monthly or yearly")
	cmd.Flags().Var(&monthly, "monthly", "given each calendar month")
	cmd.Flags().Var(&daily, "daily-gift", "given each day")
	required(cmd, "type")
	return cmd
}

func (c *cli) creditSubscribe() *cobra.Command {
	var (
		sub  billing.Subscription
		days int
	)
	cmd := c.ofUser("subscribe", "Give a user a plan", func(ctx context.Context, a *app.App, user actor.Actor, name string) error {
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
	required(cmd, "plan")
	return cmd
}

func (c *cli) creditCancel() *cobra.Command {
	return c.ofUser("cancel", "End the subscriptions of a user; credits stay until they expire", func(ctx context.Context, a *app.App, user actor.Actor, name string) error {
		if err := a.Credits.Service.Cancel(ctx, user.UID); err != nil {
			return err
		}
		return c.showBalance(ctx, a, user, name)
	})
}

func (c *cli) creditLimit() *cobra.Command {
	var run, day, overdraft amounts
	cmd := c.ofUser("limit", "Set what a user may spend; what is left out follows the server's settings", func(ctx context.Context, a *app.App, user actor.Actor, name string) error {
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
		_, err = fmt.Fprintf(c.stdout, "%s: a run %s, a day %s, overdraft %s\n", name, show(l.Run), show(l.Day), show(l.Overdraft))
		return err
	})
	cmd.Flags().Var(&run, "run", "most that one run may spend")
	cmd.Flags().Var(&day, "day", "most that the user may spend in a day (UTC)")
	cmd.Flags().Var(&overdraft, "overdraft", "how far the balance may go below 0")
	return cmd
}

func (c *cli) creditRate() *cobra.Command {
	var standard, premium, margin amounts
	cmd := c.command("rate PROVIDER", "Set what a provider takes for a thousand calls, in dollars", cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		return c.with(cmd, func(ctx context.Context, a *app.App) error {
			r := price.Rates{Standard: standard.or(0), Premium: premium.or(0), Margin: margin.or(money.Credit)}
			if err := a.Credits.Service.SetRates(ctx, args[0], r); err != nil {
				return err
			}
			_, err := fmt.Fprintf(c.stdout, "%s: %s standard, %s premium for 1000 calls, times %s\n", args[0], r.Standard, r.Premium, r.Margin)
			return err
		})
	})
	cmd.Flags().Var(&standard, "standard", "dollars for 1000 calls of the standard tier")
	cmd.Flags().Var(&premium, "premium", "dollars for 1000 calls of the premium tier")
	cmd.Flags().Var(&margin, "margin", "what the price is multiplied by; 1 when left out")
	required(cmd, "standard", "premium")
	return cmd
}

func (c *cli) creditVerify() *cobra.Command {
	return c.command("verify", "Prove that what was charged is what was taken and owed, for every user", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		return c.with(cmd, func(ctx context.Context, a *app.App) error {
			users, wrong, err := a.Credits.Reports.Verify(ctx)
			if err != nil {
				return err
			}
			for _, b := range wrong {
				fmt.Fprintln(c.stdout, b)
			}
			if len(wrong) > 0 {
				return fmt.Errorf("the books of %d of %d users do not balance", len(wrong), users)
			}
			_, err = fmt.Fprintf(c.stdout, "The books balance. Users: %d\n", users)
			return err
		})
	})
}
