package model

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Choice says which tools a model may call, and whether it must. The zero value
// leaves it to the model.
type Choice struct {
	raw     json.RawMessage // as the protocol knows it; empty for auto
	demands bool
	limited bool     // to names
	names   []string // that may be called
}

// ParseChoice reads a tool_choice in any of its forms: "auto", "none",
// "required", a function by its name in the flat form or nested in a member
// function, and allowed tools. An absent or null one means "auto".
func ParseChoice(raw json.RawMessage) (Choice, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return Choice{}, nil
	}
	var word string
	if json.Unmarshal(raw, &word) == nil {
		if !slices.Contains([]string{"auto", "none", "required"}, word) {
			return Choice{}, fmt.Errorf("tool_choice %q is not auto, none or required", word)
		}
		return Choice{raw: raw, demands: word == "required", limited: word == "none"}, nil
	}
	var form struct {
		Type     string `json:"type"`
		Name     string `json:"name"`
		Mode     string `json:"mode"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
		Tools []struct {
			Type string `json:"type"`
			Name string `json:"name"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(raw, &form); err != nil {
		return Choice{}, fmt.Errorf("tool_choice is neither a word nor an object")
	}
	switch {
	case form.Type == "function" && form.Name != "":
		return Choice{raw: raw, demands: true, limited: true, names: []string{form.Name}}, nil
	case form.Type == "function" && form.Function.Name != "":
		flat, err := json.Marshal(map[string]string{"type": "function", "name": form.Function.Name})
		return Choice{raw: flat, demands: true, limited: true, names: []string{form.Function.Name}}, err
	case form.Type == "allowed_tools" && len(form.Tools) > 0 && (form.Mode == "auto" || form.Mode == "required"):
		c := Choice{raw: raw, demands: form.Mode == "required", limited: true}
		for _, t := range form.Tools {
			c.names = append(c.names, t.Name)
		}
		return c, nil
	}
	return Choice{}, fmt.Errorf(`tool_choice of type %q is not {"type":"function","name":…} or {"type":"allowed_tools","mode":…,"tools":[…]}`, form.Type)
}

// Demands reports whether the model must call something.
func (c Choice) Demands() bool { return c.demands }

// Allows reports whether a tool may be called.
func (c Choice) Allows(name string) bool { return !c.limited || slices.Contains(c.names, name) }

// MarshalJSON implements json.Marshaler: the choice as the provider reads it.
func (c Choice) MarshalJSON() ([]byte, error) {
	if len(c.raw) == 0 {
		return []byte(`"auto"`), nil
	}
	return c.raw, nil
}

// UnmarshalJSON implements json.Unmarshaler for what MarshalJSON writes.
func (c *Choice) UnmarshalJSON(text []byte) (err error) {
	if string(text) == `"auto"` {
		*c = Choice{}
		return nil
	}
	*c, err = ParseChoice(text)
	return err
}
