// Package mcp is the commands about MCP servers.
package mcp

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/cli/shell"
	"github.com/portico-run/portico/modules/connector/mcp/server"
)

type commands struct{ *shell.Shell }

// New makes the command mcp.
func New(s *shell.Shell) *cobra.Command {
	c := commands{s}
	return c.Group("mcp", "MCP servers, whose tools programs call", c.list(), c.add(), c.show(), c.test(), c.tools(), c.remove(),
		c.connect(), c.pin(), c.unpin(), c.price(), c.imports(), c.apply(), c.serve(), c.config())
}

// ofOwner makes a command about servers of everybody or, with --user, of a user.
func (c commands) ofOwner(s shell.Spec, work func(ctx context.Context, a *app.App, owner actor.Actor, args []string) error) *cobra.Command {
	var name string
	cmd := c.Command(s, func(cmd *cobra.Command, args []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			owner, err := ownerOf(ctx, a, name)
			if err != nil {
				return err
			}
			return work(ctx, a, owner, args)
		})
	})
	cmd.Flags().StringVar(&name, "user", "", "name of the user who has the server; without it, everybody's")
	return cmd
}

// ownerOf is a user, or nobody for the empty name.
func ownerOf(ctx context.Context, a *app.App, name string) (actor.Actor, error) {
	if name == "" {
		return actor.Actor{}, nil
	}
	u, err := a.Accounts.Service.UserByName(ctx, name)
	return actor.Actor{UID: u.UID, Scope: actor.Full}, err
}

// serverBody is a server as lists show it.
type serverBody struct {
	Name      string                  `json:"name"`
	Owner     string                  `json:"owner"`
	Transport string                  `json:"transport"`
	At        string                  `json:"at"`
	OAuth     bool                    `json:"oauth"`
	Enabled   bool                    `json:"enabled"`
	Price     money.Amount            `json:"price"`
	Prices    map[string]money.Amount `json:"prices"`
	Pinned    bool                    `json:"pinned"`
}

func toServer(v server.View) serverBody {
	b := serverBody{Name: v.Name, Owner: v.Owner, Transport: string(v.Transport), At: v.Origin, OAuth: v.OAuth, Enabled: v.Enabled, Price: v.Price, Prices: v.Prices, Pinned: v.Pinned}
	if b.Prices == nil {
		b.Prices = map[string]money.Amount{}
	}
	return b
}

func (b serverBody) owner() string {
	if b.Owner == "" {
		return "everybody"
	}
	return b.Owner
}

func (c commands) list() *cobra.Command {
	return c.Command(shell.Spec{Use: "list", Short: "List the MCP servers of everybody and of all users", Example: "portico mcp list", JSON: true}, func(cmd *cobra.Command, _ []string) error {
		return c.With(cmd, func(ctx context.Context, a *app.App) error {
			views, err := a.Servers.Operators().All(ctx)
			if err != nil {
				return err
			}
			bodies := make([]serverBody, len(views))
			for i, v := range views {
				bodies[i] = toServer(v.View)
				if v.Command != "" {
					bodies[i].At = v.Command
				}
			}
			return c.Answer(bodies, c.Table("NAME | OWNER | TRANSPORT | WHERE | PRICE | PINNED", func(w io.Writer) {
				for _, b := range bodies {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%t\n", b.Name, b.owner(), b.Transport, b.At, b.Price, b.Pinned)
				}
			}))
		})
	})
}

// added are the flags of mcp add.
type added struct {
	url, bearer, price, client, secret string
	headers, env, egress, scopes       []string
	oauth, sandbox, global             bool
	refresh                            time.Duration
}

func (c commands) add() *cobra.Command {
	var f added
	s := shell.Spec{
		Use: "add NAME", Short: "Add an MCP server: one with a URL, or a command after --", JSON: true,
		Example: "portico mcp add docs --url https://mcp.example.com/mcp --bearer-env DOCS_TOKEN\nportico mcp add files --sandbox -- npx -y @modelcontextprotocol/server-filesystem /data",
	}
	cmd := c.ofOwner(s, func(ctx context.Context, a *app.App, owner actor.Actor, args []string) error {
		if f.global && owner.UID != "" {
			return fmt.Errorf("--global and --user exclude each other: %w", shell.ErrUsage)
		}
		spec, err := f.spec(args[0], args[1:], shell.Environment(c.Environ))
		if err != nil {
			return err
		}
		if err := a.Servers.Operators().Add(ctx, owner.UID, spec); err != nil {
			return err
		}
		shown, err := a.Servers.Operators().Show(ctx, owner.UID, spec.Name)
		if err != nil {
			return err
		}
		return c.Answer(toServer(shown.View), c.Line("added MCP server %s for %s", spec.Name, toServer(shown.View).owner()))
	})
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		before := cmd.ArgsLenAtDash()
		if before < 0 {
			before = len(args)
		}
		switch {
		case before == 0:
			return fmt.Errorf("NAME missing: %w", shell.ErrUsage)
		case before > 1:
			return fmt.Errorf("%q is too much; a command comes after --: %w", args[1], shell.ErrUsage)
		case (f.url == "") == (len(args) == 1):
			return fmt.Errorf("give either --url or a command after --: %w", shell.ErrUsage)
		}
		return nil
	}
	flags := cmd.Flags()
	flags.StringVar(&f.url, "url", "", "address of a server that speaks streamable HTTP")
	flags.StringArrayVar(&f.headers, "header", nil, "name=value, sent with every request; {{NAME}} stands for a value of each user's")
	flags.StringVar(&f.bearer, "bearer-env", "", "variable of this environment with a bearer token")
	flags.BoolVar(&f.oauth, "oauth", false, "users authorize this server there")
	flags.StringVar(&f.client, "client-id", "", "OAuth client that was registered by hand")
	flags.StringVar(&f.secret, "client-secret-env", "", "variable of this environment with the client's secret")
	flags.StringSliceVar(&f.scopes, "scope", nil, "scopes to ask for; without any, what the server names")
	flags.BoolVar(&f.sandbox, "sandbox", false, "run the command inside the isolation of the sandbox")
	flags.StringArrayVar(&f.env, "env", nil, "name=value, for the command; it gets no other variables but PATH and HOME")
	flags.StringSliceVar(&f.egress, "egress", nil, "networks beyond the public internet that it may be in")
	flags.StringVar(&f.price, "price", "0", "credits of a call")
	flags.DurationVar(&f.refresh, "refresh", 0, "after how long its tools are listed again")
	flags.BoolVar(&f.global, "global", false, "for everybody, which is the default")
	return cmd
}

