package describe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/portico-run/portico/modules/connector/mcp"
	"github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/toolset/mark"
)

// Marks keep which tools programs call as plain functions.
type Marks interface {
	// OfFile makes the marks of a toolset what a file says, and reports whether
	// that changed one.
	OfFile(ctx context.Context, key string, wanted []mark.Mark) (changed bool, err error)
}

// Into is what files are brought into.
type Into struct {
	Servers server.Operators
	Marks   Marks
}

// callableKeys are what a tool below sandboxCallable may have.
func callableKeys() []string { return []string{"readOnly", "idempotent", "as"} }

// marks reads which tools of a server are plain functions, by the names that the
// server uses. A name that is another one in Portico is refused: which one depends
// on the server's other tools, which nobody has asked for.
func marks(of string, n yaml.Node) ([]mark.Mark, error) {
	if n.Kind == 0 {
		return nil, nil
	}
	if n.Kind != yaml.MappingNode {
		return nil, errors.New("sandboxCallable is a mapping of tools by name, such as search: {readOnly: true}")
	}
	var out []mark.Mark
	for i := 0; i < len(n.Content); i += 2 {
		tool, value := n.Content[i].Value, n.Content[i+1]
		m, err := marked(of, tool, value)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(one mark.Mark) bool { return one.Name == m.Name }) {
			return nil, fmt.Errorf("sandboxCallable: two tools are the function %s", m.Name)
		}
		out = append(out, m)
	}
	return out, nil
}

func marked(of, tool string, n *yaml.Node) (mark.Mark, error) {
	var says struct {
		ReadOnly   bool   `yaml:"readOnly"`
		Idempotent bool   `yaml:"idempotent"`
		As         string `yaml:"as"`
	}
	if n.Kind != yaml.MappingNode {
		return mark.Mark{}, fmt.Errorf("sandboxCallable: %s is a mapping with the keys %s", tool, strings.Join(callableKeys(), ", "))
	}
	for i := 0; i < len(n.Content); i += 2 {
		if key := n.Content[i].Value; !slices.Contains(callableKeys(), key) {
			return mark.Mark{}, fmt.Errorf("sandboxCallable: %s has the unknown key %q; known are %s", tool, key, strings.Join(callableKeys(), ", "))
		}
	}
	if err := n.Decode(&says); err != nil {
		return mark.Mark{}, fmt.Errorf("sandboxCallable: %s: %w", tool, err)
	}
	full := of + mcp.Separator + tool
	if mcp.Names(of, []server.Tool{{Name: tool}})[tool] != full {
		return mark.Mark{}, fmt.Errorf("sandboxCallable: %s has another name in Portico; mark it with `portico tool mark`", tool)
	}
	m := mark.Mark{Toolset: of, Tool: full, Name: firstOf(says.As, full), ReadOnly: says.ReadOnly, Idempotent: says.Idempotent, FromFile: true}
	if problem := m.Problem(); problem != "" {
		return m, fmt.Errorf("sandboxCallable: %s %s", tool, problem)
	}
	return m, nil
}
