package rest

import (
	"bytes"
	"encoding/json"
	"slices"
)

// omitFields is the word of a schema for what is left out.
const omitFields = `"omitFields"`

// omit takes members out of a value, at any depth, that a schema names in
// omitFields: what upstream and caller must not see of each other.
func omit(schema json.RawMessage, v any) any {
	var s struct {
		Fields []string `json:"omitFields"`
	}
	if !bytes.Contains(schema, []byte(omitFields)) || json.Unmarshal(schema, &s) != nil || len(s.Fields) == 0 {
		return v
	}
	return without(s.Fields, v)
}

func without(fields []string, v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = without(fields, v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			if !slices.Contains(fields, name) {
				out[name] = without(fields, member)
			}
		}
		return out
	}
	return v
}

// omitData applies omit to JSON text; other text is returned unchanged.
func omitData(schema, data json.RawMessage) json.RawMessage {
	if !bytes.Contains(schema, []byte(omitFields)) {
		return data
	}
	v := decode(data)
	if v == nil {
		return data
	}
	text, err := json.Marshal(omit(schema, v))
	if err != nil {
		return data
	}
	return text
}
