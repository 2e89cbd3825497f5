package model

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/model/content"
	"github.com/portico-run/portico/modules/model/verbatim"
)

// Counted is how many tokens a request has before it is answered.
type Counted struct {
	Tokens int64
	Exact  bool // the provider counted; otherwise it is an estimate
}

// Bounds of counting, and what an image is taken for where nobody counts.
const (
	countTimeout = 20 * time.Second
	imageTokens  = 1600
)

// CountTokens says how many tokens a request has. Providers of the Messages protocol
// are asked; for others, and those that do not count, four bytes are taken for a token.
func (c *Client) CountTokens(ctx context.Context, req Request) (Counted, error) {
	body, err := c.wire.body(c.config, req)
	if err != nil {
		return Counted{}, err
	}
	if c.config.Protocol == Messages {
		tokens, err := c.askCount(ctx, body)
		if err != nil || tokens > 0 {
			return Counted{Tokens: tokens, Exact: true}, err
		}
	}
	return Counted{Tokens: int64(len(body))/bytesPerToken + 1 + images(req.Input)}, nil
}

// images is what the images of a conversation differ from their bytes.
func images(items []Item) (tokens int64) {
	for _, raw := range items {
		k := knownOf(raw)
		for _, text := range []json.RawMessage{k.Content, k.Output} {
			parts, err := content.Read(text)
			if err != nil {
				continue // it is no content, or was refused before
			}
			for _, p := range parts {
				if p.Type == content.Image {
					tokens += imageTokens - int64(len(p.URL))/bytesPerToken
				}
			}
		}
	}
	return tokens
}

// askCount asks the provider; 0 says that it does not count.
func (c *Client) askCount(ctx context.Context, body []byte) (int64, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return 0, err
	}
	countable := []string{"model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control", "speed"}
	for name := range members {
		if !slices.Contains(countable, name) {
			delete(members, name)
		}
	}
	body, err := verbatim.Encode(members)
	if err != nil {
		return 0, err
	}
	address, err := url.JoinPath(c.config.BaseURL, "messages/count_tokens")
	if err != nil {
		return 0, fmt.Errorf("the address of the model provider is not valid: %w", err)
	}
	asking, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	header := c.header.Clone()
	header.Set("Accept", "application/json")
	got, err := c.api.Do(asking, upstream.Request{
		Method: http.MethodPost, URL: address, Header: header, Body: body, Harmless: true, Retries: c.config.Retries, Patience: countTimeout,
		Again: func(got upstream.Response, err error) bool { return asking.Err() == nil && again(got, err) }, Limit: countTimeout,
	})
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case err != nil:
		return 0, &Error{Code: "no_answer", Message: reason(err), lost: true}
	case slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented}, got.Status):
		return 0, nil
	case !got.OK():
		return 0, c.refusal(&upstream.Stream{Response: got, Attempts: 1})
	}
	var counted struct {
		Tokens int64 `json:"input_tokens"`
	}
	if json.Unmarshal(got.Body, &counted) != nil || counted.Tokens < 1 {
		return 0, &Error{Code: "unreadable", Message: "it did not say how many tokens there are"}
	}
	return counted.Tokens, nil
}
