package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/instance"
)

func usage(values ...int64) (all []observed) {
	for n, v := range values {
		all = append(all, observed{Usage: instance.Usage{RSS: v << 20}, at: time.Duration(n) * time.Second})
	}
	return all
}

func resident(u observed) float64 { return float64(u.RSS >> 20) }

func TestMemoryThatGrowsIsNotFlat(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		usage []observed
		holds bool
	}{
		"level":        {usage(90, 95, 100, 100, 101, 99, 100, 100, 102, 104), true},
		"a leak":       {usage(90, 95, 100, 101, 102, 103, 104, 105, 106, 107), false},
		"falling":      {usage(90, 95, 100, 90, 90, 90, 90, 90, 90, 60), true},
		"never looked": {nil, false},
	} {
		require.Equal(t, c.holds, held{"memory", "%.0f", resident, 0.05, 1}.flat(c.usage).holds, name)
	}
}

func seconds(p50 ...int) (all []second) {
	for _, ms := range p50 {
		all = append(all, second{p50: time.Duration(ms) * time.Millisecond})
	}
	return all
}

func TestRecoveryIsTheFirstNormalWindow(t *testing.T) {
	t.Parallel()
	usual := 10 * time.Millisecond
	require.Equal(t, 3*time.Second, recovered(seconds(90, 90, 90, 90, 90, 8, 8, 8, 8, 8, 8), usual))
	require.Equal(t, time.Duration(0), recovered(seconds(8, 8, 90, 8, 8, 8, 8), usual), "one late second is noise")
	require.Equal(t, 7*time.Second, recovered(seconds(90, 90, 90, 90, 90, 90, 90), usual))
	refused := seconds(8, 8, 8, 8, 8, 8, 8, 8, 8, 8)
	refused[2].refused = 1
	require.Equal(t, 3*time.Second, recovered(refused, usual))
	require.Equal(t, 6*time.Second, recovered(seconds(0, 0, 0, 0, 0, 0), usual), "a server that does nothing has not recovered")
}

func TestARefusalNamesWhenToComeAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status  int
		after   string
		refused bool
	}{{429, "1", true}, {503, "5", true}, {429, "", false}, {503, "", false}, {500, "1", false}, {409, "1", false}} {
		resp := &http.Response{StatusCode: c.status, Status: fmt.Sprint(c.status), Header: http.Header{}}
		resp.Header.Set("Retry-After", c.after)
		err := accepted(resp, nil)
		require.Error(t, err)
		require.Equal(t, c.refused, errors.Is(err, errRefused), "%+v", c)
	}
}

func TestWhatFailedIsNotCountedAsRefused(t *testing.T) {
	t.Parallel()
	r := newRecorder()
	r.end("a", nil)
	r.end("b", fmt.Errorf("x: %w", errRefused))
	r.end("c", io.ErrUnexpectedEOF)
	r.close()
	s := r.summary()
	require.Equal(t, []int{1, 1, 1}, []int{s.done, s.refused, s.failed})
	require.Equal(t, []string{"c: unexpected EOF"}, s.failures)
}

// A run that failed has failed, though its end was refused.
func TestARefusedEndHidesNoFailure(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/action/finish" {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		_, _ = io.WriteString(w, `{"data":{"resultId":"r","toolCallId":"c"}}`)
	}))
	t.Cleanup(server.Close)
	w := &world{server: &instance.Server{URL: server.URL}, client: server.Client()}
	failed := errors.New("failed")
	require.Equal(t, failed, inRun(t.Context(), w, "k", func(instance.Caller) error { return failed }))
	require.ErrorIs(t, inRun(t.Context(), w, "k", func(instance.Caller) error { return nil }), errRefused)
}

func TestProxyDelaysAndStalls(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	echo, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = echo.Close() })
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c) }()
		}
	}()
	p, err := newProxy(t.Context(), echo.Addr().String())
	require.NoError(t, err)
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", p.address())
	require.NoError(t, err)
	answers := bufio.NewReader(c)
	ask := func() time.Duration {
		begin := time.Now()
		_, err := io.WriteString(c, "x\n")
		require.NoError(t, err)
		_, err = answers.ReadString('\n')
		require.NoError(t, err)
		return time.Since(begin)
	}
	ask()
	p.delay.Store(int64(100 * time.Millisecond))
	require.GreaterOrEqual(t, ask(), 100*time.Millisecond)
	p.delay.Store(0)
	p.stall.Store(true)
	released := make(chan time.Time, 1)
	time.AfterFunc(200*time.Millisecond, func() {
		released <- time.Now()
		p.stall.Store(false)
	})
	ask()
	require.True(t, time.Now().After(<-released), "nothing passed before")
	require.NoError(t, p.close())
	_, err = answers.ReadString('\n')
	require.Error(t, err)
}

// What a phase leaves behind is not how long its own calls took.
func TestCallsAfterThePhaseAreNotItsTimes(t *testing.T) {
	t.Parallel()
	r := newRecorder()
	r.call(direct, time.Millisecond)
	r.close()
	r.call(direct, time.Minute)
	r.end("late", io.ErrUnexpectedEOF)
	s := r.summary()
	require.Equal(t, time.Millisecond, s.p99[direct])
	require.Equal(t, 1, s.failed)
	require.Empty(t, r.seconds())
}

func TestPictureIsDrawn(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "load.png")
	p := phase{name: "steady", seconds: seconds(1, 2, 3, 4), usage: usage(1, 2, 3, 4)}
	require.NoError(t, drawPhases([]phase{p, {name: "nothing"}, p}, file))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "image/png", http.DetectContentType(text))
}

func TestTheRateIsKept(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	w := &world{server: &instance.Server{URL: server.URL}, client: server.Client(), keys: []string{"k"}}
	r := newRecorder()
	wait, err := w.drive(context.WithoutCancel(t.Context()), r, 100, 500*time.Millisecond)
	require.NoError(t, err)
	wait()
	s := r.summary()
	require.Equal(t, 50, s.failed+s.skipped)
	require.Zero(t, s.done+s.refused)
}
