package strict

import (
	"encoding/json"
	"slices"

	"github.com/portico-run/portico/internal/schema/jsontree"
)

// text reports whether a schema takes texts, and whether it says that an empty
// one is a value like any other.
func (c *converter) text(value any, depth int) (isText, takesEmpty bool) {
	node, ok := value.(*jsontree.Object)
	if !ok || c.step("", depth) != nil { // whoever asks is told of its limits, too
		return false, false
	}
	if ref := node.String("$ref"); ref != "" {
		target, _, err := c.lookup(ref, "")
		if err != nil {
			return false, false
		}
		return c.text(target, depth+1)
	}
	switch values := node.List("enum"); {
	case node.Has("const"):
		text, ok := node.Get("const").(string)
		return ok, text == "" && ok
	case values != nil:
		return slices.ContainsFunc(values, func(v any) bool { _, ok := v.(string); return ok }), slices.Contains(values, any(""))
	}
	isText = slices.Contains(typesOf(node), "string")
	takesEmpty = isText && node.Get("minLength") == json.Number("0")
	for _, word := range []string{"anyOf", "oneOf", "allOf"} {
		for _, branch := range node.List(word) {
			is, takes := c.text(branch, depth+1)
			isText, takesEmpty = isText || is, takesEmpty || takes
		}
	}
	return isText, takesEmpty
}
