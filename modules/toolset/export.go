package toolset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Definition is a toolset as code is generated from it: docs/wire/refly.md#definitions.
type Definition struct {
	Key         string           `json:"key"`
	Name        string           `json:"name"`
	Description string           `json:"description"`
	Tools       []ToolDefinition `json:"tools"`
}

// ToolDefinition is one tool of a Definition.
type ToolDefinition struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	// OutputSchema is the JSON Schema of the result; empty where none is known.
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Callers      Callers         `json:"-"`
	// AllowedCallers is Callers in words; only what is exported has it.
	AllowedCallers []string `json:"allowedCallers,omitempty" enum:"direct,code" doc:"Who may call it, where its name or its file says so: a model by a tool call, or code"`
}

// outputOf is the schema of a method's result, if it says anything.
func outputOf(m Method) json.RawMessage {
	members, err := ordered(m.Response)
	if err != nil || len(members) == 0 {
		return nil
	}
	return m.Response
}

// fileTitle is the parameter that names the file a result becomes.
const (
	fileTitle       = "file_name_title"
	fileTitleSchema = `{"type":"string","description":"The title for the generated file. Should be concise and descriptive. This will be used as the filename."}`
)

// withFileTitle adds the parameter file_name_title to a schema and requires it:
// docs/wire/refly.md#definitions. The order of the other members stays.
func withFileTitle(schema json.RawMessage) (json.RawMessage, error) {
	members, err := ordered(schema)
	if err != nil {
		return nil, err
	}
	properties := json.RawMessage("{}")
	var required []string
	for _, m := range members {
		switch m.name {
		case "properties":
			properties = m.value
		case "required":
			if err := json.Unmarshal(m.value, &required); err != nil {
				return nil, fmt.Errorf("required: %w", err)
			}
		}
	}
	fields, err := ordered(properties)
	if err != nil {
		return nil, fmt.Errorf("properties: %w", err)
	}
	for _, f := range fields {
		if f.name == fileTitle {
			return schema, nil
		}
	}
	fields = append(fields, member{fileTitle, json.RawMessage(fileTitleSchema)})
	names, err := json.Marshal(append(required, fileTitle))
	if err != nil {
		return nil, err
	}
	members = set(members, "properties", write(fields))
	return write(set(members, "required", names)), nil
}

// member is one member of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// ordered reads an object's members in their order.
func ordered(object json.RawMessage) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	var members []member
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		members = append(members, member{fmt.Sprint(name), value})
	}
	return members, nil
}

func set(members []member, name string, value json.RawMessage) []member {
	for i := range members {
		if members[i].name == name {
			members[i].value = value
			return members
		}
	}
	return append(members, member{name, value})
}

func write(members []member) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		name, _ := json.Marshal(m.name) // strings always have a JSON form
		b.Write(name)
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}
