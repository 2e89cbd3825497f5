package mcpserver

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/catalogue"
)

// Limits of questions.
const (
	maxQueries  = 5
	maxNames    = 10
	maxFound    = 20
	usualFound  = 10
	wholeFound  = 3 // those of which everything is told
	maxQuestion = 1000
)

// catalogue describes what programs of the user's can call.
func (u user) catalogue(ctx context.Context, only []string) (*catalogue.Catalogue, []string, error) {
	keys, err := u.keys(ctx, only)
	if err != nil {
		return nil, nil, err
	}
	return u.deps.Programs.Describe(ctx, u.who, keys)
}

// keys are the toolsets that a program may call: those that are named, else all.
func (u user) keys(ctx context.Context, only []string) ([]string, error) {
	if len(only) > 0 {
		return only, nil
	}
	return u.deps.Toolsets.Usable(ctx, u.who)
}

func (u user) search(ctx context.Context, _ *mcp.CallToolRequest, in searchInput) (*mcp.CallToolResult, any, error) {
	questions := in.Queries
	if in.Query != "" || len(questions) == 0 {
		questions = append([]string{in.Query}, questions...)
	}
	if len(questions) > maxQueries || slices.ContainsFunc(questions, func(q string) bool { return len(q) > maxQuestion }) {
		return refused(errs.Newf(errs.Invalid, "There are more than %d queries, or one is longer than %d bytes.", maxQueries, maxQuestion).Do("Ask fewer, in a few words.")), nil, nil
	}
	var only []string
	if in.Server != "" {
		only = []string{in.Server}
	}
	c, warnings, err := u.catalogue(ctx, only)
	if err != nil {
		return refused(err), nil, nil
	}
	limit := in.Limit
	if limit <= 0 {
		limit = usualFound
	}
	var b strings.Builder
	for _, q := range questions {
		if len(questions) > 1 {
			fmt.Fprintf(&b, "## %s\n", q)
		}
		u.found(ctx, &b, c, q, min(limit, maxFound))
	}
	for _, w := range warnings {
		fmt.Fprintf(&b, "# %s\n", w)
	}
	return said(within(strings.TrimRight(b.String(), "\n"), "ask for fewer tools, or one query at a time")), nil, nil
}

// within is a text that clients show a model whole: the beginning of it, and that it is
// no more, where it is longer.
func within(text, instead string) string {
	head, cut := part(text, 0)
	if cut != nil {
		head += fmt.Sprintf("\n[the first %d of %d characters: %s]", maxText, cut.Total, instead)
	}
	return head
}

// found writes the tools that fit a question.
func (u user) found(ctx context.Context, b *strings.Builder, c *catalogue.Catalogue, question string, limit int) {
	if strings.TrimSpace(question) == "" {
		b.WriteString(within(c.Search(""), "ask with a query") + "\n")
		return
	}
	tools := c.Find(question)
	if len(tools) == 0 {
		b.WriteString("# No tool matches. Other words may; no query lists all.\n")
		return
	}
	for n, t := range tools[:min(limit, len(tools))] {
		fmt.Fprintf(b, "%s  # [%s]\n", t.Line(), t.Toolset)
		if n < wholeFound {
			text, err := c.Help(ctx, t.Call)
			if err != nil {
				text = errs.Message(err)
			}
			fmt.Fprintf(b, "%s\n\n", indent(text))
		}
	}
	if more := len(tools) - limit; more > 0 {
		fmt.Fprintf(b, "# %d more fit less well.\n", more)
	}
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ")
}

func (u user) describe(ctx context.Context, _ *mcp.CallToolRequest, in describeInput) (*mcp.CallToolResult, any, error) {
	if len(in.Names) == 0 || len(in.Names) > maxNames {
		return refused(errs.Newf(errs.Invalid, "Give 1 to %d names.", maxNames)), nil, nil
	}
	c, _, err := u.catalogue(ctx, nil)
	if err != nil {
		return refused(err), nil, nil
	}
	var b strings.Builder
	known := false
	for _, name := range in.Names {
		text, err := c.Help(ctx, name)
		switch {
		case name == "portico":
			text, known = guide, true
		case err != nil:
			text = errs.Message(err) + " " + advice(err)
		default:
			known = true
		}
		fmt.Fprintf(&b, "## %s\n%s\n\n", name, strings.TrimSpace(text))
	}
	r := said(within(strings.TrimSpace(b.String()), "ask for fewer names"))
	r.IsError = !known
	return r, nil, nil
}
