package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/cli/shell"
	"github.com/portico-run/portico/modules/connector/mcp/server"
)

// connected is what connecting to a server showed.
type connected struct {
	list    server.List
	health  server.Health
	failure *upstream.Failure
}

// modern is the first revision of the protocol without sessions.
const modern = "2026-07-28"

func (c connected) era() string {
	switch {
	case c.list.Protocol == "":
		return ""
	case c.list.Protocol < modern:
		return "legacy"
	}
	return "modern"
}

// connect asks a server what it offers, as its owner; connections end with it.
func connect(ctx context.Context, a *app.App, owner actor.Actor, name string) (c connected, err error) {
	who := operator(owner)
	s, err := a.Servers.Find(ctx, who, name)
	if err != nil {
		return c, err
	}
	if s.UID != owner.UID {
		return c, errs.Newf(errs.ToolsetMissing, "There is no MCP server %s of that owner that is switched on.", name).Do("List the servers with `portico mcp list`.")
	}
	if err := a.MCP.Start(ctx); err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, a.MCP.Stop(context.WithoutCancel(ctx))) }()
	c.list, err = a.MCP.Refresh(ctx, who, s)
	c.health = a.MCP.Health(who, s)
	if f, ok := errors.AsType[*upstream.Failure](err); ok {
		c.failure = f
		if c.list, err = a.Servers.Last(ctx, s); err != nil {
			return c, err
		}
		return c, nil
	}
	return c, err
}

type testedBody struct {
	Name     string            `json:"name"`
	OK       bool              `json:"ok"`
	State    string            `json:"state"`
	Error    string            `json:"error"`
	Protocol string            `json:"protocol"`
	Era      string            `json:"era"`
	Tools    []string          `json:"tools"`
	Left     map[string]string `json:"left"`
	Stderr   string            `json:"stderr"`
}

func (c connected) tested(name string) testedBody {
	b := testedBody{Name: name, OK: c.failure == nil, State: string(c.health.State), Protocol: c.list.Protocol, Era: c.era(), Tools: []string{}, Left: c.list.Left, Stderr: c.health.Stderr}
	if c.failure != nil {
		b.Error = c.failure.Message
	}
	if b.Left == nil {
		b.Left = map[string]string{}
	}
	for _, t := range c.list.Tools {
		b.Tools = append(b.Tools, t.Name)
	}
	return b
}

func (c commands) test() *cobra.Command {
	s := shell.Spec{Use: "test NAME", Short: "Connect to an MCP server and list its tools", Example: "portico mcp test docs", JSON: true}
	return c.ofOwner(s, func(ctx context.Context, a *app.App, owner actor.Actor, args []string) error {
		got, err := connect(ctx, a, owner, args[0])
		if err != nil {
			return err
		}
		b := got.tested(args[0])
		err = c.Answer(b, func() error {
			if !b.OK {
				fmt.Fprint(c.Stderr, indented(b.Stderr))
				return nil
			}
			fmt.Fprintf(c.Stdout, "%s: %s, protocol %s, %d tools\n", b.Name, b.State, b.Protocol, len(b.Tools))
			for _, name := range sortedKeys(b.Left) {
				fmt.Fprintf(c.Stdout, "  left out: %s: %s\n", name, b.Left[name])
			}
			return nil
		})
		if err == nil && got.failure != nil {
			err = errors.New(got.failure.Message)
		}
		return err
	})
}

type mcpToolBody struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Hash        string `json:"hash"`
}

func (c commands) tools() *cobra.Command {
	s := shell.Spec{Use: "tools NAME", Short: "List the tools of an MCP server", Example: "portico mcp tools docs", JSON: true}
	return c.ofOwner(s, func(ctx context.Context, a *app.App, owner actor.Actor, args []string) error {
		got, err := connect(ctx, a, owner, args[0])
		if err != nil {
			return err
		}
		if got.failure != nil {
			fmt.Fprintf(c.Stderr, "warning: %s What follows is the last list.\n", got.failure.Message)
		}
		bodies := []mcpToolBody{}
		for _, t := range got.list.Tools {
			bodies = append(bodies, mcpToolBody{t.Name, t.Description, t.Hash})
		}
		return c.Answer(bodies, c.Table("TOOL | DESCRIPTION", func(w io.Writer) {
			for _, b := range bodies {
				first, _, _ := strings.Cut(b.Description, "\n")
				fmt.Fprintf(w, "%s\t%s\n", b.Name, first)
			}
		}))
	})
}

type shownServer struct {
	serverBody

	URL     string            `json:"url"`
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Headers []string          `json:"headers"`
	Env     []string          `json:"env"`
	Sandbox bool              `json:"sandbox"`
	Egress  []string          `json:"egress"`
	Source  string            `json:"source"`
	Pins    map[string]string `json:"pins"`
	Test    testedBody        `json:"test"`
	Listed  *time.Time        `json:"listed"`
}

