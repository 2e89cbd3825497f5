package upstream_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/budget"
	"github.com/portico-run/portico/internal/upstream"
)

const bodyCap = 4 << 20

// direct reaches everything.
type direct struct{}

func (direct) Do(r *http.Request, _ []netip.Prefix) (*http.Response, error) {
	return http.DefaultTransport.RoundTrip(r)
}

func get(ctx context.Context, t *testing.T, method string, answer http.HandlerFunc) (upstream.Response, error) {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	c := upstream.New(upstream.Deps{Client: direct{}, ResponseCap: bodyCap})
	return c.Do(ctx, upstream.Request{Method: method, URL: s.URL, Header: http.Header{}, Limit: time.Second})
}

func TestAnswersAreReadWholeUpToTheCap(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 1 << 20, 1<<20 + 1, bodyCap - 1, bodyCap} {
		for _, declared := range []bool{true, false} {
			body := strings.Repeat("x", size)
			got, err := get(t.Context(), t, "GET", func(w http.ResponseWriter, _ *http.Request) {
				if declared {
					w.Header().Set("Content-Length", fmt.Sprint(size))
				}
				w.(http.Flusher).Flush() // without a length the answer is chunked
				_, _ = io.WriteString(w, body)
			})
			require.NoError(t, err, "%d %v", size, declared)
			require.True(t, body == string(got.Body), "%d bytes of %d", len(got.Body), size)
		}
	}
}

func TestAnswersOverTheCapSaySizeAndCap(t *testing.T) {
	t.Parallel()
	piece := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		says   string
	}{
		"a declared size": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5000000")
			w.(http.Flusher).Flush()
		}, "The result has 5000000 bytes, more than 4194304"},
		"without an end": {func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := io.WriteString(w, piece); err != nil {
					return
				}
			}
		}, "The result has more than 4194304 bytes"},
	} {
		_, err := get(t.Context(), t, "GET", c.answer)
		var failure *upstream.Failure
		require.ErrorAs(t, err, &failure, name)
		require.Equal(t, upstream.CodeTooLarge, failure.Code)
		require.Contains(t, failure.Message, c.says)
		require.Contains(t, failure.Message, "TOOL_RESPONSE_CAP")
		require.Contains(t, failure.Message, "Ask for less")
	}
}

func TestAnswersShorterThanTheySayAreBroken(t *testing.T) {
	t.Parallel()
	for _, sent := range []int{1, 2 << 20} {
		_, err := get(t.Context(), t, "GET", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "3000000")
			_, _ = io.WriteString(w, strings.Repeat("x", sent))
		})
		require.ErrorContains(t, err, "CONNECTION_BROKEN")
	}
	got, err := get(t.Context(), t, "HEAD", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "3000000000")
	})
	require.NoError(t, err, "a HEAD has no body, whatever its length")
	require.Empty(t, got.Body)
}

// A large answer waits until there is room for it, and a small one does not.
func TestLargeAnswersWaitForTheBudget(t *testing.T) {
	t.Parallel()
	b := budget.New(bodyCap, bodyCap)
	holding, hold := b.Open(t.Context(), "anna")
	require.NoError(t, budget.Take(holding, bodyCap))
	of := func(size int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", size)) }
	}
	ctx, mine := b.Open(t.Context(), "ben")
	defer mine.Release()
	_, err := get(ctx, t, "GET", of(1000))
	require.NoError(t, err)

	// The caller gives up some time after the answer has begun.
	late, cancel := context.WithCancel(ctx)
	defer cancel()
	late = httptrace.WithClientTrace(late, &httptrace.ClientTrace{GotFirstResponseByte: func() { time.AfterFunc(500*time.Millisecond, cancel) }})
	_, err = get(late, t, "GET", of(2<<20))
	require.ErrorContains(t, err, "no room for the upstream's answer")
	hold.Release()
	_, err = get(ctx, t, "GET", of(2<<20))
	require.NoError(t, err)
}
