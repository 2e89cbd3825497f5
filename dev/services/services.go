// Package services are made-up services that models are tried with: orders,
// customers, invoices, stock, tickets, temperatures and rates. One HTTP server
// answers for all of them. Their data never changes; what somebody writes is in a
// world of its own, which the credential of a call names.
package services

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// State is what happened in a world.
type State struct {
	// Writes are what was changed, in order, as "cancel O-1001".
	Writes []string
	// Locked is how many calls were refused because rates were locked.
	Locked int
}

// Services are the services. It is an http.Handler.
type Services struct {
	data Data
	mux  *http.ServeMux

	mu     sync.Mutex
	worlds map[string]*State
}

// New returns services without worlds.
func New() *Services {
	s := &Services{data: Read(), mux: http.NewServeMux(), worlds: map[string]*State{}}
	s.routes()
	return s
}

// Reset makes a world in which nothing has happened.
func (s *Services) Reset(world string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.worlds[world] = &State{}
}

// State is what happened in a world so far.
func (s *Services) State(world string) State {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.worlds[world]
	if w == nil {
		return State{}
	}
	return State{Writes: slices.Clone(w.Writes), Locked: w.Locked}
}

// maxBody bounds a request.
const maxBody = 1 << 16

// ServeHTTP implements http.Handler.
func (s *Services) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	_, known := s.worlds[worldOf(r)]
	s.mu.Unlock()
	if !known {
		answer(w, http.StatusUnauthorized, problem("the credential names no world"))
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	s.mux.ServeHTTP(w, r)
}

// worldOf is the world that a call belongs to: its credential.
func worldOf(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

// in does something in the world of a request.
func (s *Services) in(r *http.Request, do func(w *State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do(s.worlds[worldOf(r)])
}

// write records a change.
func (s *Services) write(r *http.Request, what string) {
	s.in(r, func(w *State) { w.Writes = append(w.Writes, what) })
}

// wrote reports whether a change was made that begins so.
func (s *Services) wrote(r *http.Request, prefix string) (any bool) {
	s.in(r, func(w *State) {
		any = slices.ContainsFunc(w.Writes, func(what string) bool { return strings.HasPrefix(what, prefix) })
	})
	return any
}

func problem(format string, args ...any) map[string]string {
	return map[string]string{"message": fmt.Sprintf(format, args...)}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that is gone
}

//go:embed toolsets/*.yaml
var toolsets embed.FS

// Keys are those of the toolsets, one for each service.
func Keys() []string {
	return []string{"customers", "invoices", "orders", "rates", "stock", "tickets", "weather"}
}

// Toolsets are the toolset files by their names, for services that answer on a URL.
func Toolsets(url string) (map[string][]byte, error) {
	files := map[string][]byte{}
	var failed error
	for _, key := range Keys() {
		text, err := toolsets.ReadFile("toolsets/" + key + ".yaml")
		failed = errors.Join(failed, err)
		files[key+".yaml"] = []byte(common(key, url) + string(text))
	}
	return files, failed
}

// common is what the files of all services begin with.
func common(key, url string) string {
	return fmt.Sprintf(`key: %s
domain: %s
global: false
authType: credentials
authPatterns: [{type: credentials, credentialItems: [{key: apiKey, inputMode: text, required: true}]}]
credential: {type: bearer, value: nobody}
egress: {allow: [127.0.0.0/8, "::1/128"]}
billing: 0
`, key, url)
}
