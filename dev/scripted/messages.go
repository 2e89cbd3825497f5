package scripted

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
)

// messages is Anthropic's Messages protocol; count is its request that counts tokens.
type messages struct{ count bool }

type messagesRequest struct {
	Model     string `json:"model"`
	MaxTokens int    `json:"max_tokens"`
	Stream    bool   `json:"stream"`
	Messages  []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"input_schema"`
	} `json:"tools"`
	options
}

type messagesBlock struct {
	Type   string          `json:"type"`
	Text   string          `json:"text"`
	ID     string          `json:"id"`
	CallID string          `json:"tool_use_id"`
	Input  json.RawMessage `json:"input"`
	Within json.RawMessage `json:"content"`
	Failed *bool           `json:"is_error"`
}

func (d messages) read(raw []byte, h http.Header) (request, error) {
	var from messagesRequest
	req := request{size: len(raw)}
	if err := json.Unmarshal(raw, &from); err != nil {
		return req, unparsed(err)
	}
	switch {
	case h.Get("Anthropic-Version") == "":
		return req, refuseText("anthropic-version: header is required")
	case from.MaxTokens < 1 && !d.count:
		return req, refuseText("max_tokens: Field required")
	case len(from.Messages) == 0:
		return req, refuseText("messages: at least one message is required")
	}
	protocol := "messages"
	if d.count {
		protocol = "count"
	}
	if err := from.options.check(protocol, raw); err != nil {
		return req, err
	}
	req.Model, req.Stream = from.Model, from.Stream
	for i, t := range from.Tools {
		var schema struct{ Type string }
		if json.Unmarshal(t.Schema, &schema) != nil || schema.Type != "object" {
			return req, refuseText("tools.%d.custom.input_schema.type: Field required", i)
		}
		req.Tools = append(req.Tools, tool{Type: "function", Name: t.Name})
	}
	for i, m := range from.Messages {
		if m.Role != "user" && m.Role != "assistant" {
			return req, refuseText("messages.%d: unexpected role %q", i, m.Role)
		}
		items, err := blocksOf(i, m.Role, m.Content)
		if err != nil {
			return req, err
		}
		// Results come at once: what is open after the message that answers stays open.
		if err := (request{items: append(req.items, items...)}).calls(); m.Role == "user" && err != nil {
			return req, err
		}
		req.items = append(req.items, items...)
	}
	return req, nil
}

// blocksOf reads the content of a message.
func blocksOf(i int, role string, content json.RawMessage) (items []item, err error) {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return []item{{Type: "message", Role: role, Text: content}}, nil
	}
	var blocks []messagesBlock
	if json.Unmarshal(content, &blocks) != nil || len(blocks) == 0 {
		return nil, refuseText("messages.%d.content: is neither a text nor a list of blocks", i)
	}
	parts, err := partsOf(fmt.Sprintf("messages.%d.content", i), content)
	if err != nil {
		return nil, err
	}
	for n, b := range blocks {
		switch b.Type {
		case "text":
			if strings.TrimSpace(b.Text) == "" {
				return nil, refuseText("messages.%d.content.%d: text content blocks must contain non-whitespace text", i, n)
			}
			items = append(items, item{Type: "message", Role: role, Text: content})
		case "tool_use":
			var input map[string]any
			if !toolName.MatchString(b.ID) || json.Unmarshal(b.Input, &input) != nil {
				return nil, refuseText("messages.%d.content.%d.tool_use: id or input is not valid", i, n)
			}
			items = append(items, item{ID: b.ID, Type: "function_call", CallID: b.ID})
		case "image", "document":
			if why := parts[n].wrong(); role != "user" || why != "" {
				return nil, refuseText("messages.%d.content.%d.%s: %s", i, n, b.Type, why)
			}
			items = append(items, item{Type: "message", Role: role, Text: content})
		case "tool_result":
			if err := checkParts(fmt.Sprintf("messages.%d.content.%d.tool_result.content", i, n), b.Within, "text", "image", "document"); err != nil {
				return nil, err
			}
			items = append(items, item{Type: "function_call_output", CallID: b.CallID})
		case "thinking", "redacted_thinking":
		default:
			return nil, refuseText("messages.%d.content.%d: Input tag %q found using 'type' does not match any of the expected tags", i, n, b.Type)
		}
	}
	return items, nil
}

func (messages) refuse(w http.ResponseWriter, f Failure) {
	if f.RetryAfter != "" {
		w.Header().Set("Retry-After", f.RetryAfter)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Request-Id", "req_scripted")
	w.WriteHeader(f.Status)
	_ = json.NewEncoder(w).Encode(map[string]any{ // the client has gone
		"type": "error", "error": map[string]any{"type": f.Code, "message": f.Message}, "request_id": "req_scripted",
	})
}

// named writes an event under its name.
func named(w http.ResponseWriter, kind string, payload map[string]any) {
	w.Header().Set("Content-Type", "text/event-stream")
	payload["type"] = kind
	text, err := json.Marshal(payload)
	if err != nil {
		return // everything in it came from a script that was read
	}
	fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, text)
	_ = http.NewResponseController(w).Flush() // the client has gone
}

// message is an answer without its content.
func (s *Server) message(n int) map[string]any {
	return map[string]any{
		"id": fmt.Sprintf("msg_scripted_%d", n), "type": "message", "role": "assistant", "model": ModelPrefix + s.script.Name, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": map[string]any{"input_tokens": 1, "output_tokens": 1},
	}
}

func (messages) begin(s *Server, w http.ResponseWriter, n int) {
	named(w, "message_start", map[string]any{"message": s.message(n)})
	named(w, "content_block_start", map[string]any{"index": 0, "content_block": map[string]any{"type": "text", "text": ""}})
	named(w, "content_block_delta", map[string]any{"index": 0, "delta": map[string]any{"type": "text_delta", "text": "This answer"}})
}

func (d messages) answer(s *Server, w http.ResponseWriter, req request, n int, t Turn) error {
	if d.count {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"input_tokens": usageOf(req, t, 0).Input}) // the client has gone
		return nil
	}
	whole := s.message(n)
	stop := "end_turn"
	var blocks []any
	for i, o := range t.Output {
		block, err := o.block(n, i)
		if err != nil {
			return err
		}
		if block["type"] == "tool_use" {
			stop = "tool_use"
		}
		blocks = append(blocks, block)
	}
	text, err := json.Marshal(blocks)
	if err != nil {
		return err
	}
	var sequence any
	if t.Stop != "" {
		stop, sequence = "stop_sequence", t.Stop
	}
	if t.Incomplete != "" {
		stop = strings.Replace(t.Incomplete, "max_output_tokens", "max_tokens", 1)
	}
	u := usageOf(req, t, len(text))
	usage := map[string]any{"input_tokens": u.Input - u.Cached, "cache_read_input_tokens": u.Cached, "cache_creation_input_tokens": 0, "output_tokens": u.Output}
	if !req.Stream {
		whole["content"], whole["stop_reason"], whole["stop_sequence"], whole["usage"] = blocks, stop, sequence, usage
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(whole) // the client has gone
		return nil
	}
	named(w, "message_start", map[string]any{"message": whole})
	named(w, "ping", map[string]any{})
	for i, block := range blocks {
		stream(w, i, block.(map[string]any)) //nolint:forcetypeassert // it was made above
	}
	named(w, "message_delta", map[string]any{"delta": map[string]any{"stop_reason": stop, "stop_sequence": sequence}, "usage": usage})
	named(w, "message_stop", map[string]any{})
	return nil
}

// block writes an output as the service does, with an id that holds its turn.
func (o Output) block(turn, n int) (map[string]any, error) {
	switch {
	case o.Call != nil:
		arguments, err := o.Call.arguments()
		return map[string]any{"type": "tool_use", "id": fmt.Sprintf("toolu_scripted_%d_%d", turn, n), "name": o.Call.Name, "input": json.RawMessage(arguments)}, err
	case o.Reasoning != "":
		return map[string]any{"type": "thinking", "thinking": o.Reasoning, "signature": "c2NyaXB0ZWQ="}, nil
	case o.Item != nil:
		return maps.Clone(o.Item), nil
	}
	return map[string]any{"type": "text", "text": o.Text + o.Refusal}, nil
}

// stream sends a block in pieces.
func stream(w http.ResponseWriter, index int, block map[string]any) {
	start := maps.Clone(block)
	var deltas []map[string]any
	pieces := func(kind, member, text string) {
		for _, word := range strings.SplitAfter(text, " ") {
			deltas = append(deltas, map[string]any{"type": kind, member: word})
		}
	}
	switch block["type"] {
	case "text":
		start["text"] = ""
		pieces("text_delta", "text", fmt.Sprint(block["text"]))
	case "thinking":
		start["thinking"], start["signature"] = "", ""
		pieces("thinking_delta", "thinking", fmt.Sprint(block["thinking"]))
		pieces("signature_delta", "signature", fmt.Sprint(block["signature"]))
	case "tool_use":
		start["input"] = map[string]any{}
		raw, _ := block["input"].(json.RawMessage)
		deltas = append(deltas, map[string]any{"type": "input_json_delta", "partial_json": ""})
		pieces("input_json_delta", "partial_json", string(raw))
	}
	named(w, "content_block_start", map[string]any{"index": index, "content_block": start})
	for _, d := range deltas {
		named(w, "content_block_delta", map[string]any{"index": index, "delta": d})
	}
	named(w, "content_block_stop", map[string]any{"index": index})
}
