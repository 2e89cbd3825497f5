// Package embedding asks a service for vectors of texts, in the form of OpenAI's
// POST /embeddings, which hosted and local services speak.
package embedding

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/portico-run/portico/internal/egress"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/knowledge/vector"
)

// Config says which service is asked.
type Config struct {
	// URL is the service's with its version, such as https://api.openai.com/v1.
	URL, APIKey, Model string
	// Dimensions is how many numbers a vector has; 0 leaves it to the model.
	Dimensions int
	// Timeout bounds one attempt, Retries is how often one that was refused for a
	// while is made again.
	Timeout time.Duration
	Retries int
	// Observe, if set, is told of every request: upstream.Deps.
	Observe func(result upstream.Result, took time.Duration)
}

// Client asks one service. It is safe for concurrent use.
type Client struct {
	config  Config
	address string
	header  http.Header
	secrets upstream.Secrets
	api     *upstream.Caller
}

// Bounds of one request.
const (
	// maxTexts and maxBytes are how many texts are sent at once, and how long they
	// are together. A text longer than that goes alone.
	maxTexts = 96
	maxBytes = 256 << 10
	// maxAnswer is the largest answer in bytes: 96 vectors of 8,192 numbers.
	maxAnswer = 32 << 20
	// patience is the longest wait that a service may ask for.
	patience = time.Minute
)

// New makes a client, which asks nothing yet.
func New(c Config) (*Client, error) {
	address, err := url.JoinPath(c.URL, "embeddings")
	if err != nil {
		return nil, fmt.Errorf("the address of the embedding service is not valid: %w", err)
	}
	h := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"portico"}}
	if c.APIKey != "" {
		h.Set("Authorization", "Bearer "+c.APIKey)
	}
	return &Client{
		config: c, address: address, header: h, secrets: upstream.Hide(c.APIKey),
		api: upstream.New(upstream.Deps{
			Client: egress.NewDirect(), ResponseCap: maxAnswer, Breaker: upstream.BreakerSettings{Failures: failures, Delay: delay}, Observe: c.Observe,
		}),
	}, nil
}

// A service that gave no answer so often in a row is left alone for a while, so
// that searches do not wait for it.
const (
	failures = 5
	delay    = 15 * time.Second
)

// Model names what makes the vectors: vectors of different names do not compare.
func (c *Client) Model() string {
	if c.config.Dimensions == 0 {
		return c.config.Model
	}
	return fmt.Sprintf("%s/%d", c.config.Model, c.config.Dimensions)
}

// Embed returns the vectors of texts in their order, each of length 1.
func (c *Client) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, 0, len(texts))
	for len(texts) > 0 {
		n := fitting(texts)
		some, err := c.ask(ctx, texts[:n], c.config.Retries)
		if err != nil {
			return nil, err
		}
		vectors = append(vectors, some...)
		texts = texts[n:]
	}
	return vectors, nil
}

// EmbedQuery returns the vector of a question. Somebody waits for it, so that it
// is asked for once only.
func (c *Client) EmbedQuery(ctx context.Context, text string) ([]float32, error) {
	vectors, err := c.ask(ctx, []string{text}, 0)
	if err != nil {
		return nil, err
	}
	return vectors[0], nil
}

// fitting is how many of the texts go into one request.
func fitting(texts []string) int {
	bytes := 0
	for i, t := range texts {
		if bytes += len(t); i > 0 && bytes > maxBytes || i == maxTexts {
			return i
		}
	}
	return len(texts)
}

type request struct {
	Model      string   `json:"model"`
	Input      []string `json:"input"`
	Format     string   `json:"encoding_format"`
	Dimensions int      `json:"dimensions,omitempty"`
}

type answer struct {
	Data []struct {
		Index     int       `json:"index"`
		Embedding []float32 `json:"embedding"`
	} `json:"data"`
}

func (c *Client) ask(ctx context.Context, texts []string, retries int) ([][]float32, error) {
	body, err := json.Marshal(request{c.config.Model, texts, "float", c.config.Dimensions})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(retries+1)*c.config.Timeout)
	defer cancel()
	got, err := c.api.Do(ctx, upstream.Request{
		Method: http.MethodPost, URL: c.address, Header: c.header, Body: body, Harmless: true, Retries: retries, Patience: patience,
		Limit: c.config.Timeout, Again: func(got upstream.Response, err error) bool { return ctx.Err() == nil && again(got, err) },
	})
	if err != nil {
		return nil, fmt.Errorf("the embedding service gave no answer: %w", err)
	}
	if !got.OK() {
		return nil, fmt.Errorf("the embedding service refused: %w", got.Refusal(c.secrets))
	}
	return c.read(got.Body, len(texts))
}

func again(got upstream.Response, err error) bool {
	return err != nil || got.Status >= http.StatusInternalServerError ||
		slices.Contains([]int{http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests}, got.Status)
}

// read takes the vectors out of an answer. One that is not whole is an error.
func (c *Client) read(body []byte, texts int) ([][]float32, error) {
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, fmt.Errorf("the answer of the embedding service cannot be read: %w", err)
	}
	vectors := make([][]float32, texts)
	for _, d := range a.Data {
		if d.Index < 0 || d.Index >= texts {
			return nil, fmt.Errorf("the embedding service answered with a vector %d of %d", d.Index, texts)
		}
		if n := c.config.Dimensions; n != 0 && len(d.Embedding) != n {
			return nil, fmt.Errorf("the embedding service answered with vectors of %d numbers; EMBEDDING_DIMENSIONS says %d", len(d.Embedding), n)
		}
		unit, err := vector.Unit(d.Embedding)
		if err != nil {
			return nil, fmt.Errorf("the embedding service: %w", err)
		}
		vectors[d.Index] = unit
	}
	for _, v := range vectors {
		if v == nil || len(v) != len(vectors[0]) {
			return nil, errors.New("the embedding service did not answer with one vector for each text")
		}
	}
	return vectors, nil
}
