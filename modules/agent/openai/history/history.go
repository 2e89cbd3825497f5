package history

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/agent/openai/failure"
	"github.com/portico-run/portico/modules/agent/openai/offer"
	"github.com/portico-run/portico/modules/model"
)

// In is a conversation as a request has it.
type In struct {
	User actor.Actor
	// Before are the items that the server kept, Input those of the request.
	Before, Input []json.RawMessage
	Offer         offer.Offer
	Seals         Seals
	// Native says that the model's provider speaks the Responses API: its own reasoning
	// goes back to it as it is.
	Native bool
}

// Conversation is what a conversation comes to.
type Conversation struct {
	Items []model.Item
	// Continue goes on with what waits; nil where nothing does.
	Continue *dialogue.Continue
	// Silent is the program that waits, where the client answers nothing of it.
	Silent string
}

// Read reads a conversation.
func Read(in In) (Conversation, error) {
	before, err := readAll("previous_response_id", in.Before)
	if err != nil {
		return Conversation{}, err
	}
	input, err := readAll("input", in.Input)
	if err != nil {
		return Conversation{}, err
	}
	if err := duplicates(before, input); err != nil {
		return Conversation{}, err
	}
	r := reader{in: in, items: append(before, input...), calls: map[string]item{}, outputs: map[string]bool{}}
	if err := r.index(); err != nil {
		return Conversation{}, err
	}
	if open := r.open(); open != "" || r.decides() {
		c, err := r.continuation()
		if err != nil {
			return Conversation{}, err
		}
		if len(c.Results)+len(c.Decisions) == 0 {
			return Conversation{Silent: open}, nil
		}
		return Conversation{Continue: c}, nil
	}
	if err := r.unanswered(); err != nil {
		return Conversation{}, err
	}
	items, err := r.translate(r.items)
	return Conversation{Items: items}, err
}

// duplicates refuses items that stand in the stored conversation already.
func duplicates(before, input []item) error {
	there := map[string]bool{}
	for _, i := range before {
		there[i.ID] = i.ID != ""
	}
	for _, i := range input {
		if there[i.ID] {
			return failure.Invalid("input", "Duplicate item found with id %s. Remove duplicate items from your input and try again.", i.ID)
		}
	}
	return nil
}

// reader reads one conversation.
type reader struct {
	in      In
	items   []item
	calls   map[string]item // by call_id
	outputs map[string]bool // call_ids of calls and programs that have one
}

// index finds calls, programs and outputs, and holds them against each other.
func (r *reader) index() error {
	for _, i := range r.items {
		switch i.Type {
		case Program:
			if err := r.in.Seals.check(r.in.User, i); err != nil {
				return err
			}
			r.calls[i.CallID] = i
		case FunctionCall:
			r.calls[i.CallID] = i
		case FunctionOutput, ProgramOutput:
			call, there := r.calls[i.CallID]
			if !there && i.Type == ProgramOutput {
				continue // some clients leave a program out that waited for a person only
			}
			if !there || (call.Type == Program) != (i.Type == ProgramOutput) {
				return failure.NoCall(i.CallID)
			}
			if r.outputs[i.CallID] {
				return failure.Invalid("input", "There are two outputs of the call %s.", i.CallID)
			}
			if err := r.described(call, i); err != nil {
				return err
			}
			r.outputs[i.CallID] = true
		}
	}
	return nil
}

// described holds an output to what its function declares.
func (r *reader) described(call, output item) error {
	if output.Type != FunctionOutput || !r.in.Offer.Outside(offer.Inside(call.Namespace, call.Name)).Described {
		return nil
	}
	var text string
	isText := json.Unmarshal(output.Output, &text) == nil // the schema does not describe lists of parts
	if isText && !json.Valid([]byte(text)) {
		return failure.Invalid("input", "Invalid output of the call %s: expected a JSON string because the function declares output_schema.", output.CallID)
	}
	return nil
}

// open is a program that has no output yet; empty for none.
func (r *reader) open() string {
	for _, i := range slices.Backward(r.items) {
		if i.Type == Program && !r.outputs[i.CallID] {
			return i.CallID
		}
	}
	return ""
}

// decides reports whether a decision about a call is among the newest items. Clients
// may send that without the program: docs/wire/openai.md#approvals.
func (r *reader) decides() bool {
	for _, i := range slices.Backward(r.items) {
		if i.ours() {
			return false
		}
		if i.Type == ApprovalAnswer {
			return true
		}
	}
	return false
}

// unanswered refuses a call without an output.
func (r *reader) unanswered() error {
	for _, i := range r.items {
		if i.Type == FunctionCall && !r.outputs[i.CallID] {
			return failure.NoOutput(i.CallID)
		}
	}
	return nil
}

// continuation is what the newest items answer: those after the newest answer.
func (r *reader) continuation() (*dialogue.Continue, error) {
	if err := r.unanswered(); err != nil {
		return nil, err
	}
	newest := len(r.items)
	for newest > 0 && !r.items[newest-1].ours() {
		newest--
	}
	answer := newest
	for answer > 0 && !r.items[answer-1].theirs() {
		answer--
	}
	c := &dialogue.Continue{}
	decided := map[string]bool{}
	var more []item
	for _, i := range r.items[newest:] {
		switch i.Type {
		case FunctionOutput:
			result, err := r.result(i)
			if err != nil {
				return nil, err
			}
			c.Results = append(c.Results, result)
		case ApprovalAnswer:
			decided[i.Request] = true
			c.Decisions = append(c.Decisions, dialogue.Decision{CallID: strings.TrimPrefix(i.Request, approvalPrefix), As: i.Request, Allow: *i.Approve, Reason: i.Reason})
		default:
			more = append(more, i)
		}
	}
	for _, i := range r.items[answer:newest] {
		if i.Type == ApprovalRequest && !decided[i.ID] { // who sends nothing waits
			c.Decisions = append(c.Decisions, dialogue.Decision{CallID: strings.TrimPrefix(i.ID, approvalPrefix), As: i.ID, Elsewhere: true})
		}
	}
	var err error
	c.More, err = r.translate(more)
	return c, err
}

// result is what a call that waits returned. A status says whether that is an error in
// the program: docs/openai.md#what-differs.
func (r *reader) result(i item) (dialogue.Result, error) {
	call := r.calls[i.CallID]
	result := dialogue.Result{CallID: i.CallID, As: i.CallID}
	if call.byProgram() {
		result.CallID = strings.TrimPrefix(i.CallID, CallPrefix)
	}
	var text string
	if json.Unmarshal(i.Output, &text) != nil {
		parts, err := partsOf(i.at+".output", i.Output)
		if err != nil {
			return result, err
		}
		result.Value, result.Parts = i.Output, parts
		return r.failed(result, i, string(i.Output)), nil
	}
	result.Value, result.Text = i.Output, text
	if r.in.Offer.Outside(offer.Inside(call.Namespace, call.Name)).Described {
		result.Value = json.RawMessage(text)
	}
	return r.failed(result, i, text), nil
}

// failed makes a failure of a result whose item is incomplete.
func (*reader) failed(result dialogue.Result, i item, text string) dialogue.Result {
	if i.Status == "incomplete" {
		result.Failed, result.Error = true, text
	}
	return result
}
