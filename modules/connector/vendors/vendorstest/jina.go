package vendorstest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Jina starts a stand-in for Jina: the reader is below /reader, the search below
// /search. A page of example.com/long has 30,000 words, one of example.com/poor
// cannot be paid for.
func Jina(t testing.TB) *Server {
	t.Helper()
	page := func(target, format string) object {
		content := "# Example\n\nText of " + target
		if strings.HasSuffix(target, "/long") {
			content = strings.Repeat("word ", 30_000)
		}
		p := object{"title": "Example", "description": "", "url": target, "content": content, "usage": object{"tokens": len(content) / 4}}
		if format == "screenshot" || format == "pageshot" {
			p[format+"Url"] = "https://storage.example.com/shot.png"
			delete(p, "content")
		}
		return p
	}
	read1 := func(w http.ResponseWriter, r *http.Request, target string) {
		if strings.HasSuffix(target, "/poor") {
			answer(w, http.StatusPaymentRequired, object{
				"data": nil, "code": 402, "name": "InsufficientBalanceError", "status": 40203, "message": "Account balance not enough", "readableMessage": "InsufficientBalanceError: Account balance not enough to run this query",
			})
			return
		}
		p := page(target, r.Header.Get("X-Return-Format"))
		answer(w, http.StatusOK, object{"code": 200, "status": 20000, "data": p, "meta": object{"usage": p["usage"]}})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /reader/{$}", func(w http.ResponseWriter, r *http.Request) {
		target, _ := read(r)["url"].(string)
		read1(w, r, target)
	})
	mux.HandleFunc("POST /search/{$}", func(w http.ResponseWriter, r *http.Request) {
		body := read(r)
		q, _ := body["q"].(string)
		if q == "" {
			answer(w, http.StatusUnprocessableEntity, object{"data": nil, "code": 422, "name": "ParamValidationError", "status": 40001, "message": "q: is required", "readableMessage": "ParamValidationError(q): is required"})
			return
		}
		results := []object{}
		for i := range 3 {
			p := object{"title": fmt.Sprintf("%s %d", q, i), "url": fmt.Sprintf("https://example.com/%d", i), "description": "D", "usage": object{"tokens": 1000}}
			if r.Header.Get("X-Respond-With") != "no-content" {
				p["content"] = strings.Repeat("word ", 8000*(i+1))
			}
			results = append(results, p)
		}
		answer(w, http.StatusOK, object{"code": 200, "status": 20000, "data": results, "meta": object{"usage": object{"tokens": 3000}}})
	})
	vendor := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The address of the page is the rest of the path, as it came.
		if target, ok := strings.CutPrefix(r.RequestURI, "/reader/http"); ok && r.Method == http.MethodGet {
			read1(w, r, "http"+target)
			return
		}
		mux.ServeHTTP(w, r)
	})
	return start(t, vendor, func(w http.ResponseWriter) {
		answer(w, http.StatusUnauthorized, object{
			"data": nil, "code": 401, "name": "AuthenticationFailedError", "status": 40102, "message": "Invalid API key, please get a new one from https://jina.ai",
			"readableMessage": "AuthenticationFailedError: Invalid API key, please get a new one from https://jina.ai",
		})
	})
}
