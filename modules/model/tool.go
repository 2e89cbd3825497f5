package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/schema/strict"
)

// Definition is a tool as the provider reads of it.
type Definition struct {
	Type        string          `json:"type"` // "function"
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict"`

	plain json.RawMessage // the parameters for a provider that holds no model to them
}

// Schema is what a provider is told of the parameters, which does or does not hold
// its model to them.
func (d Definition) Schema(strict bool) json.RawMessage {
	if strict || d.plain == nil {
		return d.Parameters
	}
	return d.plain
}

// Tool is a tool before it is fitted to what the provider takes.
type Tool struct {
	Name        string
	Description string
	// Schema describes the arguments, an object.
	Schema json.RawMessage
	// Own says that the schema is ours and must be in the provider's subset of
	// JSON Schema as it is; a foreign one is fitted to it as far as it goes.
	Own bool
	// Loose asks that the model is not held to the schema.
	Loose bool
}

// Fitted is a tool that the provider takes.
type Fitted struct {
	Definition Definition
	// Loose says why the provider does not hold the model to the schema; empty
	// when it does.
	Loose string

	schema   strict.Schema
	nullable []string // parameters of ours that a model may leave out
}

// MaxToolName is how long the name of a tool may be, in characters.
const MaxToolName = 64

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Fit prepares a tool. It fails on one that the provider would refuse.
func (*Client) Fit(t Tool) (Fitted, error) {
	switch {
	case !toolName.MatchString(t.Name):
		return Fitted{}, fmt.Errorf("its name must be 1 to %d letters, digits, - or _", MaxToolName)
	case strings.TrimSpace(t.Description) == "":
		return Fitted{}, errors.New("it has no description")
	}
	schema := strict.Schema{Parameters: t.Schema, Strict: true}
	switch {
	case t.Loose:
		schema = strict.Loose(t.Schema, "whoever brought it asks for that")
	case !t.Own:
		schema = strict.Convert(t.Schema)
	default:
		if err := strict.Verify(t.Schema); err != nil {
			return Fitted{}, err
		}
	}
	f := Fitted{
		Definition: Definition{
			Type: "function", Name: t.Name, Description: t.Description, Parameters: schema.Parameters, Strict: schema.Strict, plain: plain(t.Schema),
		},
		Loose: schema.Reason, schema: schema,
	}
	if t.Own {
		f.Definition.plain, f.nullable = optional(t.Schema)
	}
	return f, nil
}

// plain is a schema as it is, for providers that hold no model to it; nil for one that
// they would refuse, since it is not that of an object at its top.
func plain(schema json.RawMessage) json.RawMessage {
	var top map[string]json.RawMessage
	if json.Unmarshal(schema, &top) != nil || string(top["type"]) != `"object"` {
		return nil
	}
	for _, word := range []string{"anyOf", "oneOf", "allOf", "not", "if", "enum", "const", "$ref"} {
		if top[word] != nil {
			return nil
		}
	}
	return schema
}

// Arguments turns what a model wrote into what the tool's own schema describes.
// Anything but a JSON value is an error.
func (f Fitted) Arguments(text string) (json.RawMessage, error) {
	if strings.TrimSpace(text) == "" {
		text = "{}" // some models leave it out where there are no parameters
	}
	raw, err := f.schema.Restore(json.RawMessage(text))
	var object map[string]json.RawMessage
	if err != nil || len(f.nullable) == 0 || json.Unmarshal(raw, &object) != nil || object == nil {
		return raw, err
	}
	missing := false
	for _, name := range f.nullable {
		if object[name] == nil {
			object[name], missing = []byte("null"), true
		}
	}
	if !missing {
		return raw, nil
	}
	return json.Marshal(object)
}

// optional is a schema of ours for providers that hold no model to it: what may be null
// there, as the strict subset has it, may be left out. It returns the names of these
// parameters, too.
func optional(schema json.RawMessage) (plain json.RawMessage, names []string) {
	var top struct {
		Properties map[string]struct {
			Type json.RawMessage `json:"type"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(schema, &top) != nil || json.Unmarshal(schema, &members) != nil {
		return nil, nil
	}
	required := []string{}
	for _, name := range top.Required {
		var types []string
		if json.Unmarshal(top.Properties[name].Type, &types) == nil && slices.Contains(types, "null") {
			names = append(names, name)
			continue
		}
		required = append(required, name)
	}
	members["required"], _ = json.Marshal(required) // texts always marshal
	plain, _ = json.Marshal(members)                // it was read
	return plain, names
}
