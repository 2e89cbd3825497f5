package toolset

import (
	"slices"
	"strings"
)

// Callers says who may call a tool, and how it is offered to a model that
// writes code.
type Callers struct {
	// Direct is a model by a tool call, Code a program that it wrote.
	Direct, Code bool
	// Both says that a model which writes code is offered both ways. Otherwise
	// a tool that code may call is offered to code alone.
	Both bool
	// CodeFirst says that the tool is called from code wherever the model may
	// write it, however few tools there are. Only a model that cannot write code
	// calls it directly: otherwise nobody could.
	CodeFirst bool
}

// The names of callers in toolset files.
const (
	CallDirect = "direct"
	CallCode   = "code"
)

// serverMark in a name says that the tool is one of a tool server's, such as
// github__list_issues.
const serverMark = "__"

// callersOf reads the column allowed_callers. Without one, either way is open,
// and the name decides whether code comes first.
func callersOf(name, allowed string) Callers {
	if allowed == "" {
		return Callers{Direct: true, Code: true, CodeFirst: strings.Contains(name, serverMark)}
	}
	list := strings.Split(allowed, ",")
	c := Callers{Direct: slices.Contains(list, CallDirect), Code: slices.Contains(list, CallCode)}
	c.Both = c.Direct && c.Code
	return c
}

// OfferedDirectly reports whether a model gets the tool as a tool of its own.
func (c Callers) OfferedDirectly(writesCode bool) bool {
	return c.Direct && (!writesCode || !c.Code || c.Both)
}

// Names are the callers as a toolset file writes them, for lists; empty where
// either way is open and nothing needs to be said.
func (c Callers) Names() []string {
	switch {
	case c.Both:
		return []string{CallDirect, CallCode}
	case c.CodeFirst, !c.Direct:
		return []string{CallCode}
	case !c.Code:
		return []string{CallDirect}
	}
	return nil
}

// ForCode leaves out of definitions what code may not call.
func ForCode(sets []Definition) []Definition {
	out := make([]Definition, len(sets))
	for i, set := range sets {
		set.Tools = slices.DeleteFunc(slices.Clone(set.Tools), func(t ToolDefinition) bool { return !t.Callers.Code })
		out[i] = set
	}
	return out
}
