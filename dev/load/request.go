package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"time"

	"github.com/portico-run/portico/dev/instance"
)

// errRefused is an answer that says when to come again: nothing was begun.
var errRefused = errors.New("refused, with Retry-After")

// post sends JSON and reads the answer into one, unless that is nil.
func (w *world) post(ctx context.Context, path string, who instance.Caller, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.server.URL+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	who.Header(r.Header)
	return w.ask(r, answer)
}

func (w *world) ask(r *http.Request, answer any) error {
	resp, err := w.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, err)
	}
	if err := accepted(resp, text); err != nil {
		return fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, err)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("%s %s: %w: %.200s", r.Method, r.URL.Path, err, text)
	}
	return nil
}

// accepted is errRefused for an answer that asks to come again, and another
// error for one that is none of what a server may answer under load.
func accepted(resp *http.Response, text []byte) error {
	switch {
	case resp.StatusCode == http.StatusOK:
		return nil
	case (resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable) && resp.Header.Get("Retry-After") != "":
		return errRefused
	}
	return fmt.Errorf("%s, Retry-After %q: %.200s", resp.Status, resp.Header.Get("Retry-After"), text)
}

// call executes a tool and returns how long that took.
func (w *world) call(ctx context.Context, who instance.Caller, toolset, tool string) (took time.Duration, err error) {
	var answer struct {
		Data struct{ Status, Error, ErrorCode string }
	}
	begin := time.Now()
	err = w.post(ctx, "/v1/tool/execute", who, map[string]any{"toolsetKey": toolset, "toolName": tool, "arguments": map[string]any{}}, &answer)
	took = time.Since(begin)
	if err == nil && answer.Data.Status != "success" {
		err = toolError{answer.Data.ErrorCode, answer.Data.Error}
	}
	return took, err
}

// toolError is a tool that failed: the request itself worked.
type toolError struct{ code, message string }

func (e toolError) Error() string { return "the tool failed: " + e.code + ": " + e.message }

// upload stores a file.
func (w *world) upload(ctx context.Context, key string, content []byte) error {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", "data.bin")
	if err != nil {
		return err
	}
	if _, err := part.Write(content); err != nil {
		return err
	}
	if err := form.Close(); err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.server.URL+"/upload", &body)
	if err != nil {
		return err
	}
	r.Header.Set("X-API-Key", key)
	r.Header.Set("Content-Type", form.FormDataContentType())
	var answer struct {
		Message string
		Files   []struct{ Status, Error string }
	}
	if err := w.ask(r, &answer); err != nil {
		return err
	}
	if answer.Message != "success" {
		return fmt.Errorf("upload: %s: %v", answer.Message, answer.Files)
	}
	return nil
}
