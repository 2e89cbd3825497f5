package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"github.com/portico-run/portico/internal/redact"
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
	// Retries is how often a refused request is sent again: on 408, 409, 429 and
	// 5xx, after the time that Retry-After names or a growing one.
	Retries int
	// Timeout bounds one attempt.
	Timeout time.Duration
	// LogOutput writes the output of every response to the log, without
	// credentials, to see the habits of a new model.
	LogOutput bool
	Logger    *slog.Logger
}

// Client asks one model. It is safe for concurrent use.
type Client struct {
	config Config
	api    openai.Client
}

// New makes a client, which asks nothing yet.
func New(c Config) *Client {
	options := []option.RequestOption{
		option.WithBaseURL(c.BaseURL), option.WithAPIKey(c.APIKey), option.WithMaxRetries(c.Retries), option.WithMiddleware(logged(c.Logger)),
	}
	if c.Timeout > 0 {
		options = append(options, option.WithRequestTimeout(c.Timeout))
	}
	for name, value := range c.Headers {
		options = append(options, option.WithHeader(name, value))
	}
	return &Client{config: c, api: openai.NewClient(options...)}
}

// logged writes a line for each attempt, without anything that was sent.
func logged(logger *slog.Logger) option.Middleware {
	return func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		begin := time.Now()
		answer, err := next(r)
		status := 0
		if answer != nil {
			status = answer.StatusCode
		}
		logger.InfoContext(r.Context(), "model attempt", "host", r.URL.Host, "retry", r.Header.Get("X-Stainless-Retry-Count"),
			"status", status, "duration", time.Since(begin), "error", err)
		return answer, err
	}
}

// brokenAnswers is how often an answer may break off before it is whole. No
// tool was called then, so that to ask again is safe.
const brokenAnswers = 2

// Respond asks for the next items and passes the pieces on as they come. An
// *Error is the provider's refusal; a context that ended is its own error.
func (c *Client) Respond(ctx context.Context, req Request, on func(Delta)) (Response, error) {
	var failed error
	for attempt := range brokenAnswers + 1 {
		if attempt > 0 {
			on(Delta{Kind: Restart})
		}
		response, whole, err := c.ask(ctx, req, on)
		if whole || ctx.Err() != nil {
			return response, err
		}
		failed = err
	}
	return Response{}, &Error{Code: "incomplete_stream", Message: fmt.Sprintf("the answer broke off: %v", failed), Attempts: brokenAnswers + 1}
}

// raw are the parts of a request that go as they are: the types of the SDK
// would drop what they do not know.
func raw(req Request) []option.RequestOption {
	options := []option.RequestOption{
		option.WithJSONSet("input", req.Input),
		// So that reasoning can be replayed without the provider's memory.
		option.WithJSONSet("include", []string{"reasoning.encrypted_content"}),
	}
	if len(req.Tools) > 0 {
		options = append(options, option.WithJSONSet("tools", req.Tools), option.WithJSONSet("tool_choice", req.Choice))
	}
	return options
}

// pieces passes the pieces of an answer on.
type pieces struct {
	on    func(Delta)
	calls map[string]Delta // by the id of their items
}

func (p pieces) take(event responses.ResponseStreamEventUnion) {
	switch event.Type {
	case "response.output_text.delta", "response.refusal.delta":
		p.on(Delta{Kind: Text, Text: event.Delta})
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		p.on(Delta{Kind: Reasoning, Text: event.Delta})
	case "response.output_item.added":
		p.calls[event.Item.ID] = Delta{CallID: event.Item.CallID, Name: event.Item.Name}
	case "response.function_call_arguments.delta":
		d := p.calls[event.ItemID]
		d.Kind, d.Text = Arguments, event.Delta
		p.on(d)
	}
}

// ask sends the request once. It reports whether the provider has said its
// last word.
func (c *Client) ask(ctx context.Context, req Request, on func(Delta)) (response Response, whole bool, err error) {
	body := responses.ResponseNewParams{Model: c.config.Model, Store: param.NewOpt(false), ParallelToolCalls: param.NewOpt(req.Parallel)}
	if c.config.MaxOutput > 0 {
		body.MaxOutputTokens = param.NewOpt(c.config.MaxOutput)
	}
	stream := c.api.Responses.NewStreaming(ctx, body, raw(req)...)
	defer stream.Close()
	pieces := pieces{on: on, calls: map[string]Delta{}}
	for stream.Next() {
		event := stream.Current()
		switch event.Type {
		case "response.completed", "response.incomplete", "response.failed":
			response, err := c.read(ctx, event.Response.RawJSON())
			return response, true, err
		case "error":
			return Response{}, true, &Error{Code: event.Code, Message: redact.Text(event.Message)}
		}
		pieces.take(event)
	}
	err = stream.Err()
	refusal, ok := errors.AsType[*openai.Error](err)
	switch {
	case ok:
		e := &Error{Status: refusal.StatusCode, Code: refusal.Code, Message: redact.Text(refusal.Message), Attempts: c.config.Retries + 1}
		if refusal.Response != nil {
			e.RequestID = refusal.Response.Header.Get("x-request-id")
			if !retried(refusal.StatusCode) {
				e.Attempts = 1
			}
		}
		return Response{}, true, e
	case ctx.Err() != nil:
		return Response{}, true, ctx.Err()
	case err == nil:
		err = errors.New("the stream ended before the answer")
	}
	return Response{}, false, err
}

// retried reports whether the SDK sends a request again after a status.
func retried(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusConflict || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}

func (c *Client) read(ctx context.Context, raw string) (Response, error) {
	if c.config.LogOutput {
		var output struct {
			Output json.RawMessage `json:"output"`
		}
		_ = json.Unmarshal([]byte(raw), &output) // what does not fit is seen below
		c.config.Logger.InfoContext(ctx, "model output", "output", string(redact.JSON(output.Output)))
	}
	var r Response
	if err := json.Unmarshal([]byte(raw), &r); err != nil {
		return r, &Error{Code: "unreadable", Message: err.Error()}
	}
	if r.Error != nil && r.Error.Message != "" {
		return r, &Error{Code: r.Error.Code, Message: redact.Text(r.Error.Message)}
	}
	return r, nil
}
