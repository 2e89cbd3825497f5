package catalogue

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/sandbox/stub"
)

// Help tells everything about one tool. It is named by its function, its own
// name, toolset.name or Class.method. The error says which names come near.
func (c *Catalogue) Help(ctx context.Context, name string) (string, error) {
	found := c.named(strings.TrimSuffix(strings.TrimSpace(name), "()"))
	switch len(found) {
	case 1:
		return c.describe(ctx, found[0]), nil
	case 0:
		return "", errs.Newf(errs.NotFound, "There is no tool %q.", name).Do(c.near(name) + `search_tools("") lists all.`)
	}
	names := make([]string, len(found))
	for i, t := range found {
		names[i] = t.Call + " of " + t.Toolset
	}
	return "", errs.Newf(errs.Invalid, "There is more than one tool %q.", name).Do("Ask for one of: " + strings.Join(names, ", ") + ".")
}

// named finds tools by a name. That of a function counts first: no two tools
// have one.
func (c *Catalogue) named(name string) []Tool {
	var found []Tool
	for _, t := range c.tools {
		switch name {
		case t.Function, t.Call:
			return []Tool{t}
		case t.Name, t.Method, t.Toolset + "." + t.Name, t.Toolset + "." + t.Function:
			found = append(found, t)
		}
	}
	return found
}

// near names the tools that a wrong name may stand for.
func (c *Catalogue) near(name string) string {
	var names []string
	for _, t := range c.Find(name) {
		if len(names) < 5 {
			names = append(names, t.Call)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "Near are: " + strings.Join(names, ", ") + ". "
}

func (c *Catalogue) describe(ctx context.Context, t Tool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", t.Toolset, t.Signature())
	b.WriteString("The function returns the value and raises ToolExecutionError when the call fails.\n")
	if class, ok := c.classes[t.Toolset]; ok && t.Method != "" {
		fmt.Fprintf(&b, "As a class method: %s; %s(...) takes the same and returns a dict: \"status\" with \"data\" or \"error\".\n", class.Import(), t.Method)
	}
	if text := strings.TrimSpace(t.Description); text != "" {
		b.WriteString("\n" + text + "\n")
	}
	fmt.Fprintf(&b, "\nParameters: %s\n", indented(t.InputSchema))
	if bytes.Contains(t.InputSchema, []byte(`"`+stub.FileTitle+`"`)) {
		b.WriteString(stub.FileTitle + " has a default in Python.\n")
	}
	b.WriteString("\nReturns: " + c.returns(ctx, t))
	return b.String()
}

// returns is the schema of a result; where there is none, what the last success
// looked like.
func (c *Catalogue) returns(ctx context.Context, t Tool) string {
	if len(t.OutputSchema) > 0 {
		return indented(t.OutputSchema)
	}
	if c.Shape != nil {
		if shape, err := c.Shape(ctx, t.Toolset, t.Name); err == nil && shape != "" {
			return "Any. No schema says more; the last success looked like " + shape
		}
	}
	return "Any. No schema says more; print what one call returns."
}

func indented(schema json.RawMessage) string {
	var b bytes.Buffer
	if len(schema) == 0 || json.Indent(&b, schema, "", "  ") != nil {
		return "any"
	}
	return b.String()
}
