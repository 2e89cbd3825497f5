package instance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"github.com/jackc/pgx/v5"

	"github.com/portico-run/portico/internal/ids"
)

// User makes a user with credits and returns a key of theirs.
func (s *Server) User(ctx context.Context, name string) (key string, err error) {
	if _, err := s.Run(ctx, "user", "create", name); err != nil {
		return "", err
	}
	if _, err := s.Run(ctx, "credit", "grant", "--user", name, "--amount", "1000000"); err != nil {
		return "", err
	}
	out, err := s.Run(ctx, "key", "create", "--user", name, "--json")
	if err != nil {
		return "", err
	}
	var made struct{ Key string }
	if err := json.Unmarshal(out, &made); err != nil {
		return "", fmt.Errorf("portico key create: %w: %s", err, out)
	}
	return made.Key, nil
}

// Caller is who calls tools: a user, and the program of a run where it is one
// that does.
type Caller struct{ Key, Run, Program string }

// Header adds what identifies the caller to a request.
func (c Caller) Header(h http.Header) {
	h.Set("X-API-Key", c.Key)
	h.Set("Content-Type", "application/json")
	if c.Program != "" {
		h.Set("X-Refly-Result-Id", c.Run)
		h.Set("X-Ptc-Call-Id", c.Program)
	}
}

// Register begins a run with a program in it that is executed elsewhere: calls
// in its name are calls in a run.
func Register(ctx context.Context, server, key string) (Caller, error) {
	body, err := json.Marshal(map[string]any{"title": "measured", "code": "pass", "toolCallId": "measured-" + ids.New("x")[2:], "ttlSeconds": 86400})
	if err != nil {
		return Caller{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server+"/v1/action/register", bytes.NewReader(body))
	if err != nil {
		return Caller{}, err
	}
	Caller{Key: key}.Header(r.Header)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return Caller{}, err
	}
	defer resp.Body.Close()
	var answer struct {
		Data struct{ ResultID, ToolCallID string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return Caller{}, err
	}
	if resp.StatusCode != http.StatusOK || answer.Data.ResultID == "" {
		return Caller{}, fmt.Errorf("register a run: %s", resp.Status)
	}
	return Caller{Key: key, Run: answer.Data.ResultID, Program: answer.Data.ToolCallID}, nil
}

// NewDatabase makes an empty database on the server that the environment names.
func NewDatabase(ctx context.Context) (address string, drop func(context.Context) error, err error) {
	server := os.Getenv("PORTICO_TEST_POSTGRES_URL")
	if server == "" {
		return "", nil, errors.New("PORTICO_TEST_POSTGRES_URL is not set: use make")
	}
	name := "measured_" + ids.New("x")[2:]
	exec := func(ctx context.Context, sql string) error {
		conn, err := pgx.Connect(ctx, server)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, sql)
		return errors.Join(err, conn.Close(ctx))
	}
	if err := exec(ctx, "CREATE DATABASE "+name); err != nil {
		return "", nil, err
	}
	u, err := url.Parse(server)
	if err != nil {
		return "", nil, err
	}
	u.Path = "/" + name
	return u.String(), func(ctx context.Context) error { return exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)") }, nil
}
