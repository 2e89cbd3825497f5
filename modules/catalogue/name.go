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
	var refs []Ref
	wanted := map[string]int{}
	for _, set := range sets {
		for _, t := range set.Tools {
			refs = append(refs, Ref{set.Key, t.Name})
			wanted[stub.Name(l, t.Name)]++
		}
	}
	slices.SortFunc(refs, func(a, b Ref) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.Toolset, b.Toolset), strings.Compare(a.Tool, b.Tool))
	})
	refs = slices.Compact(refs)
	reserved := reservedNames(l)
	names, taken := make(map[Ref]string, len(refs)), map[string]bool{}
	assign := func(r Ref, name string) {
		free := name
		for n := 2; taken[free] || reserved[free]; n++ {
			free = fmt.Sprintf("%s_%d", name, n)
		}
		names[r], taken[free] = free, true
	}
	var rest []Ref
	for _, r := range refs { // first those that keep their names, so that nobody takes them
		name := stub.Name(l, r.Tool)
		if name != "" && !reserved[name] && (wanted[name] == 1 || r.Toolset == Own) {
			assign(r, name)
			continue
		}
		rest = append(rest, r)
	}
	for _, r := range rest {
		name := stub.Name(l, r.Tool)
		if name == "" {
			name = "tool"
		}
		assign(r, cmp.Or(stub.Name(l, r.Toolset+"_"+name), "tool"))
	}
	return names
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
	reserved := map[string]bool{}
	if l != sandbox.Python {
		return reserved
	}
	for name := range strings.FieldsSeq(builtins + " " + modules + " ToolExecutionError search_tools help refly_tools") {
		reserved[name] = true
	}
	return reserved
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
