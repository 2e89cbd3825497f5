package form_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"pgregory.net/rapid"
)

// intend draws a value that a schema describes. It ignores patterns and lengths:
// a form has to carry what is wrong as well.
func intend(t *rapid.T, root, schema map[string]any, depth int) any {
	if ref, ok := schema["$ref"].(string); ok {
		var at any = root
		for step := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			at = at.(map[string]any)[step]
		}
		return intend(t, root, at.(map[string]any), depth)
	}
	if c, ok := schema["const"]; ok {
		return c
	}
	if e, ok := schema["enum"].([]any); ok {
		return rapid.SampledFrom(e).Draw(t, "choice")
	}
	for _, keyword := range []string{"oneOf", "anyOf"} {
		if list, ok := schema[keyword].([]any); ok && schema["properties"] == nil {
			return intend(t, root, rapid.SampledFrom(list).Draw(t, keyword).(map[string]any), depth)
		}
	}
	kind := schema["type"]
	if list, ok := kind.([]any); ok {
		kind = rapid.SampledFrom(list).Draw(t, "type")
	}
	switch kind {
	case "string":
		return text().Draw(t, "text")
	case "integer":
		return json.Number(rapid.SampledFrom([]string{"0", "-1", "7", "9007199254740993", "123456789012345678901234567890"}).Draw(t, "integer"))
	case "number":
		return json.Number(rapid.SampledFrom([]string{"0", "0.1", "1e-7", "-3.50", "1E400", "0.1000000000000000055511151231257827"}).Draw(t, "number"))
	case "boolean":
		return rapid.Bool().Draw(t, "boolean")
	case "null":
		return nil
	case "array":
		items, _ := schema["items"].(map[string]any)
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			list = append(list, intend(t, root, items, depth+1))
		}
		return list
	case "object":
		return intendObject(t, root, schema, depth)
	}
	return anyValue(t, depth)
}

func intendObject(t *rapid.T, root, schema map[string]any, depth int) map[string]any {
	object := map[string]any{}
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if slices.Contains(required, any(name)) || (depth < 6 && rapid.Bool().Draw(t, "with "+strconv.Quote(name))) {
			object[name] = intend(t, root, properties[name].(map[string]any), depth+1)
		}
	}
	if schema["additionalProperties"] != false && rapid.IntRange(0, 3).Draw(t, "more") == 0 {
		object["further "+rapid.StringN(0, 3, 10).Draw(t, "name")] = anyValue(t, depth)
	}
	return object
}

func anyValue(t *rapid.T, depth int) any {
	switch rapid.IntRange(0, 5).Draw(t, "any") {
	case 0:
		return nil
	case 1:
		return []any{text().Draw(t, "item")}
	case 2:
		return map[string]any{text().Draw(t, "key"): json.Number("12345678901234567890.5")}
	case 3:
		return rapid.Bool().Draw(t, "boolean")
	case 4:
		return json.Number("9007199254740993")
	}
	return text().Draw(t, "text")
}

func text() *rapid.Generator[string] {
	return rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
		"", " ", "Rome", "\nfirst line is empty", "two\nlines\n", "line end of Windows\r\n", "\x00", "</textarea><script>alert(1)</script>", `"><b>`, "{{.}}", "ünï 🜁 \u202e", "a\tb",
		"2026-11-23", "null", "[1]", "12", "true",
	}))
}
