package openapi

import (
	"maps"
	"slices"
	"strings"
)

// response is the schema of what a call returns: that of the first answer that
// is a success. Text is text; anything else is a file.
func (b *builder) response() schema {
	all := b.operation.node.object("responses")
	for _, status := range statuses(all) {
		r, _, err := b.docs.follow(all.object(status))
		if err != nil {
			b.lose("the type of its result", "%s", err)
			continue
		}
		if b.swagger {
			r = b.modernResponse(r)
		}
		content := r.object("content")
		kind := kindOf(content)
		if kind == "" {
			if status == "204" {
				return schema{"type": "null"}
			}
			continue
		}
		if content.value[typeJSON] == nil && mediaType(kind) != typeJSON && !strings.Contains(kind, "*") {
			b.header("Accept", kind+", */*;q=0.5")
		}
		return b.result(content, kind)
	}
	return nil
}

// result is the schema of an answer of one media type.
func (b *builder) result(content node, kind string) schema {
	of := b.truth(content.object(kind))
	plain := mediaType(kind)
	switch {
	case isJSON(kind), strings.Contains(plain, "*") && !b.isFile(of, 0):
		if of.value == nil {
			return nil
		}
		return b.convert(of)
	case isText(kind):
		return schema{"type": "string"}
	}
	return schema{"type": "object", "description": "A file of the type " + plain, "properties": schema{
		"name": schema{"type": "string"}, "type": schema{"type": "string"}, "size": schema{"type": "integer"}, "url": schema{"type": "string"},
	}}
}

// statuses are those of a success in the order in which they count.
func statuses(all node) []string {
	var out []string
	for _, status := range []string{"200", "201", "202", "203", "206"} {
		if all.has(status) {
			out = append(out, status)
		}
	}
	for _, status := range slices.Sorted(maps.Keys(all.value)) {
		if strings.HasPrefix(status, "2") && !slices.Contains(out, status) {
			out = append(out, status)
		}
	}
	if all.has("default") {
		out = append(out, "default")
	}
	return out
}
