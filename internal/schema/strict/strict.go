// Package strict fits the schemas of tools to the strict subset of JSON Schema
// that OpenAI enforces (structured outputs), and arguments back to what the
// tools expect.
package strict

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/portico-run/portico/internal/schema/jsontree"
)

// Schema is a schema as it is sent to a model.
type Schema struct {
	// Parameters describes an object.
	Parameters json.RawMessage
	// Strict says that Parameters is in the subset.
	Strict bool
	// Reason says why it is not, and where; empty when it is.
	Reason string
	// Relaxed lists constraints that the model is not held to. The tool's own
	// schema still is when it is called.
	Relaxed []string

	shape *shape
	defs  map[string]*shape
}

// Limits of the subset.
const (
	maxProperties = 5000
	maxDepth      = 10
	maxText       = 120_000 // characters of names and enum values
	maxEnum       = 1000    // values of all enums
	largeEnum     = 250     // values of one enum, above which
	maxLargeEnum  = 15_000  // characters of it are counted
)

// maxSteps bounds what is looked at to convert a schema. One of the largest that the
// subset allows takes a third.
const maxSteps = 50_000

// Convert fits a schema to the subset. Optional properties become required and
// nullable, as the subset demands; Restore undoes it in arguments, where a model
// may also have sent an empty text for an optional text. A schema
// that cannot be fitted is returned as it is, not strict, with the reason: it
// never fails a run.
func Convert(schema json.RawMessage) Schema {
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	root, reason := object(schema)
	if reason != "" {
		return loose(nil, reason)
	}
	c := &converter{root: root, defs: jsontree.NewObject(), shapes: map[string]*shape{}}
	out, shape, err := c.rootObject()
	if err == nil {
		err = c.limits()
	}
	if misfit, ok := errors.AsType[*misfitError](err); ok {
		return loose(root, misfit.Error())
	}
	if c.defs.Len() > 0 {
		out.Set("$defs", c.defs)
	}
	text, err := jsontree.Encode(out)
	if err != nil {
		return loose(root, err.Error())
	}
	return Schema{Parameters: text, Strict: true, Relaxed: c.relaxed, shape: shape, defs: c.shapes}
}

// Loose is a schema that is sent as it is, not as strict, though it may fit: Restore
// changes no arguments then.
func Loose(schema json.RawMessage, reason string) Schema {
	root, wrong := object(schema)
	return loose(root, cmp.Or(wrong, reason))
}

// object reads a schema, or says why it is none of an object.
func object(schema json.RawMessage) (root *jsontree.Object, reason string) {
	parsed, err := jsontree.Parse(schema)
	if err != nil {
		return nil, "it is not JSON: " + err.Error()
	}
	root, ok := parsed.(*jsontree.Object)
	if !ok {
		return nil, "it is not a schema of an object"
	}
	return root, ""
}

// misfitError says that the subset cannot express a schema.
type misfitError struct{ path, why string }

func (e *misfitError) Error() string {
	if e.path == "" {
		return "the schema " + e.why
	}
	return e.path + " " + e.why
}

// loose is a schema that is sent unchanged, not as strict. The provider still
// demands an object without alternatives at the top.
func loose(root *jsontree.Object, reason string) Schema {
	out := jsontree.NewObject()
	out.Set("type", "object")
	var relaxed []string
	if root != nil {
		for _, name := range root.Names() {
			switch name {
			case "anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const", "$ref":
				relaxed = append(relaxed, name)
			case "type", "$schema", "$id":
			default:
				out.Set(name, root.Get(name))
			}
		}
	}
	if out.Object("properties") == nil {
		out.Set("properties", jsontree.NewObject())
	}
	text, err := jsontree.Encode(out)
	if err != nil {
		text = []byte(`{"type":"object","properties":{}}`)
	}
	return Schema{Parameters: text, Reason: reason, Relaxed: relaxed}
}

// limits refuses what is larger than the provider takes.
func (c *converter) limits() error {
	switch {
	case c.properties > maxProperties:
		return &misfitError{"", fmt.Sprintf("has more than %d properties", maxProperties)}
	case c.characters > maxText:
		return &misfitError{"", fmt.Sprintf("has names and values of more than %d characters", maxText)}
	case c.steps > maxSteps:
		return &misfitError{"", "has too many parts that refer to others"}
	case c.enums > maxEnum:
		return &misfitError{"", fmt.Sprintf("lists more than %d values", maxEnum)}
	}
	return nil
}
