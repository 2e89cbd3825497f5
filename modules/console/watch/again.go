package watch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/portico-run/portico/sdkgen/definition"
	sdk "github.com/portico-run/portico/sdkgen/python"
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

// python is a program that makes a call again; empty where the SDK has no class for it,
// or where its names depend on what else there is.
func python(c call, arguments json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(arguments))
	d.UseNumber()
	var members map[string]any
	if d.Decode(&members) != nil {
		return ""
	}
	class := classOf(c)
	if _, ok := members["cls"]; ok || class == "" { // Python gives the class under this name
		return ""
	}
	named := make([]string, 0, len(members))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if sdk.Name(name, "") != name {
			named = []string{"**" + literal(members)}
			break
		}
		named = append(named, name+"="+literal(members[name]))
	}
	return fmt.Sprintf("from refly_tools.%s import %s\n%s.%s(%s)", c.ToolsetID, class, class, c.ToolName, strings.Join(named, ", "))
}

// classOf is the class of the SDK that has a call's tool. A toolset or a tool whose name
// is as good in Python keeps it in every SDK.
func classOf(c call) string {
	switch c.ToolsetID {
	case "builtin", "execute_code", "portico", "python_repl": // the server's own, which are no classes
		return ""
	}
	made, err := sdk.Generate([]definition.Toolset{{Key: c.ToolsetID, Tools: []definition.Tool{{Name: c.ToolName}}}})
	if err != nil || made.Toolsets[0].Module != c.ToolsetID || made.Toolsets[0].Methods[c.ToolName] != c.ToolName {
		return ""
	}
	return made.Toolsets[0].Class
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
