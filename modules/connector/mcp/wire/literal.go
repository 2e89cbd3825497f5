// Package wire is what goes over the connections to MCP servers: it bounds the
// messages, and keeps in them what the SDK would lose.
package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/portico-run/portico/internal/schema/jsontree"
)

// RawTools is the member of _meta that holds the tools of a list as the server
// wrote them.
const RawTools = "portico.run/tools"

// literal keeps in a message what the SDK would lose when it decodes it: the
// order of properties in schemas, and numbers that no double holds. The value of
// structuredContent becomes a text that is its JSON, unless it is null, which says
// nothing, and a list of tools is
// repeated as a text in _meta. A list may be asked for again at any time, whatever
// the server says: the hub has intervals of its own. Other messages, and what is
// no JSON, stay as they are.
func literal(message []byte) []byte {
	structured, listed := bytes.Contains(message, []byte(`"structuredContent"`)), bytes.Contains(message, []byte(`"inputSchema"`))
	if !structured && !listed {
		return message
	}
	members, err := jsontree.Members(message)
	if err != nil {
		return message
	}
	for i, m := range members {
		if m.Name != "result" {
			continue
		}
		if members[i].Value, err = literalResult(m.Value); err != nil {
			return message
		}
	}
	return jsontree.Join(members)
}

func literalResult(result []byte) ([]byte, error) {
	members, err := jsontree.Members(result)
	if err != nil {
		return nil, err
	}
	members = slices.DeleteFunc(members, func(m jsontree.Member) bool { return m.Name == "structuredContent" && string(m.Value) == "null" })
	tools, ttl := -1, -1
	for i, m := range members {
		switch m.Name {
		case "structuredContent":
			if members[i].Value, err = Quote(m.Value); err != nil {
				return nil, err
			}
		case "tools":
			tools = i
		case "ttlMs":
			ttl = i
		}
	}
	if tools < 0 {
		return jsontree.Join(members), nil
	}
	if ttl >= 0 {
		members[ttl].Value = json.RawMessage("0")
	}
	text, err := Quote(members[tools].Value)
	if err != nil {
		return nil, err
	}
	return jsontree.Join(addMeta(members, jsontree.Member{Name: RawTools, Value: text})), nil
}

// addMeta adds a member to _meta, which is an object or not there.
func addMeta(members []jsontree.Member, add jsontree.Member) []jsontree.Member {
	for i, m := range members {
		if m.Name != "_meta" {
			continue
		}
		meta, err := jsontree.Members(m.Value)
		if err != nil {
			meta = nil
		}
		members[i].Value = jsontree.Join(append(meta, add))
		return members
	}
	return append(members, jsontree.Member{Name: "_meta", Value: jsontree.Join([]jsontree.Member{add})})
}

// Quote makes a text of JSON.
func Quote(raw []byte) (json.RawMessage, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(string(raw))
	return bytes.TrimSpace(out.Bytes()), err
}

// CodeTooLarge is the code of the error that stands for an answer over the
// limit; servers have no codes above -32000.
const CodeTooLarge = -31999

// tooLarge is the answer to a request whose answer is over the limit.
func tooLarge(id json.RawMessage, limit int64) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + string(id) + `,"error":{"code":` + strconv.Itoa(CodeTooLarge) + `,"message":"` + strconv.FormatInt(limit, 10) + `"}}`)
}
