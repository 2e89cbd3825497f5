package authserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/cached"
	"github.com/portico-run/portico/internal/errs"
)

const (
	documentTime = 5 * time.Second
	documentLife = 5 * time.Minute
	maxDocuments = 500
	maxDocument  = 16 << 10 // bytes of one
)

// documents reads the documents by which apps describe themselves, whose addresses are
// their ids.
type documents struct {
	fetch Fetcher
	known *cached.Cache[string, client]
}

func newDocuments(fetch Fetcher, now func() time.Time) *documents {
	return &documents{fetch: fetch, known: cached.New[string, client](cached.Settings{Max: maxDocuments, Now: now, Age: documentLife})}
}

var errDocument = errs.New(errs.NotFound, "The document that describes the app cannot be used.").Do("It is JSON at the address that is the app's client_id, on the public internet, which it repeats as client_id.")

func (d *documents) get(ctx context.Context, id string) (client, error) {
	u, err := url.Parse(id)
	if err != nil || u.Path == "" || u.Path == "/" || u.Fragment != "" || u.User != nil || strings.Contains(u.Path, "/.") {
		return client{}, errNoClient
	}
	return d.known.Get(ctx, id, func(ctx context.Context) (client, error) { return d.read(ctx, id) })
}

func (d *documents) read(ctx context.Context, id string) (client, error) {
	ctx, cancel := context.WithTimeout(ctx, documentTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, id, nil)
	if err != nil {
		return client{}, errDocument.With(err)
	}
	r.Header.Set("Accept", "application/json")
	answer, err := d.fetch.Do(r, nil)
	if err != nil {
		return client{}, errDocument.With(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK || answer.Request != nil && answer.Request.URL.String() != id { // what a redirect leads to is another's word
		return client{}, errDocument
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxDocument+1))
	if err == nil && len(text) > maxDocument {
		err = errors.New("it is too large")
	}
	if err != nil {
		return client{}, errDocument.With(err)
	}
	var said struct {
		ClientID string `json:"client_id"`
		client
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return client{}, errDocument.With(err)
	}
	if said.ClientID != id || len(said.Redirects) == 0 {
		return client{}, errDocument
	}
	if name := []rune(strings.TrimSpace(said.Name)); len(name) > maxName {
		said.Name = string(name[:maxName]) + "…"
	}
	return said.client, nil
}
