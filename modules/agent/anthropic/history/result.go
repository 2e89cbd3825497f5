package history

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/portico-run/portico/modules/agent/anthropic/search"
	"github.com/portico-run/portico/modules/agent/anthropic/wire"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/codeapi/session"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/sandbox"
)

// abandoned is why a program has no output that nobody waited for.
const abandoned = sandbox.FailedCancelled

// returned is what a client's tool returned.
func (h *history) returned(ctx context.Context, b block) ([]model.Part, error) {
	if !wire.Given(b.Content) {
		return words(""), nil
	}
	blocks, err := blocksOf(b.at+".content", b.Content)
	if err != nil {
		return nil, err
	}
	parts, err := h.parts(ctx, blocks)
	if len(parts) == 0 && err == nil {
		parts = words("")
	}
	return parts, err
}

// result is the item of what the model's own call returned.
func (h *history) result(ctx context.Context, use, b block) (model.Item, error) {
	parts, err := h.returned(ctx, b)
	if err != nil {
		return nil, err
	}
	text, plain := simple(parts)
	switch {
	case plain && b.IsError:
		return model.FailedOutput(use.ID, text), nil
	case plain:
		return model.Output(use.ID, text), nil
	case b.IsError:
		return nil, wire.Invalid(b.at+".content", "a result that is an error has text only")
	}
	return model.OutputParts(use.ID, parts), nil
}

// pending reports whether programs wait for the results of calls.
func (h *history) pending(ctx context.Context, uses []block) (bool, error) {
	var own []string
	for _, u := range uses {
		if u.program() != "" {
			return true, nil
		}
		own = append(own, u.ID)
	}
	if len(own) == 0 || len(h.open) == 0 {
		return false, nil
	}
	return h.reader.Waiting.Waits(ctx, h.who, own)
}

// goOn continues programs with results.
func (h *history) goOn(ctx context.Context, uses []block, results map[string]block, rest []block) error {
	c := &dialogue.Continue{}
	for _, u := range uses {
		b := results[u.ID]
		parts, err := h.returned(ctx, b)
		if err != nil {
			return err
		}
		text, plain := simple(parts)
		id := strings.TrimPrefix(u.ID, wire.CallPrefix)
		switch {
		case u.program() == "":
			c.Results = append(c.Results, resultOf(u.ID, b, parts))
		case !plain:
			return wire.Invalid(b.at+".content", "a program takes text only")
		case u.Name == wire.ApprovalTool:
			d, err := decision(b, text)
			if err != nil {
				return err
			}
			d.CallID, d.As = id, u.ID
			c.Decisions = append(c.Decisions, d)
		default:
			c.Results = append(c.Results, resultOf(id, b, parts))
		}
	}
	var err error
	c.More, err = h.said(ctx, rest)
	h.Continue = c
	return err
}

// resultOf is what came of a call. JSON that is an object or a list becomes that in a
// program, and everything else a text.
func resultOf(id string, b block, parts []model.Part) dialogue.Result {
	text, plain := simple(parts)
	r := dialogue.Result{CallID: id, As: b.ToolUseID, Text: text, Failed: b.IsError}
	if b.IsError {
		r.Error = cmp.Or(text, "The tool failed.")
		return r
	}
	if !plain {
		r.Parts = parts
	}
	trimmed := strings.TrimSpace(text)
	if (strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[")) && json.Valid([]byte(trimmed)) {
		r.Value = json.RawMessage(trimmed)
		return r
	}
	r.Value, _ = json.Marshal(text) // texts always marshal
	return r
}

// decision reads what a person said of a call that waits. A client that failed to ask
// refuses.
func decision(b block, text string) (dialogue.Decision, error) {
	var d struct {
		Decision string `json:"decision"`
		Reason   string `json:"reason"`
	}
	if b.IsError {
		return dialogue.Decision{Reason: text}, nil
	}
	if json.Unmarshal([]byte(text), &d) != nil {
		d.Decision = strings.TrimSpace(text)
	}
	if !slices.Contains([]string{"allow", "refuse"}, d.Decision) {
		return dialogue.Decision{}, wire.Invalid(b.at+".content", `Input should be {"decision":"allow"} or {"decision":"refuse","reason":"…"}`)
	}
	return dialogue.Decision{Allow: d.Decision == "allow", Reason: d.Reason}, nil
}

// outputOf reads how a program ended, as it was shown before.
func outputOf(program string, content json.RawMessage) dialogue.Output {
	var c wire.CodeResult
	o := dialogue.Output{Program: program}
	if json.Unmarshal(content, &c) != nil {
		o.Stdout = string(wire.Compact(content))
		return o
	}
	o.Stdout, o.Stderr, o.Why = c.Stdout, c.Stderr, c.Reason
	if c.ReturnCode != nil {
		o.ExitCode = *c.ReturnCode
	}
	switch {
	case c.ErrorCode == "execution_time_exceeded":
		o.Failure = sandbox.FailedTimeout
	case c.ErrorCode != "":
		o.Failure, o.Busy = sandbox.FailedUnavailable, c.ErrorCode == "too_many_requests"
	case o.ExitCode != 0:
		o.Failure = sandbox.FailedItself
	}
	if o.Failure != "" && o.Why == "" {
		o.Why = "It failed: " + cmp.Or(c.ErrorCode, "see its errors") + "."
	}
	if c.Type == "encrypted_code_execution_result" {
		o.Stdout = "[What it printed can be read by its first server only.]"
	}
	for _, f := range c.Content {
		if f.Filename != "" {
			o.Files = append(o.Files, session.File{Name: f.Filename})
		}
	}
	return o
}

// found reads the names of tools that a search found; ok is false for what is no result
// of a search.
func found(content json.RawMessage) (names []string, ok bool) {
	var c wire.SearchResult
	if json.Unmarshal(content, &c) != nil || !strings.HasPrefix(c.Type, "tool_search_tool_") {
		return nil, false
	}
	for _, r := range c.References {
		names = append(names, r.Name)
	}
	return names, true
}

// searched is the item of a search, as the model was told of it.
func searched(id string, content json.RawMessage, names []string) model.Item {
	var c wire.SearchResult
	_ = json.Unmarshal(content, &c) // it was read
	if c.ErrorCode != "" {
		return model.FailedOutput(id, cmp.Or(c.ErrorMessage, c.ErrorCode))
	}
	return model.Output(id, search.Text(names))
}
