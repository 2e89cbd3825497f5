// Package history reads the items of conversations that clients of OpenAI's Responses
// API keep: what the model is to be told of them, and what they answer that waits.
package history

import (
	"encoding/json"
	"fmt"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/agent/openai/failure"
)

// Types of items: docs/wire/openai.md#items.
const (
	Message         = "message"
	Reasoning       = "reasoning"
	FunctionCall    = "function_call"
	FunctionOutput  = "function_call_output"
	Program         = "program"
	ProgramOutput   = "program_output"
	ApprovalRequest = "mcp_approval_request"
	ApprovalAnswer  = "mcp_approval_response"
	Reference       = "item_reference"
)

// What the face puts before ids of the engine's.
const (
	CallPrefix     = "call_"
	approvalPrefix = "mcpr_"
)

// CallID is what clients know the call of a program by.
func CallID(id string) string { return CallPrefix + id }

// ApprovalID is what clients know a call by that waits for a person.
func ApprovalID(id string) string { return approvalPrefix + id }

// caller says who makes a call.
type caller struct {
	Type string `json:"type"`
	ID   string `json:"caller_id"`
}

// item is what is read of an item.
type item struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
	Status    string          `json:"status"`
	Caller    *caller         `json:"caller"`
	Code      string          `json:"code"`
	Seal      string          `json:"fingerprint"`
	Result    string          `json:"result"`
	Encrypted string          `json:"encrypted_content"`
	Request   string          `json:"approval_request_id"`
	Approve   *bool           `json:"approve"`
	Reason    string          `json:"reason"`

	raw json.RawMessage
	at  string // its parameter
}

// byProgram reports whether a program makes the call, or got the output.
func (i item) byProgram() bool { return i.Caller != nil && i.Caller.Type == "program" }

// ours reports whether items of a type come from the server; others, but unknown ones,
// come from the client.
func (i item) ours() bool {
	switch i.Type {
	case Reasoning, FunctionCall, Program, ProgramOutput, ApprovalRequest:
		return true
	case Message:
		return i.Role == "assistant"
	}
	return false
}

func (i item) theirs() bool {
	switch i.Type {
	case FunctionOutput, ApprovalAnswer:
		return true
	case Message:
		return i.Role != "assistant"
	}
	return false
}

// known are the types that are read; others are kept and not read.
func known(kind string) bool {
	switch kind {
	case Message, Reasoning, FunctionCall, FunctionOutput, Program, ProgramOutput, ApprovalRequest, ApprovalAnswer:
		return true
	}
	return false
}

// read reads an item.
func read(at string, raw json.RawMessage) (item, error) {
	var head struct {
		Type string `json:"type"`
		ID   string `json:"id"`
		Role string `json:"role"`
	}
	if json.Unmarshal(raw, &head) != nil {
		return item{}, failure.Invalid(at, "An item must be an object whose type, id and role are texts.")
	}
	if head.Type == "" && head.Role != "" {
		head.Type = Message // its short form has none
	}
	switch {
	case head.Type == "":
		return item{}, failure.New(errs.Invalid, at+".type", failure.Missing, "Missing required parameter: '%s.type'.", at)
	case !known(head.Type):
		return item{Type: head.Type, ID: head.ID, raw: raw, at: at}, refuseLost(at, head.Type)
	}
	i := item{raw: raw, at: at}
	if json.Unmarshal(raw, &i) != nil {
		return item{}, failure.Invalid(at, "The members of the item of type %s do not have the types that the vendor's have.", head.Type)
	}
	i.Type = head.Type
	return i, i.check()
}

// refuseLost refuses what the model would have to see, and this server cannot show it.
// Of what else is not known nothing is told to the model.
func refuseLost(at, kind string) error {
	switch kind {
	case "custom_tool_call", "custom_tool_call_output", "compaction", "computer_call_output", "additional_tools", "tool_search_output":
		return failure.New(errs.Invalid, at+".type", failure.UnsupportedValue, "This server cannot show items of type %s to a model.", kind)
	}
	return nil
}

func (i item) check() error {
	lacks := func(name string) error {
		return failure.New(errs.Invalid, i.at+"."+name, failure.Missing, "Missing required parameter: '%s.%s'.", i.at, name)
	}
	switch i.Type {
	case FunctionCall, FunctionOutput, Program, ProgramOutput:
		if i.CallID == "" {
			return lacks("call_id")
		}
	case ApprovalAnswer:
		if i.Request == "" {
			return lacks("approval_request_id")
		}
		if i.Approve == nil {
			return lacks("approve")
		}
	case Message:
		if len(i.Content) == 0 || string(i.Content) == "null" {
			return lacks("content")
		}
	}
	if i.Type == FunctionOutput && len(i.Output) == 0 {
		return lacks("output")
	}
	return nil
}

// maxItems is how many items a conversation may have.
const maxItems = 20_000

// readAll reads items. name says where they are.
func readAll(name string, list []json.RawMessage) ([]item, error) {
	if len(list) > maxItems {
		return nil, failure.Invalid(name, "A conversation may have %d items; this one has %d.", maxItems, len(list))
	}
	items := make([]item, len(list))
	for i, raw := range list {
		var err error
		if items[i], err = read(fmt.Sprintf("%s[%d]", name, i), raw); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// Refers is the id that a reference to a stored item has.
func Refers(raw json.RawMessage) (id string, ok bool) {
	var head struct {
		Type    string          `json:"type"`
		ID      string          `json:"id"`
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(raw, &head) != nil || head.Type != Reference && (head.Type != "" || head.Role != "") {
		return "", false
	}
	return head.ID, head.ID != ""
}

// Waits reports whether a program of a conversation has no output yet.
func Waits(items []json.RawMessage) bool {
	open := map[string]bool{}
	for _, raw := range items {
		var head struct {
			Type   string `json:"type"`
			CallID string `json:"call_id"`
		}
		if json.Unmarshal(raw, &head) != nil {
			continue
		}
		switch head.Type {
		case Program:
			open[head.CallID] = true
		case ProgramOutput:
			delete(open, head.CallID)
		}
	}
	return len(open) > 0
}
