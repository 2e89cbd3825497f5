package model

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Choice reads a tool_choice in any of its forms and returns the one that the
// Responses protocol knows: "auto", "none", "required", a function by its name
// in the flat form or nested in a member function, and allowed tools.
// An absent or null choice means "auto".
func Choice(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage(`"auto"`), nil
	}
	var word string
	if json.Unmarshal(raw, &word) == nil {
		if !slices.Contains([]string{"auto", "none", "required"}, word) {
			return nil, fmt.Errorf("tool_choice %q is not auto, none or required", word)
		}
		return raw, nil
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
		return nil, fmt.Errorf("tool_choice is neither a word nor an object")
	}
	switch {
	case form.Type == "function" && form.Name != "":
		return raw, nil
	case form.Type == "function" && form.Function.Name != "":
		return json.Marshal(map[string]string{"type": "function", "name": form.Function.Name})
	case form.Type == "allowed_tools" && len(form.Tools) > 0 && (form.Mode == "auto" || form.Mode == "required"):
		return raw, nil
	}
	return nil, fmt.Errorf(`tool_choice of type %q is not {"type":"function","name":…} or {"type":"allowed_tools","mode":…,"tools":[…]}`, form.Type)
}

// Forced is the function that a choice, as Choice returns it, demands; empty if
// it demands none.
func Forced(choice json.RawMessage) string {
	var form struct {
		Type string `json:"type"`
		Name string `json:"name"`
	}
	if json.Unmarshal(choice, &form) == nil && form.Type == "function" {
		return form.Name
	}
	return ""
}

// Allowed reports whether a choice lets a function be called.
func Allowed(choice json.RawMessage, name string) bool {
	if string(choice) == `"none"` {
		return false
	}
	var form struct {
		Type  string `json:"type"`
		Name  string `json:"name"`
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	if json.Unmarshal(choice, &form) != nil {
		return true
	}
	switch form.Type {
	case "function":
		return form.Name == name
	case "allowed_tools":
		for _, t := range form.Tools {
			if t.Name == name {
				return true
			}
		}
		return false
	}
	return true
}
