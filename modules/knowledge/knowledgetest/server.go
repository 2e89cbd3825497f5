// Package knowledgetest is what tests and benchmarks of the knowledge store work
// with: a stand-in for an embedding service, and a manual with questions about it.
package knowledgetest

import (
	"encoding/json"
	"hash/fnv"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"unicode"
)

// Model and Key are what Embeddings takes.
const (
	Model = "stand-in"
	Key   = "sk-stand-in"
)

// DefaultDimensions is how many numbers its vectors have, if the request does not
// say it.
const DefaultDimensions = 512

// Embeddings is a stand-in for an embedding service, in OpenAI's form. It knows
// no meaning: texts are near each other when they share stems of words, or pieces
// of words. A vector has a number for each of many hashes; the stems count fully,
// the pieces of three characters count a quarter, and words that say nothing do
// not count. The same text has the same vector everywhere.
type Embeddings struct {
	// Requests and Texts count what was asked.
	Requests, Texts atomic.Int64
	// Broken, where it is set, is the status of every answer.
	Broken atomic.Int32
}

// ServeHTTP implements http.Handler: POST /embeddings.
func (e *Embeddings) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.Requests.Add(1)
	var in struct {
		Model      string   `json:"model"`
		Input      []string `json:"input"`
		Format     string   `json:"encoding_format"`
		Dimensions int      `json:"dimensions"`
	}
	status := int(e.Broken.Load())
	switch {
	case status != 0:
	case r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/embeddings"):
		status = http.StatusNotFound
	case r.Header.Get("Authorization") != "Bearer "+Key:
		status = http.StatusUnauthorized
	case json.NewDecoder(r.Body).Decode(&in) != nil || in.Model != Model || in.Format != "float" || len(in.Input) == 0 || len(in.Input) > 2048:
		status = http.StatusBadRequest
	}
	w.Header().Set("Content-Type", "application/json")
	if status != 0 {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": http.StatusText(status) + " of " + Key, "type": "invalid_request_error"}})
		return
	}
	e.Texts.Add(int64(len(in.Input)))
	if in.Dimensions == 0 {
		in.Dimensions = DefaultDimensions
	}
	type datum struct {
		Object    string    `json:"object"`
		Index     int       `json:"index"`
		Embedding []float32 `json:"embedding"`
	}
	data := make([]datum, len(in.Input))
	for i, text := range in.Input {
		// The last one comes first: clients go by the index.
		data[len(data)-1-i] = datum{"embedding", i, Embed(text, in.Dimensions)}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "model": in.Model, "data": data, "usage": map[string]int{"prompt_tokens": 1, "total_tokens": 1}})
}

// pieceWeight is how much a piece of a word counts beside its stem.
const pieceWeight = 0.25

// Embed is the vector of a text, of length 1.
func Embed(text string, dimensions int) []float32 {
	sums := make([]float64, dimensions)
	add := func(feature string, weight float64) {
		h := fnv.New64a()
		_, _ = h.Write([]byte(feature))
		sum := h.Sum64()
		if sum>>63 == 1 {
			weight = -weight // so that features that share a number cancel as often as they add
		}
		sums[sum%uint64(dimensions)] += weight
	}
	counts := map[string]int{}
	for _, word := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if !empty[word] {
			counts[stem(word)]++
		}
	}
	for word, n := range counts {
		weight := 1 + math.Log(float64(n))
		add("w:"+word, weight)
		runes := []rune("^" + word + "$")
		for i := range max(0, len(runes)-2) {
			add("p:"+string(runes[i:i+3]), weight*pieceWeight)
		}
	}
	add("text", 0.01) // no text is without direction
	var length float64
	for _, x := range sums {
		length += x * x
	}
	v := make([]float32, dimensions)
	for i, x := range sums {
		v[i] = float32(x / math.Sqrt(length))
	}
	return v
}

// stem cuts endings of English words.
func stem(word string) string {
	for _, ending := range []string{"ations", "ation", "ingly", "ings", "ing", "edly", "ies", "ied", "ers", "er", "ed", "es", "ly", "s", "e", "y"} {
		if cut, ok := strings.CutSuffix(word, ending); ok && len(cut) > 2 {
			return cut
		}
	}
	return word
}
