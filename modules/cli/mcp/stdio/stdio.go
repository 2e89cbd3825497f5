// Package stdio is an MCP server on standard input and output whose answers are those
// of a server with an address: for clients that only start processes.
package stdio

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"

	"github.com/r3labs/sse/v2"
)

// Bridge carries messages of the Model Context Protocol to a server, in both eras of
// it: nothing of theirs is changed.
type Bridge struct {
	URL, Key string
	Client   *http.Client
}

const (
	// maxMessage is the longest message, in bytes: a longer one ends the bridge.
	maxMessage = 8 << 20
	// atOnce is how many requests are under way; further ones wait.
	atOnce = 32
	// The code of errors that are the bridge's own.
	codeInternal = -32603

	// metaVersion is where requests of the newer era say which revision they are of.
	metaVersion = "io.modelcontextprotocol/protocolVersion"
)

// message is what the bridge reads of one.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string                     `json:"name"`
		URI       string                     `json:"uri"`
		RequestID json.RawMessage            `json:"requestId"`
		Meta      map[string]json.RawMessage `json:"_meta"`
	} `json:"params"`
	Result struct {
		ProtocolVersion string `json:"protocolVersion"`
	} `json:"result"`
}

// session is one life of the bridge.
type session struct {
	Bridge

	out io.Writer

	mu       sync.Mutex
	version  string // that was agreed on by initialize
	id       string // of the session at the server; empty without one
	hello    []byte // the client's initialize
	underway map[string]context.CancelFunc

	renewing sync.Mutex // held while another session is begun
}

// Serve carries messages until the input ends and what is under way is answered. All of
// it ends with the context.
func (b Bridge) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	s := &session{Bridge: b, out: out, underway: map[string]context.CancelFunc{}}
	var wg sync.WaitGroup
	defer s.end(ctx)
	defer wg.Wait()
	gate := make(chan struct{}, atOnce)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxMessage)
	for lines.Scan() {
		line := bytes.Clone(bytes.TrimSpace(lines.Bytes()))
		if len(line) == 0 {
			continue
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			return fmt.Errorf("a line of the input is no message of the protocol: %w", err)
		}
		if m.Method == "notifications/cancelled" { // a request ends with its connection
			s.cancel(string(m.Params.RequestID))
			continue
		}
		each, end := s.begin(ctx, m)
		if m.Method == "initialize" || m.Method == "" {
			// What comes next depends on its answer, or requests that are under way
			// wait for what it answers.
			s.carry(each, m, line)
			end()
			continue
		}
		select {
		case gate <- struct{}{}:
		case <-ctx.Done():
			end()
			return ctx.Err()
		}
		wg.Go(func() {
			defer func() { <-gate }()
			defer end()
			s.carry(each, m, line)
		})
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("a message has more than %d bytes", maxMessage)
	}
	return lines.Err()
}

// begin lets a request be ended by its id.
func (s *session) begin(ctx context.Context, m message) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	id := string(m.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	request := id != "" && m.Method != "" // the ids of answers are the server's
	if request {
		s.underway[id] = cancel
	}
	return ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if request {
			delete(s.underway, id)
		}
		cancel()
	}
}

func (s *session) cancel(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if end, ok := s.underway[id]; ok {
		end()
	}
}

// carry sends a message and writes what is answered. Whoever sent a request is always
// answered, unless it was cancelled.
func (s *session) carry(ctx context.Context, m message, line []byte) {
	err := s.exchange(ctx, m, line)
	if err == nil || ctx.Err() != nil || len(m.ID) == 0 || m.Method == "" {
		return
	}
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": map[string]any{"code": codeInternal, "message": err.Error()}})
	if err == nil {
		s.write(text)
	}
}

