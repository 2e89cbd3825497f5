// Package composiotest is a stand-in for the Composio service: it speaks the
// wire format of the API, version 3, and keeps what it was asked.
package composiotest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Key is the API key that the stand-in takes.
const Key = "ak_composio_test_key"

// Server is the stand-in. Its fields may be changed before the first request.
type Server struct {
	*httptest.Server
	// Redirect is what a link answers instead of its address; nil for the address.
	Redirect *string
	// Tools are those of every toolkit.
	Tools []map[string]any
	// PageSize is the most tools of a page.
	PageSize int
	// Run is what executing a tool comes to.
	Run func(slug string, arguments map[string]any) (data map[string]any, failure string)

	mu       sync.Mutex
	accounts []account
	configs  []map[string]any
	files    map[string][]byte
	requests []string
	links    int
	fail     func(w http.ResponseWriter, r *http.Request) bool
}

type account struct{ id, user, toolkit, status, config, key string }

// Start runs the stand-in until the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{Tools: tools(), PageSize: 2, Run: run, files: map[string][]byte{}}
	mux := http.NewServeMux()
	for _, version := range []string{"/api/v3", "/api/v3.1"} {
		mux.HandleFunc("GET "+version+"/tools", s.listTools)
		mux.HandleFunc("GET "+version+"/tools/{slug}", s.tool)
		mux.HandleFunc("POST "+version+"/tools/execute/{slug}", s.execute)
		mux.HandleFunc("GET "+version+"/connected_accounts", s.listAccounts)
		mux.HandleFunc("POST "+version+"/connected_accounts", s.connect)
		mux.HandleFunc("POST "+version+"/connected_accounts/link", s.link)
		mux.HandleFunc("GET "+version+"/connected_accounts/{id}", s.account)
		mux.HandleFunc("DELETE "+version+"/connected_accounts/{id}", s.disconnect)
		mux.HandleFunc("GET "+version+"/auth_configs", s.listConfigs)
		mux.HandleFunc("POST "+version+"/auth_configs", s.makeConfig)
		mux.HandleFunc("POST "+version+"/files/upload/request", s.requestUpload)
	}
	mux.HandleFunc("PUT /storage/{key}", s.put)
	mux.HandleFunc("GET /storage/{key}", s.get)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Method+" "+r.URL.Path)
		fail := s.fail
		s.mu.Unlock()
		if fail != nil && fail(w, r) {
			return
		}
		if strings.HasPrefix(r.URL.Path, "/api/") && r.Header.Get("X-Api-Key") != Key {
			refuse(w, http.StatusUnauthorized, 10401, "Invalid API key", "Check the key.")
			return
		}
		mux.ServeHTTP(w, r)
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

// Requests counts the requests whose method and path begin so.
func (s *Server) Requests(prefix string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
}

// Agree is a user who connects an account at a service.
func (s *Server) Agree(user, toolkit string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := fmt.Sprintf("ca_%s_%d", toolkit, len(s.accounts)+1)
	s.accounts = append(s.accounts, account{id: id, user: user, toolkit: toolkit, status: "ACTIVE"})
	return id
}

// Accounts counts the accounts of a user that are active.
func (s *Server) Accounts(user string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.accounts {
		if a.user == user && a.status == "ACTIVE" {
			n++
		}
	}
	return n
}

// Store keeps a file at the service and returns its address.
func (s *Server) Store(key string, content []byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[key] = content
	return s.URL + "/storage/" + key
}

// File is a file that was stored at the service.
func (s *Server) File(key string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[key]
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that went away
}

func refuse(w http.ResponseWriter, status, code int, message, fix string) {
	answer(w, status, map[string]any{"error": map[string]any{
		"message": message, "code": code, "slug": "Error", "status": status, "request_id": "req_test_1", "suggested_fix": fix,
	}})
}
