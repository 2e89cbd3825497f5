package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/portico-run/portico/internal/mediatype"
	"github.com/portico-run/portico/internal/schema/jsontree"
	"github.com/portico-run/portico/modules/tool"
)

// readFile is the name of the tool that reads a file of the canvas.
const readFile = "read_file"

// functions are the server's own tools that programs of the run may call: those
// that only read, and in minimal mode, where there is no other way, the one that
// draws.
func (j *job) functions() []tool.Function {
	if !j.writes {
		return nil
	}
	tools := slices.Concat(j.builtins(), j.files())
	if j.minimal() {
		tools = append(tools, j.chart())
	}
	list := make([]tool.Function, len(tools))
	for i, t := range tools {
		list[i] = j.function(t)
	}
	return list
}

// function is a tool of the server's own as programs call it: what may be null
// for a model may be left out, and a result comes whole.
func (j *job) function(t Tool) tool.Function {
	work, description, schema := t.work, t.Description, optional(t.Schema)
	switch t.Name {
	case readToolResult:
		description = "Return the whole result of an earlier tool call, as a value."
		schema = json.RawMessage(`{"type":"object","properties":{"call_id":{"type":"string","description":"The id of the call"}},"required":["call_id"],"additionalProperties":false}`)
		work = j.wholeResult
	case readFile:
		description = "Read a text file of the canvas, a piece at a time. Read tables with pandas.read_parquet: they are in the program's folder."
		work = j.readText
	case createChart:
		description += " The table must have been in the canvas before this program began."
	}
	return tool.Function{Name: t.Name, Description: description, Schema: schema, Run: func(ctx context.Context, arguments json.RawMessage) tool.Answer {
		select { // each may hold a whole file, or a whole result
		case j.working <- struct{}{}:
			defer func() { <-j.working }()
		case <-ctx.Done():
			return answerOf(nil, context.Cause(ctx))
		}
		return answerOf(work(ctx, arguments))
	}}
}

// maxWorking is how many functions of one run work at once.
const maxWorking = 2

func (j *job) wholeResult(ctx context.Context, arguments json.RawMessage) (any, error) {
	var in struct {
		CallID string `json:"call_id"`
	}
	if err := json.Unmarshal(arguments, &in); err != nil {
		return nil, err
	}
	return j.output(ctx, in.CallID)
}

// readText reads a file for a program. Tables are refused: reading one takes a
// turn of the sandbox, which the program itself holds.
func (j *job) readText(ctx context.Context, arguments json.RawMessage) (any, error) {
	var in struct {
		File   string
		Offset *int
	}
	if err := json.Unmarshal(arguments, &in); err != nil {
		return nil, err
	}
	f, content, err := j.open(ctx, in.File)
	if err != nil {
		return nil, err
	}
	if f.Type == mediatype.Parquet {
		return nil, fmt.Errorf("%s is a table; read it with pandas.read_parquet(%q)", f.Name, f.Name)
	}
	return textOf(f, content, value(in.Offset, 0))
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