func (c commands) show() *cobra.Command {
	s := shell.Spec{Use: "show NAME", Short: "Show an MCP server, and how it does", Example: "portico mcp show docs", JSON: true}
	return c.ofOwner(s, func(ctx context.Context, a *app.App, owner actor.Actor, args []string) error {
		shown, err := a.Servers.Operators().Show(ctx, owner.UID, args[0])
		if err != nil {
			return err
		}
		b := shownServer{
			serverBody: toServer(shown.View), URL: shown.URL, Command: shown.Command, Args: append([]string{}, shown.Args...), Headers: shown.Headers, Env: shown.Env,
			Sandbox: shown.Sandbox, Egress: append([]string{}, shown.Egress...), Source: shown.Source, Pins: shown.Pins,
		}
		if b.Pins == nil {
			b.Pins = map[string]string{}
		}
		got, err := connect(ctx, a, owner, args[0])
		b.Test = got.tested(args[0])
		if err != nil { // such as one that is switched off, or that needs values of users
			b.Test.OK, b.Test.State, b.Test.Error = false, string(server.Idle), shell.Explain(err)
		}
		if !got.list.Listed.IsZero() {
			b.Listed = &got.list.Listed
		}
		return c.Answer(b, c.Table("", func(w io.Writer) { b.write(w) }))
	})
}

func (b shownServer) write(w io.Writer) {
	at := b.URL
	if b.Command != "" {
		at = strings.Join(append([]string{b.Command}, b.Args...), " ")
	}
	fmt.Fprintf(w, "name\t%s\nowner\t%s\ntransport\t%s\nwhere\t%s\n", b.Name, b.owner(), b.Transport, at)
	for _, line := range []struct {
		what string
		list []string
	}{{"headers", b.Headers}, {"variables", b.Env}, {"egress", b.Egress}} {
		if len(line.list) > 0 {
			fmt.Fprintf(w, "%s\t%s\n", line.what, strings.Join(line.list, ", "))
		}
	}
	if b.Source != "" {
		fmt.Fprintf(w, "file\t%s\n", b.Source)
	}
	fmt.Fprintf(w, "price\t%s\npinned\t%t\nstate\t%s\n", b.Price, b.Pinned, b.Test.State)
	if b.Test.Protocol != "" {
		fmt.Fprintf(w, "protocol\t%s, %s\n", b.Test.Protocol, b.Test.Era)
	}
	if b.Listed != nil {
		fmt.Fprintf(w, "listed\t%s\n", shell.Moment(b.Listed))
	}
	if b.Test.Error != "" {
		fmt.Fprintf(w, "error\t%s\n", b.Test.Error)
	}
	fmt.Fprintf(w, "tools\t%s\n", strings.Join(b.Test.Tools, ", "))
	if b.Test.Stderr != "" {
		fmt.Fprintf(w, "\nend of its standard error:\n%s", indented(b.Test.Stderr))
	}
}

// indented shows the end of a text, line by line.
func indented(text string) string {
	const most = 40
	if text == "" {
		return ""
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-most):], "\n  ") + "\n"
}

type pinnedBody struct {
	Name   string `json:"name"`
	Pinned bool   `json:"pinned"`
	Tools  int    `json:"tools"`
}

func (c commands) pin() *cobra.Command {
	s := shell.Spec{Use: "pin NAME", Short: "Accept the tools of an MCP server as they are now, and no others", Example: "portico mcp pin docs", JSON: true}
	return c.ofOwner(s, func(ctx context.Context, a *app.App, owner actor.Actor, args []string) error {
		got, err := connect(ctx, a, owner, args[0])
		if err != nil {
			return err
		}
		if got.failure != nil { // what nobody has seen now is not accepted
			return errs.New(errs.Conflict, got.failure.Message).Do("Pin the server when it answers.")
		}
		if err := a.Servers.Operators().Pin(ctx, owner.UID, args[0], got.list); err != nil {
			return err
		}
		return c.Answer(pinnedBody{args[0], true, len(got.list.Tools)}, c.Line("pinned %d tools of %s", len(got.list.Tools), args[0]))
	})
}

func (c commands) unpin() *cobra.Command {
	s := shell.Spec{Use: "unpin NAME", Short: "Accept whatever tools an MCP server offers", Example: "portico mcp unpin docs", JSON: true}
	return c.ofOwner(s, func(ctx context.Context, a *app.App, owner actor.Actor, args []string) error {
		if err := a.Servers.Operators().Unpin(ctx, owner.UID, args[0]); err != nil {
			return err
		}
		return c.Answer(pinnedBody{Name: args[0]}, c.Line("%s is not pinned", args[0]))
	})
}
