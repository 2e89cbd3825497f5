package upstream_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/upstream"
)

// streamed asks a server once, or as often as the request says.
func streamed(ctx context.Context, t *testing.T, r upstream.StreamRequest, answer http.HandlerFunc) (*upstream.Stream, *pauses, error) {
	t.Helper()
	web := httptest.NewServer(answer)
	t.Cleanup(web.Close)
	p := &pauses{}
	c := upstream.New(upstream.Deps{Client: direct{}, ResponseCap: 1 << 10, Wait: p.wait})
	r.Method, r.URL, r.Header = http.MethodPost, web.URL, http.Header{}
	s, err := c.Stream(ctx, r)
	t.Cleanup(s.Close)
	return s, p, err
}

func send(w http.ResponseWriter, text string) {
	_, _ = io.WriteString(w, text)
	_ = http.NewResponseController(w).Flush()
}

func TestStreamsArriveInPieces(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	s, _, err := streamed(t.Context(), t, upstream.StreamRequest{}, func(w http.ResponseWriter, _ *http.Request) {
		send(w, "data: a\n\n")
		<-more
		send(w, "data: b\n\n")
	})
	require.NoError(t, err)
	e, err := s.Next()
	require.NoError(t, err)
	require.Equal(t, "a", string(e.Data))
	close(more)
	e, err = s.Next()
	require.NoError(t, err)
	require.Equal(t, "b", string(e.Data))
	_, err = s.Next()
	require.ErrorIs(t, err, io.EOF)
}

// Silence and length are bounded; progress of any kind ends a silence.
func TestSlowStreamsEnd(t *testing.T) {
	t.Parallel()
	trickle := func(w http.ResponseWriter, r *http.Request) {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				send(w, ": still here\n")
			case <-r.Context().Done():
				return
			}
		}
	}
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	begin := func(w http.ResponseWriter, r *http.Request) { send(w, "data: a\n\n"); hang(w, r) }
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		pace   upstream.StreamRequest
		want   string
	}{
		"no answer":           {hang, upstream.StreamRequest{Idle: 20 * time.Millisecond}, "nothing came within 20ms"},
		"silence in a stream": {begin, upstream.StreamRequest{Idle: 50 * time.Millisecond}, "nothing came within 50ms"},
		"a trickle":           {trickle, upstream.StreamRequest{Idle: time.Second, Timeout: 2 * time.Second}, "the answer was not whole within 2s"},
	} {
		s, _, err := streamed(t.Context(), t, c.pace, c.answer)
		for err == nil {
			_, err = s.Next()
		}
		require.ErrorContains(t, err, "TIMEOUT: The upstream did not answer in time: "+c.want, name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s, _, err := streamed(ctx, t, upstream.StreamRequest{Idle: time.Hour}, begin)
	require.NoError(t, err)
	_, err = s.Next()
	require.NoError(t, err)
	cancel()
	_, err = s.Next()
	require.ErrorContains(t, err, "CANCELLED")
}

func TestBrokenStreamsSaySo(t *testing.T) {
	t.Parallel()
	s, _, err := streamed(t.Context(), t, upstream.StreamRequest{}, func(w http.ResponseWriter, _ *http.Request) {
		send(w, "data: a\n\ndata: b")
		panic(http.ErrAbortHandler)
	})
	require.NoError(t, err)
	_, err = s.Next()
	require.NoError(t, err)
	_, err = s.Next()
	require.ErrorContains(t, err, "CONNECTION_BROKEN")

	s, _, err = streamed(t.Context(), t, upstream.StreamRequest{}, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat("x", 1<<16)); err != nil {
				return
			}
		}
	})
	require.NoError(t, err)
	_, err = s.Next()
	require.ErrorContains(t, err, "INVALID_RESPONSE: The upstream's stream cannot be read: an event has more than 33554432 bytes.")
}

// What is repeated is the caller's word; how long is waited is the upstream's, as
// far as patience goes.
func TestStreamsAreAskedForAgain(t *testing.T) {
	t.Parallel()
	always := func(got upstream.Response, err error) bool { return err != nil || !got.OK() }
	for name, c := range map[string]struct {
		header, value string
		want          []time.Duration
		asked         int
	}{
		"seconds":         {"Retry-After", "7", []time.Duration{7 * time.Second}, 2},
		"a fraction":      {"Retry-After", "0.25", []time.Duration{250 * time.Millisecond}, 2},
		"milliseconds":    {"Retry-After-Ms", "30", []time.Duration{30 * time.Millisecond}, 2},
		"the very limit":  {"Retry-After", "60", []time.Duration{time.Minute}, 2},
		"too long":        {"Retry-After", "61", nil, 1},
		"far too long":    {"Retry-After", "1e300", nil, 1},
		"beyond a number": {"Retry-After", "1e999", nil, 1},
	} {
		asked := 0
		var told []upstream.Attempt
		r := upstream.StreamRequest{Request: upstream.Request{Retries: 3, Again: always, Patience: time.Minute}, Attempted: func(a upstream.Attempt) { told = append(told, a) }}
		s, waited, err := streamed(t.Context(), t, r, func(w http.ResponseWriter, _ *http.Request) {
			if asked++; asked == 1 {
				w.Header().Set(c.header, c.value)
				w.WriteHeader(http.StatusTooManyRequests)
				fmt.Fprint(w, "slow down")
				return
			}
			send(w, "data: a\n\n")
		})
		require.NoError(t, err, name)
		require.Equal(t, c.want, waited.list, name)
		require.Equal(t, c.asked, asked, name)
		require.Equal(t, c.asked, s.Attempts, name)
		require.Len(t, told, c.asked, name)
		require.Equal(t, http.StatusTooManyRequests, told[0].Status, name)
		if c.asked == 1 {
			require.Equal(t, "slow down", string(s.Body), name)
			continue
		}
		require.Equal(t, 1, told[1].Number, name)
		require.True(t, s.OK(), name)
	}
	for _, odd := range []string{"-1", "soon", "NaN", ""} {
		asked := 0
		_, waited, err := streamed(t.Context(), t, upstream.StreamRequest{Request: upstream.Request{Retries: 1, Again: always}}, func(w http.ResponseWriter, _ *http.Request) {
			asked++
			w.Header().Set("Retry-After", odd)
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		require.NoError(t, err, odd)
		require.Equal(t, 2, asked, odd)
		require.Len(t, waited.list, 1, odd)
		require.InDelta(t, 187*time.Millisecond, waited.list[0], float64(63*time.Millisecond), odd)
	}
}
