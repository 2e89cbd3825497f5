// Package catalogue describes the tools that programs can call: the name of
// each one's function, a line that says how to call it, all there is to know
// about one, and which of them fit a question. A model's tools and the functions
// of the same names inside programs answer from here.
package catalogue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/portico-run/portico/modules/catalogue/signature"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/stub"
	"github.com/portico-run/portico/modules/sdkbundle"
	"github.com/portico-run/portico/modules/toolset"
)

// Tool is one tool as programs call it.
type Tool struct {
	toolset.ToolDefinition

	Toolset string
	// Function is the name of its function, and Call how lines call it: by that
	// name, or as server.tool. Method is that of its class method, with the class
	// in front; empty where the SDK does not have it.
	Function, Call, Method string
}

// Catalogue is a set of tools. It never changes and is safe for use by many.
type Catalogue struct {
	// Shape says what the last success of a tool looked like, without its
	// values; empty if there was none. It may be nil.
	Shape func(ctx context.Context, toolset, tool string) (string, error)

	tools   []Tool
	classes map[string]sdkbundle.Class
	index   func() *index // made when it is first needed
}

// New describes the tools of toolsets that code may call. Classes are those of
// the SDK, by the keys of toolsets.
func New(sets []toolset.Definition, classes map[string]sdkbundle.Class) *Catalogue {
	sets = toolset.ForCode(sets)
	names := name(sandbox.Python, sets)
	c := &Catalogue{classes: classes}
	for _, set := range sets {
		class, has := classes[set.Key]
		for _, d := range set.Tools {
			ref := Ref{set.Key, d.Name}
			t := Tool{ToolDefinition: d, Toolset: set.Key, Function: names.functions[ref], Call: names.shown(ref)}
			if method := class.Methods[d.Name]; has && method != "" {
				t.Method = class.Name + "." + method
			}
			c.tools = append(c.tools, t)
		}
	}
	c.index = sync.OnceValue(func() *index { return newIndex(sets, c.tools) })
	return c
}

// Stubs are the functions of the toolsets' tools for programs in a language.
func Stubs(l sandbox.Language, sets []toolset.Definition) []sandbox.Stub {
	sets = toolset.ForCode(sets)
	names := name(l, sets)
	var stubs []sandbox.Stub
	for _, set := range sets {
		for _, d := range set.Tools {
			made := stub.New(l, stub.Tool{
				Name: d.Name, Toolset: set.Key, Description: d.Description, Schema: d.InputSchema, Returns: signature.Result(d.OutputSchema), Plain: d.Plain,
			})
			ref := Ref{set.Key, d.Name}
			made.Identifier, made.Space, made.Member = names.functions[ref], names.dotted[ref].space, names.dotted[ref].member
			if d.Plain {
				typed(&made, d)
			}
			stubs = append(stubs, made)
		}
	}
	return stubs
}

// typed adds the types of a plain function.
func typed(s *sandbox.Stub, d toolset.ToolDefinition) {
	types := signature.Types(d.InputSchema)
	for i, p := range s.Parameters {
		s.Parameters[i].Type = types[p.Name]
	}
	s.Returns = signature.Result(d.OutputSchema)
}

// Tools lists the tools of one toolset.
func (c *Catalogue) Tools(toolset string) []Tool {
	var list []Tool
	for _, t := range c.tools {
		if t.Toolset == toolset {
			list = append(list, t)
		}
	}
	return list
}

func (t Tool) compact() signature.Tool {
	return signature.Tool{Name: t.Name, Description: t.Description, Input: t.InputSchema, Output: t.OutputSchema}
}

// Signature is how the function is called and what it returns.
func (t Tool) Signature() string { return signature.Signature(t.Call, t.compact()) }

// Line is the signature with a comment: what the tool does and, where its class
// method has another name, that name.
func (t Tool) Line() string { return t.line("") }

// line writes a note in front of the comment.
func (t Tool) line(note string) string {
	var notes []string
	if note != "" {
		notes = append(notes, note)
	}
	if _, method, _ := strings.Cut(t.Method, "."); method != t.Function && method != "" {
		notes = append(notes, "("+t.Method+")")
	}
	if text := signature.Comment(t.compact()); text != "" {
		notes = append(notes, text)
	}
	if len(notes) == 0 {
		return t.Signature()
	}
	return t.Signature() + "  # " + strings.Join(notes, " ")
}

// Lines are those of one toolset.
func (c *Catalogue) Lines(toolset string) []string {
	var lines []string
	for _, t := range c.Tools(toolset) {
		lines = append(lines, t.Line())
	}
	return lines
}

// ClassOf says how the class of a toolset is used, on one line; empty where the
// SDK has none of its tools.
func (c *Catalogue) ClassOf(toolset string) string {
	class, ok := c.classes[toolset]
	if !ok {
		return ""
	}
	method := class.Name + ".tool"
	if class.Methods != nil {
		tools := c.Tools(toolset)
		i := slices.IndexFunc(tools, func(t Tool) bool { return t.Method != "" })
		if i < 0 {
			return ""
		}
		method = tools[i].Method
	}
	return fmt.Sprintf(`as a class: %s (%s(...) returns a dict with "status")`, class.Import(), method)
}

// Complete reports whether the class of a toolset has all of its tools, as far
// as the SDK says.
func (c *Catalogue) Complete(toolset string) bool {
	class, ok := c.classes[toolset]
	return ok && (class.Methods == nil || !slices.ContainsFunc(c.Tools(toolset), func(t Tool) bool { return t.Method == "" }))
}

// maxFound is how many tools a question finds.
const maxFound = 20

// Search lists the tools that fit a question best, a line each; all of them for
// an empty one.
func (c *Catalogue) Search(question string) string {
	found, more := c.tools, 0
	if strings.TrimSpace(question) != "" {
		found = c.Find(question)
		more = max(0, len(found)-maxFound)
		found = found[:len(found)-more]
	}
	if len(found) == 0 {
		return "No tool matches. An empty query lists all."
	}
	var lines, classes []string
	seen := map[string]bool{}
	for _, t := range found {
		lines = append(lines, t.line("["+t.Toolset+"]"))
		if text := c.ClassOf(t.Toolset); text != "" && !seen[t.Toolset] {
			seen[t.Toolset] = true
			classes = append(classes, "# "+t.Toolset+" "+text)
		}
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("# %d more fit less well; other words find them.", more))
	}
	return strings.Join(append(lines, classes...), "\n")
}

// Find returns the tools that fit a question, best first.
func (c *Catalogue) Find(question string) []Tool {
	var found []Tool
	for _, i := range c.index().search(question) {
		found = append(found, c.tools[i])
	}
	return found
}
