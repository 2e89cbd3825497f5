package scripted

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"
)

// ModelPrefix begins the name of the model in every answer.
const ModelPrefix = "scripted:"

func (responses) answer(s *Server, w http.ResponseWriter, req request, n int, t Turn) error {
	items := make([]map[string]any, 0, len(t.Output))
	size := 0
	for i, o := range t.Output {
		it, err := o.item(n, i)
		if err != nil {
			return err
		}
		text, err := json.Marshal(it)
		if err != nil {
			return err
		}
		size += len(text)
		items = append(items, it)
	}
	usage := usageOf(req, t, size)
	response := s.response(n, items)
	response["usage"] = map[string]any{
		"input_tokens": usage.Input, "output_tokens": usage.Output, "total_tokens": usage.Input + usage.Output,
		"input_tokens_details": map[string]any{"cached_tokens": usage.Cached}, "output_tokens_details": map[string]any{"reasoning_tokens": 0},
	}
	last := "response.completed"
	if t.Incomplete != "" {
		last = "response.incomplete"
		response["status"], response["incomplete_details"] = "incomplete", map[string]any{"reason": t.Incomplete}
	}
	if !req.Stream {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(response) // the client has gone
		return nil
	}
	e := open(w)
	e.send("response.created", map[string]any{"response": s.response(n, nil)})
	for i, it := range items {
		e.item(i, it, t.Output[i])
	}
	e.send(last, map[string]any{"response": response})
	return nil
}

func (responses) begin(s *Server, w http.ResponseWriter, n int) {
	e := open(w)
	e.send("response.created", map[string]any{"response": s.response(n, nil)})
	e.send("response.output_text.delta", map[string]any{"item_id": "msg_broken", "output_index": 0, "content_index": 0, "delta": "This answer"})
}

func (s *Server) response(n int, items []map[string]any) map[string]any {
	status := "completed"
	if items == nil {
		status, items = "in_progress", []map[string]any{}
	}
	return map[string]any{
		"id": fmt.Sprintf("resp_scripted_%d", n), "object": "response", "created_at": time.Now().Unix(), "status": status,
		"error": nil, "incomplete_details": nil, "model": ModelPrefix + s.script.Name, "output": items,
		"parallel_tool_calls": true, "tool_choice": "auto", "tools": []any{},
	}
}

// item writes an output as the service does, with an id that holds its turn.
func (o Output) item(turn, n int) (map[string]any, error) {
	id := func(prefix string) string { return fmt.Sprintf("%s_scripted_%d_%d", prefix, turn, n) }
	switch {
	case o.Call != nil:
		arguments, err := o.Call.arguments()
		return map[string]any{
			"type": "function_call", "id": id("fc"), "call_id": id("call"), "name": o.Call.Name, "arguments": arguments, "status": "completed",
		}, err
	case o.Reasoning != "":
		return map[string]any{
			"type": "reasoning", "id": id("rs"), "encrypted_content": "scripted",
			"summary": []any{map[string]any{"type": "summary_text", "text": o.Reasoning}},
		}, nil
	case o.Item != nil:
		it := map[string]any{"id": id("item")}
		maps.Copy(it, o.Item)
		return it, nil
	}
	part := map[string]any{"type": "output_text", "text": o.Text, "annotations": []any{}}
	if o.Refusal != "" {
		part = map[string]any{"type": "refusal", "refusal": o.Refusal}
	}
	return map[string]any{"type": "message", "id": id("msg"), "role": "assistant", "status": "completed", "content": []any{part}}, nil
}

// events writes server-sent events.
type events struct {
	w   http.ResponseWriter
	seq int
}

func open(w http.ResponseWriter) *events {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	return &events{w: w}
}

func (e *events) send(kind string, payload map[string]any) {
	payload["type"], payload["sequence_number"] = kind, e.seq
	e.seq++
	text, err := json.Marshal(payload)
	if err != nil {
		return // everything in it came from a script that was read
	}
	fmt.Fprintf(e.w, "event: %s\ndata: %s\n\n", kind, text)
	_ = http.NewResponseController(e.w).Flush() // the client has gone
}

// item sends one item with its pieces.
func (e *events) item(n int, it map[string]any, o Output) {
	e.send("response.output_item.added", map[string]any{"output_index": n, "item": it})
	piece := func(kind, text string) {
		e.send(kind, map[string]any{"item_id": it["id"], "output_index": n, "content_index": 0, "summary_index": 0, "delta": text})
	}
	switch {
	case o.Text != "":
		for _, text := range strings.SplitAfter(o.Text, " ") {
			piece("response.output_text.delta", text)
		}
	case o.Reasoning != "":
		piece("response.reasoning_summary_text.delta", o.Reasoning)
	case o.Call != nil:
		for _, text := range strings.SplitAfter(fmt.Sprint(it["arguments"]), " ") {
			piece("response.function_call_arguments.delta", text)
		}
	}
	e.send("response.output_item.done", map[string]any{"output_index": n, "item": it})
}
