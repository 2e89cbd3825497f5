package toolset

import "slices"

// Select leaves of each toolset that selected names, by its key, the tools that
// it names. Others keep all of theirs.
func Select(sets []Definition, selected map[string][]string) []Definition {
	out := make([]Definition, len(sets))
	for i, set := range sets {
		if only, narrowed := selected[set.Key]; narrowed {
			set.Tools = slices.DeleteFunc(slices.Clone(set.Tools), func(t ToolDefinition) bool { return !slices.Contains(only, t.Name) })
		}
		out[i] = set
	}
	return out
}
