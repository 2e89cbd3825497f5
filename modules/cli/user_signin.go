package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/cli/shell"
)

// operator is who works on the command line, for the audit log.
func operator() actor.Actor { return actor.Actor{UID: audit.Operator} }

func (c *cli) userRole() *cobra.Command {
	s := shell.Spec{Use: "role NAME ROLE", Short: "Make a user an administrator, or one no more", Example: "portico user role anna admin\nportico user role anna user"}
	return c.Command(s, func(cmd *cobra.Command, args []string) error {
		if args[1] != "admin" && args[1] != "user" {
			return fmt.Errorf("ROLE is admin or user, not %q: %w", args[1], shell.ErrUsage)
		}
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			u, err := a.Accounts.Service.UserByName(ctx, args[0])
			if err != nil {
				return err
			}
			return a.Accounts.Service.SetRole(ctx, operator(), u.UID, args[1] == "admin")
		})
	})
}

func (c *cli) userPassword() *cobra.Command {
	s := shell.Spec{
		Use: "password NAME", Short: "Give a user a password, which is typed twice or is the first line of standard input; it ends their sessions",
		Example: "portico user password anna",
	}
	return c.Command(s, func(cmd *cobra.Command, args []string) error {
		word, err := typed(cmd)
		if err != nil {
			return err
		}
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			u, err := a.Accounts.Service.UserByName(ctx, args[0])
			if err != nil {
				return err
			}
			return a.SignIn.Service.SetPassword(ctx, operator(), u.UID, word)
		})
	})
}

// typed reads a password: from a terminal without showing it, twice; otherwise the
// first line.
func typed(cmd *cobra.Command) (string, error) {
	in, isFile := cmd.InOrStdin().(*os.File)
	if !isFile || !term.IsTerminal(int(in.Fd())) {
		line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		return strings.TrimRight(line, "\r\n"), nil
	}
	// The terminal shows nothing from before the first question to after the last
	// answer: whoever pastes is faster than a question.
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(int(in.Fd()), before) }() // it has gone
	terminal := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{in, cmd.ErrOrStderr()}, "")
	var words [2]string
	for i, ask := range []string{"Password: ", "Once more: "} {
		if words[i], err = terminal.ReadPassword(ask); errors.Is(err, io.EOF) {
			return "", errs.New(errs.Invalid, "No password was typed. Nothing was changed.")
		}
		if err != nil {
			return "", err
		}
	}
	if words[0] != words[1] {
		return "", errs.New(errs.Invalid, "These are two passwords. Nothing was changed.")
	}
	return words[0], nil
}

type invitationBody struct {
	Code      string    `json:"code"`
	Link      string    `json:"link"`
	ExpiresAt time.Time `json:"expiresAt"`
}

func (c *cli) userInvite() *cobra.Command {
	s := shell.Spec{Use: "invite", Short: "Print a link with which one person signs up, within a week; without a console, the code", Example: "portico user invite", JSON: true}
	return c.Command(s, func(cmd *cobra.Command, _ []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			made, err := a.SignIn.Service.Invite(ctx, operator())
			if err != nil {
				return err
			}
			return c.Answer(invitationBody(made), c.Line("%s", cmp.Or(made.Link, made.Code)))
		})
	})
}
