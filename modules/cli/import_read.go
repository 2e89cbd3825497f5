package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/egress"
	"github.com/portico-run/portico/modules/cli/shell"
)

// Limits of a document.
const (
	maxDocument     = 32 << 20
	documentTimeout = time.Minute
)

// documentReader reads a document and what it refers to: URLs within the rules of
// egress, and files below some folders only. A document from the network refers
// to no files.
type documentReader struct {
	client  *egress.Client
	allow   []netip.Prefix
	folders []string
	source  string
}

func newDocumentReader(source string, networks, folders []string) (*documentReader, error) {
	r := &documentReader{source: source}
	for _, text := range networks {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("--egress: %w: %w", err, shell.ErrUsage)
		}
		r.allow = append(r.allow, p)
	}
	if !isURL(source) {
		r.source = filepath.Clean(source)
		r.folders = append([]string{filepath.Dir(source)}, folders...)
	}
	r.client = egress.New(egress.Config{})
	return r, nil
}

func (r *documentReader) close() { r.client.Close() }

func isURL(text string) bool {
	return strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://")
}

// read returns what is at a location.
func (r *documentReader) read(ctx context.Context, location string) ([]byte, error) {
	switch {
	case isURL(location):
		return r.fetch(ctx, location)
	case location == r.source:
		f, err := os.Open(location)
		if err != nil {
			return nil, err
		}
		return bounded(f)
	}
	for _, folder := range r.folders {
		from, err := filepath.Abs(folder)
		if err != nil {
			return nil, err
		}
		to, err := filepath.Abs(location)
		if err != nil {
			return nil, err
		}
		below, err := filepath.Rel(from, to)
		if err != nil || !filepath.IsLocal(below) {
			continue
		}
		f, err := os.OpenInRoot(from, below) // links lead nowhere else
		if err != nil {
			return nil, err
		}
		return bounded(f)
	}
	return nil, errors.New("the file is outside the folder of the document: name its folder with --allow-ref")
}

func (r *documentReader) fetch(ctx context.Context, location string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, documentTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, location, nil)
	if err != nil {
		return nil, err
	}
	resp, err := r.client.Do(request, r.allow)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close() // it is not read
		return nil, fmt.Errorf("%s answered %s", location, resp.Status)
	}
	return bounded(resp.Body)
}

// bounded reads a document and closes it.
func bounded(from io.ReadCloser) ([]byte, error) {
	defer func() { _ = from.Close() }() // it was only read
	document, err := io.ReadAll(io.LimitReader(from, maxDocument+1))
	if err == nil && len(document) > maxDocument {
		err = fmt.Errorf("the document has more than %d bytes", maxDocument)
	}
	return document, err
}
