package model

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/portico-run/portico/internal/egress"
	"github.com/portico-run/portico/internal/upstream"
)

// Config says which model is asked, and where.
type Config struct {
	// BaseURL is the provider's, with its version, such as
	// https://api.openai.com/v1.
	BaseURL string
	APIKey  string
	// Headers are sent with every request.
	Headers map[string]string
	Model   string
	// MaxOutput is the most tokens of one answer; 0 leaves it to the provider.
	MaxOutput int64
	// Retries is how often a request without an answer, or a refused one, is sent
	// again: on 408, 409, 429 and 5xx, after the time that Retry-After names, of
	// at most two minutes, or a growing one.
	Retries int
	// Timeout bounds one attempt, Idle the time in which nothing of it comes; 0
	// is no bound.
	Timeout, Idle time.Duration
	// LogOutput writes the output of every response to the log, without
	// credentials, to see the habits of a new model.
	LogOutput bool
	Logger    *slog.Logger
}

// Client asks one model. It is safe for concurrent use.
type Client struct {
	config  Config
	host    string
	header  http.Header
	secrets upstream.Secrets
	api     *upstream.Caller
}

// New makes a client, which asks nothing yet.
func New(c Config) *Client {
	client := &Client{
		config: c, header: headers(c), secrets: secrets(c),
		api: upstream.New(upstream.Deps{Client: egress.NewDirect(), ResponseCap: maxRefusal}),
	}
	if address, err := url.Parse(c.BaseURL); err == nil {
		client.host = address.Host
	}
	return client
}

// brokenAnswers is how often an answer may break off before it is whole. No
// tool was called then, so that to ask again is safe.
const brokenAnswers = 2

// errBroken is an answer that broke off.
type errBroken struct{ why string }

func (e errBroken) Error() string { return e.why }

// Respond asks for the next items and passes the pieces on as they come. An
// *Error is the provider's refusal, or that no whole answer came; a context that
// ended is its own error.
func (c *Client) Respond(ctx context.Context, req Request, on func(Delta)) (Response, error) {
	for attempt := 1; ; attempt++ {
		response, err := c.respond(ctx, req, on)
		broken, ok := errors.AsType[errBroken](err)
		switch {
		case ctx.Err() != nil && err != nil:
			return response, ctx.Err()
		case !ok:
			return response, err
		case attempt > brokenAnswers:
			return Response{}, &Error{Code: "incomplete_stream", Message: "the answer broke off: " + broken.why, Attempts: attempt, lost: true}
		}
		on(Delta{Kind: Restart})
	}
}
