package composio

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/upstream"
)

// Tool is one action of a toolkit.
type Tool struct {
	Slug        string          `json:"slug"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Input       json.RawMessage `json:"input_parameters"`  // JSON Schema
	Output      json.RawMessage `json:"output_parameters"` // JSON Schema
	Version     string          `json:"version"`
	Deprecated  bool            `json:"is_deprecated"`
	Toolkit     struct {
		Slug string `json:"slug"`
	} `json:"toolkit"`
}

// Pages of lists.
const (
	pageSize = 500
	maxPages = 20
)

// failureLife is how long a failure to list tools is remembered.
const failureLife = 10 * time.Second

// Toolkit is the service's name for a toolset's key: docs/wire/providers.md#composio-names.
func Toolkit(key string) string {
	if service, ok := strings.CutPrefix(key, "google_"); ok {
		switch service {
		case "sheets", "docs", "drive", "calendar":
			return "google" + service
		}
	}
	return key
}

// Tools lists the tools of a toolkit. The list is kept for a while; who asks at
// once asks once.
func (c *Client) Tools(ctx context.Context, toolkit string) ([]Tool, error) {
	c.mu.Lock()
	kept, ok := c.lists[toolkit]
	c.mu.Unlock()
	if ok && c.deps.Now().Before(kept.expires) {
		return kept.tools, kept.err
	}
	// The one who asks for all must not give up for all.
	found := c.loading.DoChan(toolkit, func() (any, error) { return c.load(context.WithoutCancel(ctx), toolkit) })
	select {
	case r := <-found:
		tools, _ := r.Val.([]Tool)
		return tools, r.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *Client) load(ctx context.Context, toolkit string) ([]Tool, error) {
	query := url.Values{"toolkit_slug": {toolkit}, "limit": {strconv.Itoa(pageSize)}, "toolkit_versions": {"latest"}}
	tools, err := pages[Tool](ctx, c, "/tools", query)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := list{tools: tools, expires: c.deps.Now().Add(c.deps.CacheLife)}
	if err != nil {
		// What was listed before is better than nothing, and nobody waits for a
		// service that fails again and again.
		now = list{tools: c.lists[toolkit].tools, err: err, expires: c.deps.Now().Add(failureLife)}
		if now.tools != nil {
			now.err = nil
		}
	}
	c.lists[toolkit] = now
	return now.tools, now.err
}

// pages reads a list to its end. One without an end in sight is a failure: a part
// of it would be taken for the whole.
func pages[T any](ctx context.Context, c *Client, path string, query url.Values) ([]T, error) {
	var all []T
	for range maxPages {
		var page struct {
			Items []T    `json:"items"`
			Next  string `json:"next_cursor"`
		}
		if err := c.call(ctx, ask{method: http.MethodGet, path: path, query: query}, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Next == "" {
			return all, nil
		}
		query.Set("cursor", page.Next)
	}
	return nil, &Error{Failure: &upstream.Failure{
		Code: upstream.CodeInvalid, Message: fmt.Sprintf("Composio's list %s has more than %d pages.", path, maxPages),
	}}
}

// Execution is one call of a tool.
type Execution struct {
	Slug      string
	Version   string // of the tool; empty for the latest
	AccountID string
	UserID    string
	Arguments map[string]any
}

// Result is what came of it. A tool that failed has an Error.
type Result struct {
	Data       json.RawMessage `json:"data"`
	Error      string          `json:"error"`
	Successful bool            `json:"successful"`
	LogID      string          `json:"log_id"`
}

// Execute calls a tool once.
func (c *Client) Execute(ctx context.Context, e Execution) (Result, error) {
	body := struct {
		AccountID string         `json:"connected_account_id,omitempty"`
		UserID    string         `json:"user_id"`
		Arguments map[string]any `json:"arguments"`
		Version   string         `json:"version"`
	}{e.AccountID, e.UserID, e.Arguments, e.Version}
	if body.Version == "" {
		body.Version = "latest"
	}
	var out Result
	err := c.call(ctx, ask{method: http.MethodPost, path: "/tools/execute/" + url.PathEscape(e.Slug), body: body}, &out)
	return out, err
}
