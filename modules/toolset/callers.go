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
}

// The names of callers in toolset files.
const (
	callDirect = "direct"
	callCode   = "code"
)

// directOnly are names of tools that end something or hand it over. They are
// deliberate single decisions (seeds/compact-sdk-ptc.md), and stay tool calls.
func directOnly() []string { return []string{"complete", "fail", "onboarding_handoff"} }

// callersOf reads the column allowed_callers. Without one the name decides: a
// name of directOnly is called directly; any other way is open to the rest.
func callersOf(name, allowed string) Callers {
	if allowed == "" {
		return Callers{Direct: true, Code: !slices.Contains(directOnly(), name)}
	}
	list := strings.Split(allowed, ",")
	c := Callers{Direct: slices.Contains(list, callDirect), Code: slices.Contains(list, callCode)}
	c.Both = c.Direct && c.Code
	return c
}

// OfferedDirectly reports whether a model gets the tool as a tool of its own.
func (c Callers) OfferedDirectly(writesCode bool) bool {
	return c.Direct && (!writesCode || !c.Code || c.Both)
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
