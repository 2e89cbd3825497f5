package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/portico-run/portico/internal/egress"
	"github.com/portico-run/portico/internal/redact"
	"github.com/portico-run/portico/internal/telemetry/trace"
	"github.com/portico-run/portico/internal/upstream"
)

// Config says which model is asked, and where.
type Config struct {
	Protocol Protocol
	// BaseURL is the provider's, with its version, such as
	// https://api.openai.com/v1.
	BaseURL string
	APIKey  string
	// Headers are sent with every request.
	Headers map[string]string
	Model   string
	// Strict lets the provider hold the model to the schemas of tools, as far as they
	// fit; MODEL_PROTOCOL responses always does.
	Strict bool
	// Lacks is what the provider refuses in a request.
	Lacks Lacks
	// Extra are members of every request.
	Extra map[string]json.RawMessage
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
	// Observe, if set, is told of every request: upstream.Deps.
	Observe func(result upstream.Result, took time.Duration)
}

// Lack is something that a provider refuses.
type Lack string

// What a provider may refuse, and what is done instead.
const (
	ParallelCalls Lack = "parallel_tool_calls" // is left out: the model may call several tools, of which all but one are refused where one is wanted
	SystemRole    Lack = "system"              // what the model is told comes before what the user says first
	StreamOptions Lack = "stream_options"      // is left out: usage is estimated unless the provider says it anyway
)

// Lackings are all that there are.
func Lackings() []Lack { return []Lack{ParallelCalls, SystemRole, StreamOptions} }

// Lacks are all that a provider refuses.
type Lacks []Lack

func (l Lacks) has(what Lack) bool { return slices.Contains(l, what) }

// Client asks one model. It is safe for concurrent use.
type Client struct {
	config  Config
	wire    wire
	host    string
	header  http.Header
	secrets upstream.Secrets
	api     *upstream.Caller
}

// New makes a client, which asks nothing yet.
func New(c Config) *Client {
	client := &Client{
		config: c, wire: c.Protocol.wire(), header: headers(c), secrets: secrets(c),
		api: upstream.New(upstream.Deps{Client: egress.NewDirect(), ResponseCap: maxRefusal, Observe: c.Observe}),
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
	ctx, span := trace.Start(ctx, trace.Model)
	defer span.End()
	span.Set("gen_ai.request.model", c.config.Model)
	response, err := c.ask(ctx, req, on)
	span.Count("gen_ai.usage.input_tokens", int(response.Usage.Input))
	span.Count("gen_ai.usage.output_tokens", int(response.Usage.Output))
	if err != nil {
		span.Fail("no answer")
	}
	return response, err
}

func (c *Client) ask(ctx context.Context, req Request, on func(Delta)) (Response, error) {
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

// maxAnswer is the most bytes that the events of one answer may have. Around each word
// is some hundred bytes.
const maxAnswer = 128 << 20

// respond sends the request and reads its answer to the provider's last word. An
// errBroken is an answer without one.
func (c *Client) respond(ctx context.Context, req Request, on func(Delta)) (Response, error) {
	body, err := c.wire.body(c.config, req)
	if err != nil {
		return Response{}, err
	}
	stream, err := c.open(ctx, c.wire.path(), body)
	if err != nil {
		return Response{}, err
	}
	defer stream.Close()
	reading := c.wire.read(on)
	for size := 0; ; {
		event, err := stream.Next()
		if err != nil {
			if got, whole := reading.answer(); errors.Is(err, io.EOF) && whole == nil {
				return c.answered(ctx, req, len(body), got)
			}
			return Response{}, brokenOff(stream, err)
		}
		if size += len(event.Data); size > maxAnswer {
			return Response{}, &Error{Code: "too_long", Message: fmt.Sprintf("the answer has more than %d bytes of events", maxAnswer)}
		}
		if err := c.failure(event.Data); err != nil {
			return Response{}, err
		}
		last, err := reading.take(event.Data)
		if err != nil {
			return Response{}, err
		}
		if !last {
			continue
		}
		got, err := reading.answer()
		if refused, ok := errors.AsType[*Error](err); ok {
			refused.Code, refused.Message = c.clean(refused.Code), c.clean(refused.Message)
		}
		if err != nil {
			c.logOutput(ctx, event.Data)
			return got, err
		}
		return c.answered(ctx, req, len(body), got)
	}
}

// logOutput writes what a model wrote to the log, where that is wanted.
func (c *Client) logOutput(ctx context.Context, output []byte) {
	if c.config.LogOutput {
		c.config.Logger.InfoContext(ctx, "model output", "output", string(redact.JSON(output)))
	}
}

// bytesPerToken is what a token is taken for where a provider counts none.
const bytesPerToken = 4

// answered is a whole answer. One whose provider says nothing of tokens is counted
// here: it must not be free, nor without a limit.
func (c *Client) answered(ctx context.Context, asked Request, size int, got Response) (Response, error) {
	output, err := json.Marshal(got.Output)
	if err != nil {
		return got, &Error{Code: "unreadable", Message: err.Error()}
	}
	c.logOutput(ctx, output)
	if got.Ended == "" {
		got.Ended = Finished
		if slices.ContainsFunc(got.Output, func(raw Item) bool { return Parse(raw).Refused }) {
			got.Ended = Refused
		}
	}
	got.LeftOut = c.Unsupported(asked.Options)
	if got.Usage.Total() == 0 && len(got.Output) > 0 {
		got.Usage.Input, got.Usage.Output = int64(size/bytesPerToken)+1, int64(len(output)/bytesPerToken)+1
		c.config.Logger.WarnContext(ctx, "a model provider says nothing of tokens; they are estimated", "host", c.host, "model", got.Model)
	}
	return got, nil
}

// brokenOff says why a stream ended before the answer.
func brokenOff(s *upstream.Stream, err error) errBroken {
	if !errors.Is(err, io.EOF) {
		return errBroken{reason(err)}
	}
	return errBroken{"the stream ended before the answer (Content-Type " + upstream.Limit(s.Header.Get("Content-Type"), 100) + ")"}
}

// failure is an error in the stream, or an event that is none: its members are those
// of the event, or of a member of it.
func (c *Client) failure(event []byte) error {
	if string(bytes.TrimSpace(event)) == "[DONE]" && c.config.Protocol == Chat {
		return nil
	}
	var e struct {
		Type  string          `json:"type"`
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(event, &e) != nil {
		return errBroken{"an event is not a JSON object"}
	}
	if none := len(e.Error) == 0 || string(e.Error) == "null"; e.Type != "error" && none {
		return nil
	}
	type said struct {
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"`
		Message string          `json:"message"`
	}
	var why, inner said
	_ = json.Unmarshal(event, &why)     // that it is an error is all that is sure
	_ = json.Unmarshal(e.Error, &inner) // one that is a text has no members
	if inner.Message != "" {
		why = inner
	}
	code := word(why.Code)
	if code == "" && c.config.Protocol == Messages {
		code = why.Type
	}
	return &Error{Code: c.clean(code), Message: c.clean(why.Message)}
}
