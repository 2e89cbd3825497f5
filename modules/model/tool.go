package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
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
}

// Fitted is a tool that the provider takes.
type Fitted struct {
	Definition Definition
	// Loose says why the provider does not hold the model to the schema; empty
	// when it does.
	Loose string

	schema strict.Schema
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
	if !t.Own {
		schema = strict.Convert(t.Schema)
	} else if err := strict.Verify(t.Schema); err != nil {
		return Fitted{}, err
	}
	return Fitted{
		Definition: Definition{Type: "function", Name: t.Name, Description: t.Description, Parameters: schema.Parameters, Strict: schema.Strict},
		Loose:      schema.Reason, schema: schema,
	}, nil
}

// Arguments turns what a model wrote into what the tool's own schema describes.
// Anything but a JSON value is an error.
func (f Fitted) Arguments(text string) (json.RawMessage, error) {
	if strings.TrimSpace(text) == "" {
		text = "{}" // some models leave it out where there are no parameters
	}
	return f.schema.Restore(json.RawMessage(text))
}
