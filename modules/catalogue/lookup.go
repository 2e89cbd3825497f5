package catalogue

import (
	"context"
	"encoding/json"
)

// Lookup is a question to a catalogue as a tool that a model calls.
type Lookup struct {
	Name, Description string
	// Schema describes the arguments of Answer.
	Schema string
	// Answer fails as Help does.
	Answer func(ctx context.Context, arguments json.RawMessage) (string, error)
}

// Lookups are the tools that find and describe what is in the catalogue, for
// every surface that offers tools to a model.
func (c *Catalogue) Lookups() []Lookup {
	return []Lookup{
		{
			Name: "search_tools", Description: "Find tools that programs can call, best first: a line for each says how it is called.",
			Schema: `{"type":"object","properties":{"query":{"type":"string","description":"What you want to do, in words; empty for all"}},"required":["query"],"additionalProperties":false}`,
			Answer: func(_ context.Context, arguments json.RawMessage) (string, error) {
				var in struct{ Query string }
				if err := json.Unmarshal(arguments, &in); err != nil {
					return "", err
				}
				return c.Search(in.Query), nil
			},
		},
		{
			Name: "help", Description: "Tell all about one tool that programs can call: its description and the schemas of its parameters and result.",
			Schema: `{"type":"object","properties":{"name":{"type":"string","description":"Its name, or toolset.name"}},"required":["name"],"additionalProperties":false}`,
			Answer: func(ctx context.Context, arguments json.RawMessage) (string, error) {
				var in struct{ Name string }
				if err := json.Unmarshal(arguments, &in); err != nil {
					return "", err
				}
				return c.Help(ctx, in.Name)
			},
		},
	}
}
