package graphql

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/portico-run/portico/internal/egress"
)

// fetchTimeout bounds asking an API for its schema.
const fetchTimeout = time.Minute

// Read loads the schema of a source: a file, or the URL of an API, which is asked
// with some headers and may be within networks beyond the public internet.
func Read(ctx context.Context, source string, header http.Header, allow []netip.Prefix) (*ast.Schema, error) {
	read := readFile
	if strings.HasPrefix(source, "http://") || strings.HasPrefix(source, "https://") {
		read = func(endpoint string) ([]byte, error) { return fetch(ctx, endpoint, header, allow) }
	}
	document, err := read(source)
	if err != nil {
		return nil, err
	}
	return Load(document)
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > MaxIntrospection {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", path, info.Size(), MaxIntrospection)
	}
	return os.ReadFile(path)
}

func fetch(ctx context.Context, endpoint string, header http.Header, allow []netip.Prefix) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	question, err := json.Marshal(map[string]any{"query": Introspection, "operationName": "Introspection"})
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(question))
	if err != nil {
		return nil, err
	}
	r.Header = header.Clone()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, application/graphql-response+json")
	r.Header.Set("User-Agent", "portico")
	client := egress.New(egress.Config{})
	defer client.Close()
	resp, err := client.Do(r, allow)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	answer, err := io.ReadAll(io.LimitReader(resp.Body, MaxIntrospection+1))
	switch {
	case err != nil:
		return nil, err
	case len(answer) > MaxIntrospection:
		return nil, fmt.Errorf("the answer to introspection has more than %d bytes", MaxIntrospection)
	case resp.StatusCode != http.StatusOK && !json.Valid(answer):
		return nil, fmt.Errorf("the API answered %s; if it needs a credential, give one with --bearer or --header", resp.Status)
	case !json.Valid(answer):
		return nil, errors.New("the API's answer is not JSON; is this the URL of its GraphQL endpoint?")
	}
	return answer, nil
}
