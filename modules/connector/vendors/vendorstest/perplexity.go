package vendorstest

import (
	"fmt"
	"net/http"
	"testing"
)

// Perplexity starts a stand-in for Perplexity. An answer costs 0.0125 dollars.
func Perplexity(t testing.TB) *Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /chat/completions", func(w http.ResponseWriter, r *http.Request) {
		body := read(r)
		messages, _ := body["messages"].([]any)
		if len(messages) == 0 {
			perplexityError(w, http.StatusBadRequest, "invalid_message", "messages: at least one")
			return
		}
		last, _ := messages[len(messages)-1].(object)
		answer(w, http.StatusOK, object{
			"id": "chat-1", "model": body["model"], "created": 1764000000, "object": "chat.completion",
			"choices": []object{{"index": 0, "finish_reason": "stop", "message": object{"role": "assistant", "content": fmt.Sprintf("About %v: it is so [1].", last["content"])}, "delta": object{"role": "assistant", "content": ""}}},
			"usage": object{
				"prompt_tokens": 12, "completion_tokens": 34, "total_tokens": 46, "search_context_size": "low",
				"cost": object{"input_tokens_cost": 0.0025, "output_tokens_cost": 0.005, "request_cost": 0.005, "total_cost": 0.0125},
			},
			"citations":      []string{"https://example.com/a"},
			"search_results": []object{{"title": "A", "url": "https://example.com/a", "date": "2026-01-02", "last_updated": "2026-01-03", "snippet": "It is so.", "source": "web"}},
		})
	})
	mux.HandleFunc("POST /search", func(w http.ResponseWriter, r *http.Request) {
		body := read(r)
		queries, ok := body["query"].([]any)
		if one, isText := body["query"].(string); isText {
			queries, ok = []any{one}, true
		}
		if !ok || len(queries) == 0 || len(queries) > 5 {
			perplexityError(w, http.StatusBadRequest, "invalid_query", "query: 1 to 5")
			return
		}
		results := []object{}
		for _, q := range queries {
			results = append(results, object{"title": fmt.Sprint("On ", q), "url": "https://example.com/" + fmt.Sprint(q), "snippet": "…", "date": "2026-01-02", "last_updated": "2026-01-03"})
		}
		answer(w, http.StatusOK, object{"id": "search-1", "results": results, "server_time": "2026-01-04T00:00:00Z"})
	})
	return start(t, mux, func(w http.ResponseWriter) {
		perplexityError(w, http.StatusUnauthorized, "unauthorized", "Invalid API key provided")
	})
}

func perplexityError(w http.ResponseWriter, status int, kind, message string) {
	answer(w, status, object{"error": object{"message": message, "type": kind, "code": status}})
}