// spec reads the flags.
func (f added) spec(name string, command []string, environ map[string]string) (server.Spec, error) {
	s := server.Spec{Name: name, Transport: server.HTTP, URL: f.url, OAuth: f.oauth, Sandbox: f.sandbox, Scopes: f.scopes, Refresh: f.refresh, Client: server.Client{ID: f.client}}
	var err error
	if s.Headers, err = pairs("--header", f.headers); err != nil {
		return s, err
	}
	if s.Env, err = pairs("--env", f.env); err != nil {
		return s, err
	}
	if len(command) > 0 {
		s.Transport, s.Command, s.Args = server.Stdio, command[0], command[1:]
	}
	if f.bearer != "" {
		token := environ[f.bearer]
		if token == "" {
			return s, fmt.Errorf("--bearer-env: the variable %s is not set: %w", f.bearer, shell.ErrUsage)
		}
		if s.Headers == nil {
			s.Headers = map[string]string{}
		}
		s.Headers["Authorization"] = "Bearer " + token
	}
	if f.secret != "" {
		if s.Client.Secret = environ[f.secret]; s.Client.Secret == "" {
			return s, fmt.Errorf("--client-secret-env: the variable %s is not set: %w", f.secret, shell.ErrUsage)
		}
	}
	for _, text := range f.egress {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return s, fmt.Errorf("--egress: %w: %w", err, shell.ErrUsage)
		}
		s.Egress = append(s.Egress, p.Masked())
	}
	if s.Price, err = money.Parse(f.price); err != nil {
		return s, fmt.Errorf("--price: %w: %w", err, shell.ErrUsage)
	}
	return s, nil
}

func pairs(flag string, list []string) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil //nolint:nilnil // there are none
	}
	m := make(map[string]string, len(list))
	for _, entry := range list {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%s is name=value: %w", flag, shell.ErrUsage)
		}
		m[name] = value
	}
	return m, nil
}

func (c commands) remove() *cobra.Command {
	var user string
	s := shell.Spec{Use: "remove NAME", Short: "Take an MCP server away", Example: "portico mcp remove docs --yes"}
	cmd := c.Deletion(s, func(ctx context.Context, a *app.App, name string) (shell.Doomed, error) {
		owner, err := ownerOf(ctx, a, user)
		if err != nil {
			return shell.Doomed{}, err
		}
		if _, err := a.Servers.Operators().Show(ctx, owner.UID, name); err != nil {
			return shell.Doomed{}, err
		}
		return shell.Doomed{
			What: "MCP server " + name, Name: name, Along: []string{"credentials and authorizations of users for it"}, Stays: []string{"records of its calls, and what they cost"},
			Delete: func(ctx context.Context) error { return a.Servers.Operators().Remove(ctx, owner.UID, name) },
		}, nil
	})
	cmd.Flags().StringVar(&user, "user", "", "name of the user who has the server; without it, everybody's")
	return cmd
}

// pricedBody is what calls cost.
type pricedBody struct {
	Name   string                  `json:"name"`
	Price  money.Amount            `json:"price"`
	Prices map[string]money.Amount `json:"prices"`
}

func (c commands) price() *cobra.Command {
	var tool string
	s := shell.Spec{Use: "price NAME CREDITS", Short: "Say what a call of an MCP server's tools costs", Example: "portico mcp price docs 0.5\nportico mcp price docs 2 --tool search", JSON: true}
	cmd := c.ofOwner(s, func(ctx context.Context, a *app.App, owner actor.Actor, args []string) error {
		price, err := money.Parse(args[1])
		if err != nil {
			return fmt.Errorf("CREDITS: %w: %w", err, shell.ErrUsage)
		}
		o := a.Servers.Operators()
		if err := o.SetPrice(ctx, owner.UID, args[0], tool, price); err != nil {
			return err
		}
		shown, err := o.Show(ctx, owner.UID, args[0])
		if err != nil {
			return err
		}
		b := toServer(shown.View)
		return c.Answer(pricedBody{b.Name, b.Price, b.Prices}, func() error {
			fmt.Fprintf(c.Stdout, "a call of %s costs %s credits\n", b.Name, b.Price)
			for _, name := range sortedKeys(b.Prices) {
				fmt.Fprintf(c.Stdout, "  %s: %s\n", name, b.Prices[name])
			}
			return nil
		})
	})
	cmd.Flags().StringVar(&tool, "tool", "", "only this tool, by the name that the server uses; a negative number takes its price away")
	return cmd
}

// operator is who connects to servers of everybody for a command.
func operator(owner actor.Actor) actor.Actor {
	if owner.UID == "" {
		return actor.Actor{UID: audit.Operator, Scope: actor.Full}
	}
	return owner
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
