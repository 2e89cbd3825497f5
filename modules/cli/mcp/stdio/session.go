package stdio

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// sessionHeader names the session at the server. Clients of the older era that can ask
// the person in front of them have one.
const sessionHeader = "Mcp-Session-Id"

// endTime is how long the end of a session may take.
const endTime = 5 * time.Second

func (s *session) post(ctx context.Context, m message, line []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader(line))
	if err != nil {
		return nil, err
	}
	r.Header = s.header(m)
	resp, err := s.Client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("no answer from %s: %w", s.URL, err)
	}
	return resp, nil
}

// renew begins another session in the place of one that the server does not know any
// more, as after its restart. The client is not told: what it said of itself is said
// again.
func (s *session) renew(ctx context.Context, lost string) error {
	s.renewing.Lock()
	defer s.renewing.Unlock()
	s.mu.Lock()
	now, hello := s.id, s.hello
	s.mu.Unlock()
	if now != lost {
		return nil // another request has begun one
	}
	resp, err := s.post(ctx, message{Method: "initialize"}, hello)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxMessage))
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s: no other session begins", s.URL, resp.Status)
	}
	s.mu.Lock()
	s.id = resp.Header.Get(sessionHeader)
	s.mu.Unlock()
	const ready = "notifications/initialized"
	line, err := json.Marshal(map[string]string{"jsonrpc": "2.0", "method": ready})
	if err != nil {
		return err
	}
	resp, err = s.post(ctx, message{Method: ready}, line)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// end ends the session at the server, which does so by itself later where this fails.
func (s *session) end(ctx context.Context) {
	if s.id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodDelete, s.URL, nil)
	if err != nil {
		return
	}
	r.Header = s.header(message{})
	if resp, err := s.Client.Do(r); err == nil {
		_ = resp.Body.Close()
	}
}
