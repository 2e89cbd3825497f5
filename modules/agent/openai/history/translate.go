package history

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/agent/openai/failure"
	"github.com/portico-run/portico/modules/agent/openai/offer"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/model/content"
)

// carried is what stands in an item that a thought stands for: it is not said twice.
type carried struct {
	text  string
	calls []string
}

// said reports whether a message begins with the words that a thought stands for, and
// what else is in it.
func (c carried) said(i item) (rest string, said bool) {
	if i.Role != "assistant" || c.text == "" {
		return "", false
	}
	return strings.CutPrefix(textOf(i), c.text)
}

// ownMessage is the id of a message of this server's: docs/openai.md#what-differs.
var ownMessage = regexp.MustCompile(`^msg_[0-9a-f]{32}_[0-9]+$`)

// brokenOff reports whether a message is what was shown of an answer that broke off and
// came again.
func (i item) brokenOff() bool {
	return i.Role == "assistant" && i.Status == "incomplete" && ownMessage.MatchString(i.ID)
}

// translate makes items for the model. What programs did themselves, and what is not
// known, is no part of its conversation.
func (r *reader) translate(list []item) ([]model.Item, error) {
	var out []model.Item
	var in carried
	for _, i := range list {
		switch i.Type {
		case Message:
			if i.brokenOff() {
				continue
			}
			if rest, said := in.said(i); said {
				if in.text = ""; rest != "" {
					out = append(out, model.Assistant(rest))
				}
				continue
			}
			said, err := message(i)
			if err != nil {
				return nil, err
			}
			out = append(out, said)
		case Reasoning:
			var thought []model.Item
			thought, in = r.thought(i, in)
			out = append(out, thought...)
		case FunctionCall:
			if !i.byProgram() && !slices.Contains(in.calls, i.CallID) {
				out = append(out, model.CallItem(i.CallID, offer.Inside(i.Namespace, i.Name), i.Arguments))
			}
		case FunctionOutput:
			if r.calls[i.CallID].byProgram() {
				continue
			}
			result, err := output(i)
			if err != nil {
				return nil, err
			}
			out = append(out, result)
		case Program:
			if !slices.Contains(in.calls, i.CallID) {
				out = append(out, dialogue.ProgramCall(dialogue.Program{ID: i.CallID, Code: i.Code}))
			}
		case ProgramOutput:
			if _, there := r.calls[i.CallID]; !there {
				continue
			}
			out = append(out, printed(i))
		}
	}
	return out, nil
}

// thought is what the model thought, if it can read it.
func (r *reader) thought(i item, in carried) ([]model.Item, carried) {
	items, _, ours := dialogue.Restore(i.Encrypted)
	if !ours {
		if r.in.Native && i.Encrypted != "" {
			return []model.Item{i.raw}, in
		}
		return nil, in
	}
	in.text = ""
	for _, raw := range items {
		p := model.Parse(raw)
		in.text += p.Text
		for _, c := range p.Calls {
			in.calls = append(in.calls, c.ID)
		}
	}
	return items, in
}

// message is what somebody said.
func message(i item) (model.Item, error) {
	parts, err := partsOf(i.at+".content", i.Content)
	if err != nil {
		return nil, err
	}
	text, plain := content.Words(parts)
	switch i.Role {
	case "user":
		if plain && len(parts) == 1 {
			return model.User(text), nil
		}
		return model.UserParts(parts), nil
	case "system", "developer":
		if !plain {
			return nil, failure.Invalid(i.at+".content", "A message of %s must be text.", i.Role)
		}
		if i.Role == "developer" {
			return model.Developer(text), nil
		}
		return model.System(text), nil
	case "assistant":
		if !plain {
			return nil, failure.Invalid(i.at+".content", "A message of the assistant's must be text.")
		}
		return model.Assistant(text), nil
	}
	return nil, failure.Invalid(i.at+".role", "Invalid value: '%s'. Supported values are: 'assistant', 'system', 'developer', and 'user'.", i.Role)
}

// printed is what a program printed, as the model was told it before: shortened, and
// with why it failed.
func printed(i item) model.Item {
	if i.Status == "incomplete" && i.Result != "" {
		return model.FailedOutput(i.CallID, i.Result)
	}
	return dialogue.ProgramOutput(dialogue.Output{Program: i.CallID, Stdout: i.Result}, 0)
}

// output is what a call of the model's own returned.
func output(i item) (model.Item, error) {
	var text string
	if json.Unmarshal(i.Output, &text) == nil {
		if i.Status == "incomplete" {
			return model.FailedOutput(i.CallID, text), nil
		}
		return model.Output(i.CallID, text), nil
	}
	parts, err := partsOf(i.at+".output", i.Output)
	if err != nil {
		return nil, err
	}
	return model.OutputParts(i.CallID, parts), nil
}

// partsOf reads content. An empty list is an empty text.
func partsOf(at string, raw json.RawMessage) ([]model.Part, error) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil && len(list) == 0 {
		return []model.Part{{Type: content.Text}}, nil
	}
	parts, err := content.Read(raw)
	return parts, failure.At(at, err)
}

func textOf(i item) string {
	parts, err := content.Read(i.Content)
	if err != nil {
		return ""
	}
	text, _ := content.Words(parts)
	return text
}
