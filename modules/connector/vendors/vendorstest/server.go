// Package vendorstest is stand-ins for the vendors whose clients are in this server:
// each speaks the wire format of its vendor's API and keeps what it was asked.
package vendorstest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Token is the credential that every vendor takes.
const Token = "vendor-test-token-1"

// Server is one stand-in.
type Server struct {
	*httptest.Server
	mu       sync.Mutex
	requests []Request
	fail     func(w http.ResponseWriter, r *http.Request) bool
}

// Request is what a stand-in was asked.
type Request struct {
	Method, Path string
	Header       http.Header
}

// start runs a vendor until the test ends. refuse is its answer to a request
// without the credential.
func start(t testing.TB, vendor http.Handler, refuse func(w http.ResponseWriter)) *Server {
	t.Helper()
	s := &Server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, Request{r.Method, r.URL.Path, r.Header.Clone()})
		fail := s.fail
		s.mu.Unlock()
		switch {
		case fail != nil && fail(w, r):
		case r.Header.Get("Authorization") != "Bearer "+Token:
			refuse(w)
		default:
			vendor.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// Fail lets a test answer some requests itself; nil ends that.
func (s *Server) Fail(with func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = with
}

// Requests returns what was asked with a method and a path that begin so.
func (s *Server) Requests(method, path string) (found []Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if r.Method == method && strings.HasPrefix(r.Path, path) {
			found = append(found, r)
		}
	}
	return found
}

type object = map[string]any

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that went away
}

// read decodes a request's body.
func read(r *http.Request) object {
	var body object
	if json.NewDecoder(r.Body).Decode(&body) != nil {
		return nil
	}
	return body
}
