package definition

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

const (
	exportPath = "/v1/tool/toolset/exportDefinitions"
	// maxExport bounds an answer of the API, in bytes. A thousand large tools
	// are a few megabytes; more is not an export.
	maxExport = 64 << 20
)

// Client fetches definitions from a Portico server.
type Client struct {
	// API is the server's address without /v1, such as http://localhost:5800.
	API string
	// Key is an API key of any user who may see the toolsets.
	Key string
	// HTTP does the requests; nil means http.DefaultClient.
	HTTP *http.Client
}

// APIError is a refusal by the server.
type APIError struct {
	Status  int    // HTTP status
	Code    string // public error code, empty when the answer had no envelope
	Message string
	Detail  string // what to do about it, may be empty
	TraceID string // finds the request in the server's log, may be empty
}

// Error is the server's sentence with what it said to do.
func (e *APIError) Error() string {
	parts := []string{fmt.Sprintf("the API answered %d", e.Status)}
	for _, p := range []string{e.Code, e.Message, e.Detail} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	s := strings.Join(parts, ": ")
	if e.TraceID != "" {
		s += " (trace " + e.TraceID + ")"
	}
	return s
}

type envelope struct {
	Success *bool     `json:"success"`
	Data    []Toolset `json:"data"`
	Code    string    `json:"errCode"`
	Message string    `json:"errMsg"`
	Detail  string    `json:"errDetail"`
	TraceID string    `json:"traceId"`
	// Plain is the sentence of an answer that some proxy or framework wrote
	// instead of the envelope.
	Plain json.RawMessage `json:"message"`
}

// Fetch returns the definitions of the named toolsets, or of all that can be
// exported when keys is empty. A refusal by the server is an *APIError.
func (c Client) Fetch(ctx context.Context, keys []string) ([]Toolset, error) {
	req, err := c.request(ctx, keys)
	if err != nil {
		return nil, err
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("cannot reach the API at %s; set PORTICO_API to the server's address: %w", c.API, err)
	}
	defer func() { _ = res.Body.Close() }() // nothing is left to learn from it
	body, err := io.ReadAll(io.LimitReader(res.Body, maxExport+1))
	if err != nil {
		return nil, fmt.Errorf("read the API's answer: %w", err)
	}
	if len(body) > maxExport {
		return nil, fmt.Errorf("the API's answer is larger than %d MiB", maxExport>>20)
	}
	return decode(res.StatusCode, body)
}

func (c Client) request(ctx context.Context, keys []string) (*http.Request, error) {
	u, err := url.Parse(strings.TrimRight(c.API, "/"))
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("%q is not the address of an API: it must look like http://localhost:5800", c.API)
	}
	u.Path += exportPath
	if len(keys) > 0 {
		u.RawQuery = url.Values{"toolsetKeys": {strings.Join(keys, ",")}}.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("build the export request: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Authorization", "Bearer "+c.Key)
	return req, nil
}

// decode reads the envelope. The HTTP status and the success field must both
// say yes: some servers answer a failure with 200.
func decode(status int, body []byte) ([]Toolset, error) {
	var e envelope
	err := json.Unmarshal(body, &e)
	ok := status >= 200 && status < 300
	if ok && err != nil {
		return nil, fmt.Errorf("the API's answer is not a list of definitions: %w", err)
	}
	if ok && e.Success == nil {
		return nil, fmt.Errorf("the API's answer has no success field: is the address that of a Portico server?")
	}
	if !ok || !*e.Success {
		refusal := &APIError{Status: status, Code: e.Code, Message: e.Message, Detail: e.Detail, TraceID: e.TraceID}
		var plain string
		if refusal.Message == "" && json.Unmarshal(e.Plain, &plain) == nil {
			refusal.Message = plain
		}
		if status == http.StatusUnauthorized && refusal.Detail == "" {
			refusal.Detail = "pass a valid API key"
		}
		return nil, refusal
	}
	for _, t := range e.Data {
		if err := t.Validate(); err != nil {
			return nil, fmt.Errorf("the API exported something unusable: %w", err)
		}
	}
	return e.Data, nil
}
