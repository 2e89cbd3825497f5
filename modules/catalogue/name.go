package catalogue

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/stub"
	"github.com/portico-run/portico/modules/toolset"
)

// Own is the key of the tools that the server is itself. Their functions keep
// their names, whatever toolsets have.
const Own = ptc.Own

// Ref names a tool.
type Ref struct{ Toolset, Tool string }

// Names gives every tool the name of its function in programs, the same
// wherever a model reads of it. It is the tool's own name as an identifier;
// where two toolsets have it, or Python's own names, it is toolset_tool for each
// of them. Names are distinct and do not depend on the order of the toolsets.
func Names(l sandbox.Language, sets []toolset.Definition) map[Ref]string {
	return name(l, sets).functions
}

// serverMark joins the name of a tool server to that of its tool.
const serverMark = "__"

// dotted is a second name of a tool, as space.member.
type dotted struct{ space, member string }

// naming is all names of tools.
type naming struct {
	functions map[Ref]string
	dotted    map[Ref]dotted

	language sandbox.Language
	reserved map[string]bool
	taken    map[string]bool
}

// assign gives a tool a name, or the next free one.
func (n *naming) assign(r Ref, name string) {
	n.functions[r] = n.free(name, func(name string) bool { return n.taken[name] || n.reserved[name] })
	n.taken[n.functions[r]] = true
}

func (n *naming) free(name string, used func(name string) bool) string {
	free := name
	for i := 2; used(free); i++ {
		free = fmt.Sprintf("%s_%d", name, i)
	}
	return free
}

// name names all tools: first those whose names are given, then the servers,
// then those that keep their own names, so that nobody takes them.
func name(l sandbox.Language, sets []toolset.Definition) *naming {
	n := &naming{functions: map[Ref]string{}, dotted: map[Ref]dotted{}, language: l, reserved: reservedNames(l), taken: map[string]bool{}}
	var refs []Ref
	wanted, given := map[string]int{}, map[Ref]string{}
	for _, set := range sets {
		for _, t := range set.Tools {
			r := Ref{set.Key, t.Name}
			refs = append(refs, r)
			wanted[stub.Name(l, t.Name)]++
			if t.As != "" {
				given[r] = stub.Name(l, t.As)
			}
		}
	}
	slices.SortFunc(refs, func(a, b Ref) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.Toolset, b.Toolset), strings.Compare(a.Tool, b.Tool))
	})
	refs = slices.Compact(refs)
	refs = n.take(refs, func(r Ref) string {
		if own := stub.Name(l, r.Tool); r.Toolset == Own && own != "" && !n.reserved[own] {
			return own
		}
		return given[r]
	})
	n.spaces(refs, given)
	refs = n.take(refs, func(r Ref) string {
		if own := stub.Name(l, r.Tool); own != "" && !n.reserved[own] && !n.taken[own] && wanted[own] == 1 {
			return own
		}
		return ""
	})
	for _, r := range refs {
		n.assign(r, cmp.Or(stub.Name(l, r.Toolset+"_"+cmp.Or(stub.Name(l, r.Tool), "tool")), "tool"))
	}
	return n
}

// take names the tools for which there is a name and returns the others.
func (n *naming) take(refs []Ref, nameOf func(r Ref) string) (rest []Ref) {
	for _, r := range refs {
		if name := nameOf(r); name != "" {
			n.assign(r, name)
			continue
		}
		rest = append(rest, r)
	}
	return rest
}

// spaces gives the tools of servers their second names. A server that is named
// as a function or a type of Python's has none: programs would lose that.
func (n *naming) spaces(rest []Ref, given map[Ref]string) {
	refs := slices.Clone(rest)
	for r := range given {
		refs = append(refs, r)
	}
	slices.SortFunc(refs, func(a, b Ref) int {
		return cmp.Or(strings.Compare(a.Toolset, b.Toolset), strings.Compare(a.Tool, b.Tool))
	})
	spaces, members := map[string]string{}, map[string]bool{}
	kept := keptNames(n.language)
	for _, r := range refs {
		member, ok := strings.CutPrefix(r.Tool, r.Toolset+serverMark)
		if !ok || n.language == sandbox.Bash {
			continue
		}
		space, known := spaces[r.Toolset]
		if !known {
			if space = stub.Name(n.language, r.Toolset); space != "" && !kept[space] {
				space = n.free(space, func(name string) bool { return n.taken[name] || kept[name] })
				n.taken[space] = true
			} else {
				space = ""
			}
			spaces[r.Toolset] = space
		}
		if space != "" {
			member = n.free(cmp.Or(stub.Name(n.language, member), "tool"), func(name string) bool { return members[space+"."+name] })
			members[space+"."+member] = true
			n.dotted[r] = dotted{space, member}
		}
	}
}

// shown is how lines call a tool: by its second name if it has one, unless that
// begins with the name of a module, which programs import.
func (n *naming) shown(r Ref) string {
	if d, ok := n.dotted[r]; ok && !n.reserved[d.space] {
		return d.space + "." + d.member
	}
	return n.functions[r]
}

// rank is 0 for the server's own tools, which are named first.
func rank(r Ref) int {
	if r.Toolset == Own {
		return 0
	}
	return 1
}

// reservedNames are those that programs find defined: a function of such a name
// would take it away from them.
func reservedNames(l sandbox.Language) map[string]bool {
	reserved := keptNames(l)
	if l == sandbox.Python {
		add(reserved, modules)
	}
	return reserved
}

// keptNames are those of reservedNames that are more than modules.
func keptNames(l sandbox.Language) map[string]bool {
	kept := map[string]bool{}
	if l == sandbox.Python {
		add(kept, builtins+" ToolExecutionError search_tools help refly_tools")
	}
	return kept
}

func add(names map[string]bool, words string) {
	for name := range strings.FieldsSeq(words) {
		names[name] = true
	}
}

const (
	// builtins are the functions and types of Python.
	builtins = `abs aiter all anext any ascii bin bool breakpoint bytearray bytes callable chr classmethod compile complex
		delattr dict dir divmod enumerate eval exec exit filter float format frozenset getattr globals hasattr hash hex id
		input int isinstance issubclass iter len list locals map max memoryview min next object oct open ord pow print
		property quit range repr reversed round set setattr slice sorted staticmethod str sum super tuple type vars zip
		Exception BaseException ValueError TypeError KeyError IndexError RuntimeError`
	// modules are imported for programs that use them without importing them,
	// and what the prompt's programs import.
	modules = `np pd plt pa asyncio collections csv datetime functools io itertools json math matplotlib numpy os pandas
		pyarrow random re scipy sklearn statistics sys time typing Any Callable Dict List Optional Tuple Union
		concurrent ThreadPoolExecutor`
)
