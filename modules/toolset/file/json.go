package file

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/portico-run/portico/internal/schema/shared"
)

// maxNesting bounds how deep a schema in a file may be nested. Aliases count
// as what they stand for.
const maxNesting = 100

// maxSchema bounds the JSON form of a schema, in bytes, so that aliases of
// aliases cannot grow without end.
const maxSchema = shared.MaxSize

// toJSON writes a YAML tree as JSON. The order of the keys stays: it is the
// order of the parameters in the generated SDK.
func toJSON(n *yaml.Node) (json.RawMessage, error) {
	var b bytes.Buffer
	if err := writeJSON(&b, n, 0); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func writeJSON(b *bytes.Buffer, n *yaml.Node, depth int) error {
	switch {
	case depth > maxNesting:
		return fmt.Errorf("line %d: nested more than %d levels deep", n.Line, maxNesting)
	case b.Len() > maxSchema:
		return fmt.Errorf("line %d: larger than %d bytes", n.Line, maxSchema)
	}
	switch n.Kind {
	case yaml.AliasNode:
		return writeJSON(b, n.Alias, depth+1)
	case yaml.MappingNode:
		return writeObject(b, n, depth)
	case yaml.SequenceNode:
		b.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeJSON(b, item, depth+1); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	}
	var v any
	if n.Tag == "!!timestamp" {
		v = n.Value // a date in a schema is text
	} else if err := n.Decode(&v); err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("line %d: %s has no JSON form", n.Line, n.Value)
	}
	b.Write(text)
	return nil
}

func writeObject(b *bytes.Buffer, n *yaml.Node, depth int) error {
	b.WriteByte('{')
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
			return fmt.Errorf("line %d: keys of a schema are plain names", key.Line)
		}
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(key.Value)
		if err != nil {
			return fmt.Errorf("line %d: %w", key.Line, err)
		}
		b.Write(name)
		b.WriteByte(':')
		if err := writeJSON(b, n.Content[i+1], depth+1); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}
