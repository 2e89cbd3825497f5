package sse_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/sse"
)

func TestHEADEndsWithTheHeadersOfTheStream(t *testing.T) {
	t.Parallel()
	l := newLog() // which never ends
	address, ends := serve(t, sse.Server{}, func() sse.Source { return &reader{log: l} })
	r, err := http.NewRequestWithContext(t.Context(), http.MethodHead, address, nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Empty(t, body)
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	require.NoError(t, <-ends)
	http.DefaultClient.CloseIdleConnections()
}
