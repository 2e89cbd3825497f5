package model

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/egress"
	"github.com/portico-run/portico/internal/redact"
	"github.com/portico-run/portico/internal/upstream"
)

// Bounds of a request that nobody sets.
const (
	maxRefusal = 1 << 20
	// patience is the longest wait that a provider may ask for.
	patience = 2 * time.Minute
	// messagesVersion is that of the Messages protocol.
	messagesVersion = "2023-06-01"
)

// open sends a request to a path of the provider's and returns the stream of its
// answer. An *Error is a refusal, or that no answer came.
func (c *Client) open(ctx context.Context, path string, body []byte) (*upstream.Stream, error) {
	address, err := url.JoinPath(c.config.BaseURL, path)
	if err != nil {
		return nil, fmt.Errorf("the address of the model provider is not valid: %w", err)
	}
	stream, err := c.api.Stream(ctx, upstream.StreamRequest{
		Request: upstream.Request{
			Method: http.MethodPost, URL: address, Header: c.header, Body: body,
			Retries: c.config.Retries, Patience: patience, Again: func(got upstream.Response, err error) bool { return ctx.Err() == nil && again(got, err) },
		},
		Timeout: c.config.Timeout, Idle: c.config.Idle,
		Attempted: func(a upstream.Attempt) { c.log(ctx, a) },
	})
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case err != nil:
		err = &Error{Code: "no_answer", Message: reason(err), Attempts: stream.Attempts, lost: true}
	case !stream.OK():
		err = c.refusal(stream)
	}
	if err != nil {
		stream.Close()
		return nil, err
	}
	return stream, nil
}

// again reports whether a request is sent once more: where there was no answer,
// and on the statuses for which providers ask for it. One that knows better
// says so in a header.
func again(got upstream.Response, err error) bool {
	if err != nil {
		return !slices.Contains([]egress.Kind{egress.TLS, egress.Invalid}, egress.KindOf(err))
	}
	switch got.Header.Get("X-Should-Retry") {
	case "true":
		return true
	case "false":
		return false
	}
	return got.Status >= http.StatusInternalServerError ||
		slices.Contains([]int{http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests}, got.Status)
}

// log writes a line for each attempt, without anything that was sent.
func (c *Client) log(ctx context.Context, a upstream.Attempt) {
	c.config.Logger.InfoContext(ctx, "model attempt", "host", c.host, "retry", a.Number, "status", a.Status, "duration", a.Took, "error", a.Err)
}

// refusal reads an answer that is not a success.
func (c *Client) refusal(s *upstream.Stream) *Error {
	var body struct {
		Error struct {
			Type string          `json:"type"`
			Code json.RawMessage `json:"code"`
		} `json:"error"`
	}
	_ = json.Unmarshal(s.Body, &body) // some providers, and every proxy, answer something else
	message := upstream.Reason(s.Body)
	if message == "" {
		message = upstream.Limit(upstream.Quote(s.Body), upstream.MaxReason)
	}
	message = c.clean(message)
	code := word(body.Error.Code)
	if code == "" && c.config.Protocol == Messages {
		code = body.Error.Type
	}
	if later := s.TryAgain(); later != "" {
		message = strings.TrimSuffix(message, ".") + "." + later
	}
	return &Error{
		Status: s.Status, Code: c.clean(code), Message: message,
		RequestID: cmp.Or(s.Header.Get("X-Request-Id"), s.Header.Get("Request-Id")), Attempts: s.Attempts,
	}
}

// word is a text, or a number as it is written; other values say nothing.
func word(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var number json.Number
	_ = json.Unmarshal(raw, &number)
	return number.String()
}

// clean takes what was sent as credentials out of a provider's words, and what
// looks like some.
func (c *Client) clean(text string) string {
	return redact.Text(string(c.secrets.Redact([]byte(text))))
}

// reason is why there is no answer, in words that name no address.
func reason(err error) string {
	if failure, ok := errors.AsType[*upstream.Failure](err); ok {
		return failure.Message
	}
	return err.Error()
}

// headers are those of every request. Those of the configuration come last, so
// that a provider may be given its key in another way.
func headers(c Config) http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}, "User-Agent": {"portico"}}
	if c.Protocol == Messages {
		h.Set("Anthropic-Version", messagesVersion)
	}
	switch {
	case c.APIKey == "":
	case c.Protocol == Messages:
		h.Set("X-Api-Key", c.APIKey)
	default:
		h.Set("Authorization", "Bearer "+c.APIKey)
	}
	for name, value := range c.Headers {
		h.Set(name, value)
	}
	return h
}

// secrets are what must not come back.
func secrets(c Config) upstream.Secrets {
	texts := []string{c.APIKey}
	for _, value := range c.Headers {
		texts = append(texts, value, strings.TrimPrefix(value, "Bearer "))
	}
	return upstream.Hide(texts...)
}
