package python

import (
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/portico-run/portico/sdkgen/python/schema"
)

const (
	// maxReturns is how long the type of a result may be, in bytes; a longer one
	// is written less deep, and then with fewer members.
	maxReturns = 100
	// maxReturnsDepth is how deep objects in it are written.
	maxReturnsDepth = 3
)

// returnsOf writes the type of what a tool returns, such as
// list[{id: int, name: str}]: Any where no schema says. "**Any" stands for
// members that are left out, and ? marks one that may be absent.
func returnsOf(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "Any"
	}
	root, err := schema.Parse(raw)
	if err != nil {
		return "Any"
	}
	for _, members := range []int{math.MaxInt, 5, 2} {
		for depth := maxReturnsDepth; depth > 0; depth-- {
			if text := shape(root, depth, members); len(text) <= maxReturns {
				return text
			}
		}
	}
	return shape(root, 0, 0)
}

func shape(s *schema.Schema, depth, members int) string {
	if s = s.Resolve(); s == nil || s.Anything() {
		return "Any"
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if variants := s.List(keyword); len(variants) > 0 {
			var parts []string
			for _, v := range variants {
				parts = append(parts, shape(v, depth, members))
			}
			return alternatives(parts)
		}
	}
	kinds := s.Types()
	switch {
	case len(kinds) > 0:
	case s.Keyword("properties") != nil:
		kinds = []string{"object"}
	case s.Keyword("items") != nil:
		kinds = []string{"array"}
	}
	var parts []string
	for _, kind := range kinds {
		parts = append(parts, shapeOf(kind, s, depth, members))
	}
	return alternatives(parts)
}

func shapeOf(kind string, s *schema.Schema, depth, members int) string {
	switch kind {
	case "string":
		return "str"
	case "integer":
		return "int"
	case "number":
		return "float"
	case "boolean":
		return "bool"
	case "null":
		return "None"
	case "array":
		items := s.Node("items")
		if items == nil {
			return "list"
		}
		return strings.TrimSuffix("list["+shape(items, depth, members)+"]", "[Any]")
	case "object":
		return shapeOfObject(s, depth, members)
	}
	return "Any"
}

func shapeOfObject(s *schema.Schema, depth, members int) string {
	list, _ := s.Properties()
	if len(list) == 0 || depth == 0 {
		return "dict"
	}
	var parts []string
	for i, p := range list {
		if i == members {
			parts = append(parts, "**Any")
			break
		}
		name, mark := p.Name, ""
		if Name(name, "") != name {
			name = schema.Quote(name)
		}
		if !p.Required {
			mark = "?"
		}
		parts = append(parts, name+mark+": "+shape(p.Node, depth-1, members))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// alternatives joins types, each once; Any takes the others in.
func alternatives(parts []string) string {
	var distinct []string
	for _, p := range parts {
		if p == "Any" {
			return "Any"
		}
		if !slices.Contains(distinct, p) {
			distinct = append(distinct, p)
		}
	}
	if len(distinct) == 0 {
		return "Any"
	}
	return strings.Join(distinct, "|")
}
