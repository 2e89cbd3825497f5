package fetch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/url"
	"strings"

	"github.com/portico-run/portico/modules/knowledge/read"
	"github.com/portico-run/portico/modules/tool/function"
)

func (s *Service) fetchURL() function.Function {
	return function.Function{
		Name:        "fetch_url",
		Description: "The main content of a web page, PDF or Word file as Markdown; text and JSON as they are.",
		Input:       json.RawMessage(`{"type":"object","properties":{"url":{"type":"string","minLength":1,"maxLength":8192}},"required":["url"],"additionalProperties":false}`),
		ReadOnly:    true, Idempotent: true, SandboxCallable: true,
		Run: func(ctx context.Context, c function.Caller, arguments json.RawMessage) (json.RawMessage, error) {
			var given struct{ URL string }
			if err := json.Unmarshal(arguments, &given); err != nil {
				return nil, ErrAddress.With(err)
			}
			text, err := s.Markdown(ctx, given.URL, c.Actor.UID)
			if err != nil {
				return nil, err
			}
			return json.Marshal(text)
		},
	}
}

// Markdown is the main content of what is at an address, with a title and the
// address. Plain text and JSON are as they are. Owner is whose share of the
// sandbox reads a PDF. Errors are ErrAddress, ErrRefused, those of package read,
// and upstream.Failure for what the site did.
func (s *Service) Markdown(ctx context.Context, address, owner string) (string, error) {
	u, err := parse(address)
	if err != nil {
		return "", err
	}
	if err := s.enter(ctx); err != nil {
		return "", err
	}
	defer s.leave()
	within, cancel := context.WithTimeout(ctx, s.settings.Timeout)
	defer cancel()
	a, err := s.get(within, u, nil)
	if err != nil {
		return "", err
	}
	text, err := s.markdown(within, a, owner)
	if errors.Is(err, context.DeadlineExceeded) {
		return "", s.failure(ctx, u, err)
	}
	return text, err
}

// markdown converts an answer by its type.
func (s *Service) markdown(ctx context.Context, a answer, owner string) (string, error) {
	source := a.source()
	if plain(source.Name, source.MIME) {
		text, err := read.Decode(a.Body, a.MIME)
		if err == nil && strings.TrimSpace(text) == "" {
			err = read.ErrEmpty.Do("The answer has no content.")
		}
		return text, err
	}
	if kind := read.TypeOf(source.Name, a.MIME); kind == "text/html" || kind == "application/xhtml+xml" {
		page, err := read.PageOf(a.Body, a.MIME, a.URL)
		if err != nil {
			return "", err
		}
		return headed(page.Title, a.URL, page.Markdown), nil
	}
	d, err := s.reader(owner).Read(ctx, source)
	if err != nil {
		return "", err
	}
	return headed(d.Title, a.URL, d.Markdown()), nil
}

func (s *Service) reader(owner string) read.Reader {
	return read.Any{Office: read.Office{Sandbox: s.sandbox, Timeout: s.settings.Timeout, Owner: owner}}
}

// plain reports whether something is returned as it is: text and JSON, and what
// is sent as plain text under the name of a page.
func plain(name, declared string) bool {
	kind, _, _ := mime.ParseMediaType(declared)
	switch {
	case kind == "text/plain":
		return read.TypeOf(name, declared) != "text/markdown"
	case kind == "application/json" || strings.HasSuffix(kind, "+json"), kind == "application/x-ndjson":
		return true
	case kind == "text/html" || kind == "text/markdown":
		return false
	}
	return strings.HasPrefix(kind, "text/")
}

func (a answer) source() read.Source {
	return read.Source{Name: a.URL.String(), MIME: a.MIME, Size: int64(len(a.Body)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(a.Body)), nil
	}}
}

// headed is a text below its title and where it comes from.
func headed(title string, u *url.URL, text string) string {
	head := "Source: " + u.String() + "\n\n"
	if title != "" {
		head = "# " + title + "\n\n" + head
	}
	return head + text + "\n"
}
