// Slow under the race detector: make test runs it without.
//go:build !race

package app_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// lossy stands between clients and a server. The first segment of a path names who
// asks. It counts what each of them was answered, and can lose an answer: the server
// has done its work, and the connection ends.
type lossy struct {
	url  string
	lose map[string]int // which answer of whom, from 1; refusals do not count
	// before, if set, is called before a request of somebody who was answered before.
	before func(who string)

	mu   sync.Mutex
	seen map[string]*traffic
}

// traffic is what somebody was answered.
type traffic struct {
	answered int
	refused  []int  // statuses
	lost     string // the body that did not arrive
	instead  string // the body that the next request got
}

// newLossy starts one before a server; it stops with the test.
func newLossy(t *testing.T, server string, lose map[string]int) *lossy {
	t.Helper()
	target, err := url.Parse(server)
	require.NoError(t, err)
	l := &lossy{lose: lose, seen: map[string]*traffic{}}
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1, // streams as they come
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		r.URL.Path = "/" + path
		// Whole, first: an answer that comes before the last read of a request closes it.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if l.before != nil && l.known(who) {
			l.before(who)
		}
		next := l.pass(who)
		if next == passes {
			proxy.ServeHTTP(&status{w, func(code int) { l.count(who, code) }}, r)
			return
		}
		whole := httptest.NewRecorder()
		proxy.ServeHTTP(whole, r)
		if l.keep(who, whole, next) {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", whole.Header().Get("Content-Type"))
		w.WriteHeader(whole.Code)
		_, _ = w.Write(whole.Body.Bytes()) // a client that left needs none
	}))
	t.Cleanup(web.Close)
	l.url = web.URL
	return l
}

// What happens to the next answer.
const (
	passes   = iota // it goes on as it comes
	isLost          // unless it is a refusal
	replaces        // it follows one that was lost
)

func (l *lossy) of(who string) *traffic {
	if l.seen[who] == nil {
		l.seen[who] = &traffic{}
	}
	return l.seen[who]
}

// known reports whether somebody was answered before.
func (l *lossy) known(who string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of(who).answered > 0
}

func (l *lossy) pass(who string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	tr := l.of(who)
	switch {
	case l.lose[who] == 0:
		return passes
	case tr.lost != "" && tr.instead == "":
		return replaces
	case tr.lost == "" && tr.answered+1 == l.lose[who]:
		return isLost
	}
	return passes
}

// keep notes a whole answer, and says whether it is to be lost.
func (l *lossy) keep(who string, a *httptest.ResponseRecorder, next int) bool {
	l.count(who, a.Code)
	if a.Code >= http.StatusBadRequest {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if next == replaces {
		l.of(who).instead = a.Body.String()
		return false
	}
	l.of(who).lost = a.Body.String()
	return true
}

func (l *lossy) count(who string, code int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	tr := l.of(who)
	if code < http.StatusBadRequest {
		tr.answered++
		return
	}
	tr.refused = append(tr.refused, code)
}

// status tells the status of an answer before the client knows it, and may ask again.
type status struct {
	http.ResponseWriter
	tell func(code int)
}

// WriteHeader implements http.ResponseWriter.
func (s *status) WriteHeader(code int) {
	s.tell(code)
	s.ResponseWriter.WriteHeader(code)
}

// Unwrap lets the proxy flush.
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }
