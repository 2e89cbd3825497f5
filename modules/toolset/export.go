package toolset

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/portico-run/portico/internal/schema/jsontree"
)

// Definition is a toolset as code is generated from it: docs/wire/refly.md#definitions.
type Definition struct {
	Key         string           `json:"key"`
	Name        string           `json:"name"`
	Description string           `json:"description"`
	Tools       []ToolDefinition `json:"tools"`
	// Server says that the tools are those of an MCP server.
	Server bool `json:"-"`
}

// ToolDefinition is one tool of a Definition.
type ToolDefinition struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	// OutputSchema is the JSON Schema of the result; empty where none is known.
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Callers      Callers         `json:"-"`
	// As is the name that its function has in programs, whatever others are
	// called; empty leaves it to the names of all. Plain functions take what the
	// tool itself takes, without a name for a file.
	As    string `json:"-"`
	Plain bool   `json:"-"`
	// AllowedCallers is Callers in words; only what is exported has it.
	AllowedCallers []string `json:"allowedCallers,omitempty" enum:"direct,code" doc:"Who may call it, where its name or its file says so: a model by a tool call, or code"`
}

// Definition describes the tool.
func (m Method) Definition() ToolDefinition {
	return ToolDefinition{Name: m.Name, Description: m.Description, InputSchema: m.Request, OutputSchema: outputOf(m), Callers: m.Callers()}
}

// outputOf is the schema of a method's result, if it says anything.
func outputOf(m Method) json.RawMessage {
	text := bytes.TrimSpace(m.Response)
	if !json.Valid(text) || text[0] != '{' || len(bytes.TrimSpace(text[1:len(text)-1])) == 0 {
		return nil
	}
	return m.Response
}

// fileTitle is the parameter that names the file a result becomes.
const (
	fileTitle       = "file_name_title"
	fileTitleSchema = `{"type":"string","description":"The title for the generated file. Should be concise and descriptive. This will be used as the filename."}`
)

// WithFileTitle adds the parameter file_name_title to a schema and requires it:
// docs/wire/refly.md#definitions. The order of the other members stays.
func WithFileTitle(schema json.RawMessage) (json.RawMessage, error) {
	members, err := jsontree.Members(schema)
	if err != nil {
		return nil, err
	}
	properties := json.RawMessage("{}")
	var required []string
	for _, m := range members {
		switch m.Name {
		case "properties":
			properties = m.Value
		case "required":
			if err := json.Unmarshal(m.Value, &required); err != nil {
				return nil, fmt.Errorf("required: %w", err)
			}
		}
	}
	fields, err := jsontree.Members(properties)
	if err != nil {
		return nil, fmt.Errorf("properties: %w", err)
	}
	for _, f := range fields {
		if f.Name == fileTitle {
			return schema, nil
		}
	}
	fields = append(fields, jsontree.Member{Name: fileTitle, Value: json.RawMessage(fileTitleSchema)})
	names, err := json.Marshal(append(required, fileTitle))
	if err != nil {
		return nil, err
	}
	members = set(members, "properties", jsontree.Join(fields))
	return jsontree.Join(set(members, "required", names)), nil
}

func set(members []jsontree.Member, name string, value json.RawMessage) []jsontree.Member {
	for i := range members {
		if members[i].Name == name {
			members[i].Value = value
			return members
		}
	}
	return append(members, jsontree.Member{Name: name, Value: value})
}
