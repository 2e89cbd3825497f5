package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/portico-run/portico/internal/schema/jsontree"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool"
)

// maxWorking is how many functions of one run work at once.
const maxWorking = 2

// Functions are the tools that programs of the run may call: those that only
// read, and in minimal mode, where there is no other way, the one that draws.
func (s *Set) Functions(m Mode) []tool.Function {
	if !m.Code {
		return nil
	}
	tools := slices.Concat(s.results.tools(), s.files.readers())
	if m.Minimal {
		tools = append(tools, s.files.chart())
	}
	list := make([]tool.Function, len(tools))
	for i, t := range tools {
		list[i] = s.function(t)
	}
	return list
}

// function is a tool as programs call it: what may be null for a model may be
// left out, and a result comes whole.
func (s *Set) function(t own) tool.Function {
	if t.lent != nil {
		t = own{name: t.name, description: t.lent.description, schema: t.lent.schema, work: t.lent.work}
	}
	return tool.Function{Name: t.name, Description: t.description, Schema: optional(json.RawMessage(t.schema)), Run: func(ctx context.Context, arguments json.RawMessage) record.Answer {
		select { // each may hold a whole file, or a whole result
		case s.working <- struct{}{}:
			defer func() { <-s.working }()
		case <-ctx.Done():
			return answerOf(nil, context.Cause(ctx))
		}
		return answerOf(t.work(ctx, arguments))
	}}
}

// optional is a schema in which what may be null, or has a default, may be left
// out.
func optional(schema json.RawMessage) json.RawMessage {
	parsed, err := jsontree.Parse(schema)
	object, ok := parsed.(*jsontree.Object)
	if err != nil || !ok {
		return schema // ours are objects
	}
	properties, required := object.Object("properties"), []any{}
	for _, name := range object.List("required") {
		p := properties.Object(fmt.Sprint(name))
		if !p.Has("default") && !slices.Contains(p.List("type"), any("null")) {
			required = append(required, name)
		}
	}
	object.Set("required", required)
	text, err := jsontree.Encode(object)
	if err != nil {
		return schema
	}
	return text
}
