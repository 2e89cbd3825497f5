package watch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// curl is a command that makes a call again. It names the server and the key as
// variables: neither belongs in what people paste somewhere.
func curl(c call, arguments json.RawMessage) string {
	body, err := json.Marshal(map[string]any{"toolsetKey": c.ToolsetID, "toolName": c.ToolName, "arguments": arguments})
	if err != nil { // arguments that are no JSON cannot be sent
		return ""
	}
	body = readable(body)
	return `curl -sS "$URL/v1/tool/execute" -H "X-API-Key: $KEY" -H 'Content-Type: application/json' -d '` + strings.ReplaceAll(string(body), "'", `'\''`) + "'"
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// python is a line of a program that makes a call again.
func python(c call, arguments json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(arguments))
	d.UseNumber()
	var members map[string]any
	if d.Decode(&members) != nil || !identifier.MatchString(c.ToolsetID) || !identifier.MatchString(c.ToolName) {
		return ""
	}
	named := make([]string, 0, len(members))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !identifier.MatchString(name) {
			return fmt.Sprintf("refly_tools.%s.%s(**%s)", c.ToolsetID, c.ToolName, literal(members))
		}
		named = append(named, name+"="+literal(members[name]))
	}
	return fmt.Sprintf("refly_tools.%s.%s(%s)", c.ToolsetID, c.ToolName, strings.Join(named, ", "))
}

// literal is a value as Python writes it.
func literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return map[bool]string{true: "True", false: "False"}[v]
	case json.Number:
		return v.String()
	case string:
		return strconv.QuoteToASCII(v)
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = literal(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		var items []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			items = append(items, strconv.QuoteToASCII(name)+": "+literal(v[name]))
		}
		return "{" + strings.Join(items, ", ") + "}"
	}
	return "None"
}
