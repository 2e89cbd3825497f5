package wire_test

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/budget"
	"github.com/portico-run/portico/modules/connector/mcp/wire"
)

// upstream answers with a text, and counts what is read of it.
type upstream struct {
	size int64 // that it says
	text *strings.Reader
}

func (u upstream) Do(r *http.Request, _ []netip.Prefix) (*http.Response, error) {
	return &http.Response{Request: r, StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: u.size, Body: io.NopCloser(u.text)}, nil
}

// There is room for a large answer before it is read, also where it does not say its
// size.
func TestLargeAnswersWaitForRoom(t *testing.T) {
	t.Parallel()
	b := budget.New(8<<20, 8<<20)
	all, hold := b.Open(t.Context(), "ben")
	require.NoError(t, budget.Take(all, 1<<20))
	ask := func(ctx context.Context, size int64) (*http.Response, *strings.Reader, error) {
		ctx, own := b.Open(ctx, "anna")
		defer own.Release()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://mcp.example", nil)
		require.NoError(t, err)
		text := strings.NewReader(strings.Repeat("x", 3<<20))
		resp, err := (&wire.Tripper{Client: upstream{size, text}, Limit: 8 << 20}).RoundTrip(r)
		return resp, text, err
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, text, err := ask(ctx, -1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Greater(t, text.Len(), 1<<20, "it is not read")
	hold.Release()
	for _, size := range []int64{-1, 3 << 20} {
		resp, _, err := ask(t.Context(), size)
		require.NoError(t, err)
		require.EqualValues(t, 3<<20, resp.ContentLength)
		require.NoError(t, resp.Body.Close())
	}
}