func (s *session) exchange(ctx context.Context, m message, line []byte) error {
	resp, err := s.post(ctx, m, line)
	if err != nil {
		return err
	}
	if lost := resp.Request.Header.Get(sessionHeader); resp.StatusCode == http.StatusNotFound && lost != "" && m.Method != "" {
		_ = resp.Body.Close() // it says that there is no such session
		if err := s.renew(ctx, lost); err != nil {
			return err
		}
		if resp, err = s.post(ctx, m, line); err != nil {
			return err
		}
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	if m.Method == "initialize" {
		s.mu.Lock()
		s.id, s.hello = resp.Header.Get(sessionHeader), line
		s.mu.Unlock()
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind == "text/event-stream" {
		return s.stream(m, resp.Body)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxMessage+1))
	switch {
	case err != nil:
		return err
	case len(text) > maxMessage:
		return fmt.Errorf("the answer has more than %d bytes", maxMessage)
	case isMessage(text):
		s.answer(m, text)
		return nil
	case resp.StatusCode == http.StatusAccepted:
		return nil
	}
	return fmt.Errorf("%s answered %s: %s", s.URL, resp.Status, reason(text))
}

// header is that of a request: in the newer era, it says again what the body says.
func (s *session) header(m message) http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "X-Api-Key": {s.Key}}
	s.mu.Lock()
	version, id := s.version, s.id
	s.mu.Unlock()
	if id != "" && m.Method != "initialize" {
		h.Set(sessionHeader, id)
	}
	if own, ok := m.Params.Meta[metaVersion]; ok {
		_ = json.Unmarshal(own, &version) // the server says what is wrong with it
		h.Set("Mcp-Method", m.Method)
		switch m.Method {
		case "tools/call", "prompts/get":
			h.Set("Mcp-Name", encoded(m.Params.Name))
		case "resources/read":
			h.Set("Mcp-Name", encoded(m.Params.URI))
		}
	}
	if version != "" && m.Method != "initialize" {
		h.Set("Mcp-Protocol-Version", version)
	}
	return h
}

// encoded is a name as a header holds it.
func encoded(name string) string {
	plain := strings.TrimSpace(name) == name && !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' })
	if plain {
		return name
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(name)) + "?="
}

// stream writes the messages of an event stream as they come.
func (s *session) stream(m message, body io.Reader) error {
	events := sse.NewEventStreamReader(body, maxMessage)
	answered := false
	for {
		event, err := events.ReadEvent()
		if errors.Is(err, io.EOF) {
			if !answered && len(m.ID) > 0 {
				return errors.New("the connection ended before the answer")
			}
			return nil
		}
		if err != nil {
			return err
		}
		var data []byte
		for line := range bytes.Lines(event) {
			if rest, ok := bytes.CutPrefix(line, []byte("data:")); ok {
				data = append(data, bytes.TrimPrefix(rest, []byte(" "))...)
			}
		}
		if len(bytes.TrimSpace(data)) > 0 {
			answered = s.answer(m, data) || answered
		}
	}
}

// answer writes a message, and reports whether it answers the request.
func (s *session) answer(m message, text []byte) bool {
	var of message
	if json.Unmarshal(text, &of) != nil {
		return false
	}
	if m.Method == "initialize" && of.Result.ProtocolVersion != "" {
		s.mu.Lock()
		s.version = of.Result.ProtocolVersion
		s.mu.Unlock()
	}
	s.write(text)
	return of.Method == "" && bytes.Equal(of.ID, m.ID)
}

// write writes a message as one line.
func (s *session) write(text []byte) {
	var line bytes.Buffer
	if json.Compact(&line, text) != nil {
		return // isMessage and answer have read it
	}
	line.WriteByte('\n')
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.out.Write(line.Bytes()) // a client that is gone ends the input, too
}

func isMessage(text []byte) bool {
	var m struct {
		Version string `json:"jsonrpc"`
	}
	return json.Unmarshal(text, &m) == nil && m.Version != ""
}

// reason is what an answer that is no message says.
func reason(text []byte) string {
	var body struct {
		Message string `json:"errMsg"`
	}
	if json.Unmarshal(text, &body) == nil && body.Message != "" {
		return body.Message
	}
	const most = 200
	return strings.ToValidUTF8(string(text[:min(len(text), most)]), "")
}
