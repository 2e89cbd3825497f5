package scripted

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Server answers by a script. It is an http.Handler for any base URL.
type Server struct {
	script Script

	mu       sync.Mutex
	failed   map[string]int // refusals given, by conversation and turn
	requests []json.RawMessage
}

// New makes a server of a script.
func New(s Script) *Server { return &Server{script: s, failed: map[string]int{}} }

// kept is how many requests are remembered.
const kept = 1000

// Requests are the bodies of the requests that were answered, the newest ones
// of many.
func (s *Server) Requests() []json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// maxRequest bounds what is read.
const maxRequest = 64 << 20

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d := dialectOf(r)
	if d == nil {
		responses{}.refuse(w, Failure{Status: http.StatusNotFound, Code: "not_found", Message: "The scripted model answers POST …/responses, …/chat/completions, …/messages and …/messages/count_tokens only."})
		return
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		d.refuse(w, Failure{Status: http.StatusRequestEntityTooLarge, Message: err.Error()})
		return
	}
	req, err := d.read(raw, r.Header)
	if err == nil {
		err = req.check()
	}
	if err != nil {
		d.refuse(w, invalid(err.Error()))
		return
	}
	if d == (messages{count: true}) { // it is no turn
		_ = d.answer(s, w, req, 0, Turn{}) // it writes what was counted, and nothing else
		return
	}
	n := req.turn(s.script)
	if n >= len(s.script.Turns) {
		d.refuse(w, invalid(fmt.Sprintf("The script %q has %d turns, and this is turn %d.", s.script.Name, len(s.script.Turns), n+1)))
		return
	}
	t := s.script.Turns[n]
	if f, any := s.failure(req, n, t); any {
		if f.Status == 0 {
			if req.Stream {
				d.begin(s, w, n)
			}
			panic(http.ErrAbortHandler)
		}
		d.refuse(w, f)
		return
	}
	if problem := t.check(raw); problem != "" {
		d.refuse(w, invalid(fmt.Sprintf("The script %q: turn %d %s.", s.script.Name, n+1, problem)))
		return
	}
	if t.Delay > 0 {
		timer := time.NewTimer(t.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return
		}
	}
	s.mu.Lock()
	s.requests = append(s.requests[max(0, len(s.requests)-kept+1):], raw)
	s.mu.Unlock()
	if err := d.answer(s, w, req, n, t); err != nil {
		d.refuse(w, invalid(err.Error()))
	}
}

// dialect is a protocol that the model speaks.
type dialect interface {
	// read reads a request, and refuses what is wrong with its form.
	read(raw []byte, h http.Header) (request, error)
	refuse(w http.ResponseWriter, f Failure)
	// begin writes the beginning of an answer that breaks off.
	begin(s *Server, w http.ResponseWriter, turn int)
	// answer sends a turn, as a stream or in one piece. After an error, nothing was
	// written.
	answer(s *Server, w http.ResponseWriter, req request, turn int, t Turn) error
}

func dialectOf(r *http.Request) dialect {
	switch {
	case r.Method != http.MethodPost:
		return nil
	case strings.HasSuffix(r.URL.Path, "/responses"):
		return responses{}
	case strings.HasSuffix(r.URL.Path, "/chat/completions"):
		return chat{}
	case strings.HasSuffix(r.URL.Path, "/messages/count_tokens"):
		return messages{count: true}
	case strings.HasSuffix(r.URL.Path, "/messages"):
		return messages{}
	}
	return nil
}

// usageOf is what a turn reports.
func usageOf(req request, t Turn, size int) Usage {
	if t.Usage != nil {
		return *t.Usage
	}
	return Usage{Input: int64(req.size / 4), Output: int64(size / 4)}
}

// failure is the next refusal of a turn, or its next answer that breaks off,
// which has the status 0.
func (s *Server) failure(req request, n int, t Turn) (Failure, bool) {
	key := fmt.Sprintf("%d %s", n, req.first())
	s.mu.Lock()
	defer s.mu.Unlock()
	given := s.failed[key]
	if given >= len(t.Fail)+t.Break {
		return Failure{}, false
	}
	s.failed[key]++
	if given < len(t.Fail) {
		return t.Fail[given], true
	}
	return Failure{}, true
}

func (t Turn) check(raw []byte) string {
	// As a reader sees it, not as JSON escapes it.
	var v any
	_ = json.Unmarshal(raw, &v) // it was read before
	var texts strings.Builder
	gather(v, &texts)
	for _, want := range t.Expect {
		if !strings.Contains(texts.String(), want) {
			return fmt.Sprintf("expects %q in the request", want)
		}
	}
	for _, bad := range t.Reject {
		if strings.Contains(texts.String(), bad) {
			return fmt.Sprintf("rejects %q in the request", bad)
		}
	}
	return ""
}

// gather writes every text in a value, the names of members included.
func gather(v any, into *strings.Builder) {
	switch v := v.(type) {
	case string:
		into.WriteString(v + "\n")
	case []any:
		for _, item := range v {
			gather(item, into)
		}
	case map[string]any:
		for name, member := range v {
			into.WriteString(scalar(name, member))
			gather(member, into)
		}
	}
}

func invalid(message string) Failure {
	return Failure{Status: http.StatusBadRequest, Code: "invalid_request_error", Message: message}
}

// responses is OpenAI's Responses protocol.
type responses struct{}

// refuse answers as the service does.
func (responses) refuse(w http.ResponseWriter, f Failure) {
	if f.RetryAfter != "" {
		w.Header().Set("Retry-After", f.RetryAfter)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Request-Id", "req_scripted")
	w.WriteHeader(f.Status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{ // the client has gone
		"message": f.Message, "type": "invalid_request_error", "param": nil, "code": f.Code,
	}})
}
