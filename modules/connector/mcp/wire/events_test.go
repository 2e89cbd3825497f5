package wire_test

import (
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/connector/mcp/wire"
)

// stream answers with a stream.
type stream struct{ io.Reader }

func (s stream) Do(r *http.Request, _ []netip.Prefix) (*http.Response, error) {
	return &http.Response{Request: r, StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(s)}, nil
}

// Lines of a stream end with CR LF, LF, or CR, also where what came ends between the two.
func TestLinesOfStreams(t *testing.T) {
	t.Parallel()
	const events = ": begun\n\nevent: message\ndata: {\"a\":\ndata: 1}\n\n\nid: 7\ndata: 2\n\n"
	const want = "\nevent: message\ndata: {\"a\":1}\n\n\nid: 7\ndata: 2\n\n"
	for _, end := range []string{"\n", "\r\n", "\r"} {
		text := strings.ReplaceAll(events, "\n", end)
		for _, from := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://mcp.example", nil)
			require.NoError(t, err)
			resp, err := (&wire.Tripper{Client: stream{from}, Limit: 1 << 20}).RoundTrip(r)
			require.NoError(t, err)
			got, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, want, string(got), "%q", end)
		}
	}
}
