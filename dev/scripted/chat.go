package scripted

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// chat is OpenAI's Chat Completions protocol.
type chat struct{}

type chatRequest struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
		Calls   []struct {
			ID string `json:"id"`
		} `json:"tool_calls"`
		CallID string `json:"tool_call_id"`
	} `json:"messages"`
	Tools []struct {
		Type     string `json:"type"`
		Function tool   `json:"function"`
	} `json:"tools"`
	Options struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
	options
}

func (chat) read(raw []byte, _ http.Header) (request, error) {
	var from chatRequest
	req := request{size: len(raw)}
	if err := json.Unmarshal(raw, &from); err != nil {
		return req, unparsed(err)
	}
	if len(from.Messages) == 0 {
		return req, refuseText("Missing required parameter: 'messages'.")
	}
	req.Model, req.Stream, req.usage = from.Model, from.Stream, from.Options.Usage
	for _, t := range from.Tools {
		t.Function.Type = t.Type
		req.Tools = append(req.Tools, t.Function)
	}
	if err := from.options.check("chat", raw); err != nil {
		return req, err
	}
	for i, m := range from.Messages {
		types := []string{"text", "refusal"}
		if m.Role == "user" {
			types = []string{"text", "image_url", "file"}
		}
		where := fmt.Sprintf("messages[%d].content", i)
		if err := checkParts(where, m.Content, types...); err != nil && m.Role != "assistant" {
			return req, err
		}
		switch {
		case m.Role == "tool":
			req.items = append(req.items, item{Type: "function_call_output", CallID: m.CallID})
		case m.Role != "user" && m.Role != "system" && m.Role != "developer" && m.Role != "assistant":
			return req, refuseText("Invalid 'messages[%d].role': %q cannot stand here.", i, m.Role)
		default:
			req.items = append(req.items, item{Type: "message", Role: m.Role, Text: m.Content})
		}
		for _, c := range m.Calls {
			req.items = append(req.items, item{ID: c.ID, Type: "function_call", CallID: c.ID})
		}
	}
	return req, nil
}

func (chat) refuse(w http.ResponseWriter, f Failure) { responses{}.refuse(w, f) }

// chunk is one event of an answer.
func (s *Server) chunk(n int, delta, finish any) map[string]any {
	return map[string]any{
		"id": fmt.Sprintf("chatcmpl-scripted-%d", n), "object": "chat.completion.chunk", "created": time.Now().Unix(), "model": ModelPrefix + s.script.Name,
		"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}},
	}
}

func (chat) begin(s *Server, w http.ResponseWriter, n int) {
	data(w, s.chunk(n, map[string]any{"role": "assistant", "content": "This answer"}, nil))
}

// data writes an event without a name.
func data(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "text/event-stream")
	text, err := json.Marshal(v)
	if err != nil {
		return // everything in it came from a script that was read
	}
	fmt.Fprintf(w, "data: %s\n\n", text)
	_ = http.NewResponseController(w).Flush() // the client has gone
}

func (chat) answer(s *Server, w http.ResponseWriter, req request, n int, t Turn) error {
	message, pieces, err := chatMessage(n, t)
	if err != nil {
		return err
	}
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	finish := "stop"
	switch {
	case t.Incomplete == "max_output_tokens":
		finish = "length"
	case t.Incomplete != "":
		finish = t.Incomplete
	case message["tool_calls"] != nil:
		finish = "tool_calls"
	}
	u := usageOf(req, t, len(text))
	usage := map[string]any{
		"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details": map[string]any{"cached_tokens": u.Cached}, "completion_tokens_details": map[string]any{"reasoning_tokens": 0},
	}
	if !req.Stream {
		whole := s.chunk(n, nil, nil)
		whole["object"], whole["usage"] = "chat.completion", usage
		whole["choices"] = []any{map[string]any{"index": 0, "message": message, "finish_reason": finish}}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(whole) // the client has gone
		return nil
	}
	data(w, s.chunk(n, map[string]any{"role": "assistant", "content": ""}, nil))
	for _, delta := range pieces {
		data(w, s.chunk(n, delta, nil))
	}
	data(w, s.chunk(n, map[string]any{}, finish))
	if req.usage {
		last := s.chunk(n, nil, nil)
		last["choices"], last["usage"] = []any{}, usage
		data(w, last)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
	return nil
}

// chatMessage is a turn as one message, and the pieces that it comes in.
func chatMessage(n int, t Turn) (message map[string]any, pieces []map[string]any, err error) {
	message = map[string]any{"role": "assistant", "content": nil}
	var calls []any
	say := func(member, text string) {
		before, _ := message[member].(string)
		message[member] = before + text
		for _, word := range strings.SplitAfter(text, " ") {
			pieces = append(pieces, map[string]any{member: word})
		}
	}
	for i, o := range t.Output {
		switch {
		case o.Call != nil:
			arguments, err := o.Call.arguments()
			if err != nil {
				return nil, nil, err
			}
			id := fmt.Sprintf("call_scripted_%d_%d", n, i)
			piece := func(head map[string]any, name, text string) {
				f := map[string]any{"arguments": text}
				if name != "" {
					f["name"] = name
				}
				head["index"], head["function"] = len(calls), f
				pieces = append(pieces, map[string]any{"tool_calls": []any{head}})
			}
			piece(map[string]any{"id": id, "type": "function"}, o.Call.Name, "")
			for _, text := range strings.SplitAfter(arguments, " ") {
				piece(map[string]any{}, "", text)
			}
			calls = append(calls, map[string]any{"id": id, "type": "function", "function": map[string]any{"name": o.Call.Name, "arguments": arguments}})
		case o.Reasoning != "":
			say("reasoning_content", o.Reasoning)
		case o.Refusal != "":
			say("refusal", o.Refusal)
		case o.Item != nil: // members of the message that only some providers have
			for name, value := range o.Item {
				message[name] = value
				pieces = append(pieces, map[string]any{name: value})
			}
		default:
			say("content", o.Text)
		}
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	return message, pieces, nil
}
