package offer

import (
	"encoding/json"
	"slices"

	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/agent/openai/failure"
	"github.com/portico-run/portico/modules/model"
)

// chosen is a tool in a tool_choice.
type chosen struct {
	Type      string `json:"type"`
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

// choice reads tool_choice.
func (r *reading) choice() (model.Choice, error) {
	raw := r.in.Choice
	var form struct {
		chosen

		Mode  string   `json:"mode"`
		Tools []chosen `json:"tools"`
	}
	if json.Unmarshal(raw, &form) == nil { // an object
		switch form.Type {
		case programsType:
			if r.out.Programs == nil {
				return model.Choice{}, failure.Invalid("tool_choice", "Tool choice 'programmatic_tool_calling' not found in 'tools' parameter.")
			}
			r.out.Programs.Required = true
			return model.Choice{}, nil
		case functionType:
			one, err := r.chosen(form.chosen)
			if err != nil {
				return model.Choice{}, err
			}
			raw, _ = json.Marshal(one) // texts always marshal
		case "allowed_tools":
			list := make([]chosen, len(form.Tools))
			for i, t := range form.Tools {
				var err error
				if list[i], err = r.chosen(t); err != nil {
					return model.Choice{}, err
				}
			}
			raw, _ = json.Marshal(map[string]any{"type": form.Type, "mode": form.Mode, "tools": list})
		}
	}
	choice, err := model.ParseChoice(raw)
	if err != nil {
		return model.Choice{}, failure.Invalid("tool_choice", "%s.", err.Error())
	}
	if choice.Demands() && len(r.out.Tools) == 0 && r.out.Programs == nil {
		return model.Choice{}, failure.Invalid("tool_choice", "Tool choice 'required' must be specified with 'tools' parameter.")
	}
	return choice, nil
}

// chosen is a tool by the name that the model knows.
func (r *reading) chosen(c chosen) (chosen, error) {
	name := Inside(c.Namespace, c.Name)
	switch {
	case c.Type == programsType && r.out.Programs != nil:
		return chosen{Type: functionType, Name: dialogue.RunCode}, nil
	case c.Type == functionType && slices.ContainsFunc(r.out.Tools, func(t dialogue.Tool) bool { return t.Name == name && t.Direct }):
		return chosen{Type: functionType, Name: name}, nil
	case c.Type == functionType && r.out.names[name].Name != "":
		return c, failure.Invalid("tool_choice", "Only programs may call %s, so that it cannot be chosen.", c.Name)
	}
	return c, failure.Invalid("tool_choice", "Tool choice '%s' not found in 'tools' parameter.", c.Name+typeUnlessNamed(c))
}

func typeUnlessNamed(c chosen) string {
	if c.Name == "" {
		return c.Type
	}
	return ""
}
