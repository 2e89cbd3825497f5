package upstream_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/egress"
	"github.com/portico-run/portico/internal/upstream"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// pauses remembers how long a caller would have waited, and waits no time.
type pauses struct {
	mu   sync.Mutex
	list []time.Duration
}

func (p *pauses) wait(ctx context.Context, d time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, d)
	return ctx.Err()
}

// caller is the product's, with the rules of egress, and what it waited.
func caller(t *testing.T, b upstream.BreakerSettings) (*upstream.Caller, *pauses) {
	t.Helper()
	e := egress.New(egress.Config{})
	t.Cleanup(e.Close)
	p := &pauses{}
	return upstream.New(upstream.Deps{Client: e, ResponseCap: 1 << 20, Breaker: b, Wait: p.wait}), p
}

// serve answers with statuses in turn, the last one for ever.
func serve(t *testing.T, header http.Header, statuses ...int) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(asked.Add(1))
		body, _ := io.ReadAll(r.Body)
		maps.Copy(w.Header(), header)
		w.WriteHeader(statuses[min(n, len(statuses))-1])
		fmt.Fprintf(w, "%s %s", r.Method, body)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

func TestOnlyWhatDoesNoHarmIsRepeated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harmless bool
		retries  int
		statuses []int
		asked    int64
		status   int
	}{
		"harmless and asked for":   {true, 3, []int{503, 502, 504, 200}, 4, 200},
		"too many requests":        {true, 1, []int{429, 200}, 2, 200},
		"as often as is said":      {true, 2, []int{503}, 3, 503},
		"not at all":               {true, 0, []int{503}, 1, 503},
		"a fault of the upstream":  {true, 3, []int{500}, 1, 500},
		"a refusal":                {true, 3, []int{404}, 1, 404},
		"what may have had effect": {false, 3, []int{503}, 1, 503},
	} {
		call, _ := caller(t, upstream.BreakerSettings{})
		url, asked := serve(t, nil, c.statuses...)
		got, err := call.Do(t.Context(), upstream.Request{
			Method: "PUT", URL: url, Header: http.Header{}, Body: []byte("body"), Allow: loopback, Harmless: c.harmless, Retries: c.retries, Limit: time.Second,
		})
		require.NoError(t, err, name)
		require.Equal(t, c.status, got.Status, name)
		require.Equal(t, c.status == 200, got.OK(), name)
		require.Equal(t, c.asked, asked.Load(), name)
		require.Equal(t, "PUT body", string(got.Body), "%s: a repetition sends the body again", name)
	}
}

// Nothing was sent where there is no connection: that is tried again whatever
// the call does.
func TestACallThatNeverLeftIsRepeated(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	call, waited := caller(t, upstream.BreakerSettings{})
	_, err = call.Do(t.Context(), upstream.Request{Method: "POST", URL: "http://" + l.Addr().String(), Header: http.Header{}, Allow: loopback, Retries: 3, Limit: time.Second})
	require.EqualError(t, err, "CONNECTION_FAILED: The upstream does not accept connections.")
	require.Len(t, waited.list, 3)
	for n, d := range waited.list {
		most := 250 * time.Millisecond << n
		require.GreaterOrEqual(t, d, most/2, "attempt %d", n)
		require.LessOrEqual(t, d, most, "attempt %d", n)
	}
}

func TestTheUpstreamSaysHowLongToWait(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		says string
		want time.Duration
	}{
		"seconds":           {"7", 7 * time.Second},
		"a date":            {now.Add(9 * time.Second).Format(http.TimeFormat), 9 * time.Second},
		"a date that is by": {now.Add(-time.Hour).Format(http.TimeFormat), 0},
	} {
		e := egress.New(egress.Config{})
		t.Cleanup(e.Close)
		p := &pauses{}
		call := upstream.New(upstream.Deps{Client: e, ResponseCap: 1 << 20, Wait: p.wait, Now: func() time.Time { return now }})
		url, _ := serve(t, http.Header{"Retry-After": {c.says}}, 429, 200)
		_, err := call.Do(t.Context(), upstream.Request{Method: "GET", URL: url, Header: http.Header{}, Allow: loopback, Harmless: true, Retries: 1, Limit: time.Second})
		require.NoError(t, err, name)
		require.Equal(t, []time.Duration{c.want}, p.list, name)
	}
}

// Who has no time for a repetition gets the answer that is there.
func TestNoRepetitionAfterTheDeadline(t *testing.T) {
	t.Parallel()
	call, waited := caller(t, upstream.BreakerSettings{})
	url, asked := serve(t, http.Header{"Retry-After": {"3600"}}, 503)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := call.Do(ctx, upstream.Request{Method: "GET", URL: url, Header: http.Header{}, Allow: loopback, Harmless: true, Retries: 3, Limit: time.Minute})
	require.NoError(t, err)
	require.Equal(t, 503, got.Status)
	require.Equal(t, int64(1), asked.Load())
	require.Empty(t, waited.list)
}

// Where the first address took the call, it is not sent again.
func TestACallThatWasRedirectedToNowhereIsNotRepeated(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	url, asked := serve(t, http.Header{"Location": {"http://" + l.Addr().String()}}, http.StatusSeeOther)
	call, _ := caller(t, upstream.BreakerSettings{})
	_, err = call.Do(t.Context(), upstream.Request{Method: "POST", URL: url, Body: []byte("{}"), Header: http.Header{}, Allow: loopback, Retries: 3})
	require.ErrorContains(t, err, "CONNECTION_FAILED")
	require.ErrorContains(t, err, "may have had an effect")
	require.EqualValues(t, 1, asked.Load())
}

// Both places may be reached: what is refused is the redirect.
func TestARedirectThatIsRefusedSaysWhy(t *testing.T) {
	t.Parallel()
	other, _ := serve(t, nil, http.StatusOK)
	for to, says := range map[string]string{
		other:   "not sent to one",
		"/loop": "redirects without an end",
	} {
		url, _ := serve(t, http.Header{"Location": {to}}, http.StatusTemporaryRedirect)
		call, _ := caller(t, upstream.BreakerSettings{})
		_, err := call.Do(t.Context(), upstream.Request{Method: "POST", URL: url, Body: []byte("{}"), Header: http.Header{}, Allow: loopback})
		require.ErrorContains(t, err, "EGRESS_REFUSED")
		require.ErrorContains(t, err, says)
	}
}

func TestACallWithoutAnAnswerSaysWhy(t *testing.T) {
	t.Parallel()
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(hangs.Close)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	cuts := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(cuts.Close)
	for name, c := range map[string]struct {
		url    string
		allow  []netip.Prefix
		giveUp time.Duration // when its caller does; 0 for never
		code   string
	}{
		"an address that is not allowed": {hangs.URL, nil, 0, "EGRESS_REFUSED"},
		"no certificate that is known":   {secure.URL, loopback, 0, "TLS_FAILED"},
		"no answer in time":              {hangs.URL, loopback, 0, "TIMEOUT"},
		"a caller that gave up":          {hangs.URL, loopback, time.Millisecond, "CANCELLED"},
		"a connection that broke":        {cuts.URL, loopback, 0, "CONNECTION_BROKEN"},
		"no URL":                         {"http://a b", loopback, 0, "INVALID_REQUEST"},
	} {
		limit := time.Minute
		if name == "no answer in time" {
			limit = 50 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		if c.giveUp > 0 {
			time.AfterFunc(c.giveUp, cancel)
		}
		call, _ := caller(t, upstream.BreakerSettings{})
		_, err := call.Do(ctx, upstream.Request{Method: "POST", URL: c.url, Header: http.Header{}, Allow: c.allow, Limit: limit})
		cancel()
		var f *upstream.Failure
		require.ErrorAs(t, err, &f, name)
		require.Equal(t, c.code, f.Code, name)
		require.NotContains(t, f.Message, "127.0.0.1", "%s: a caller need not learn addresses", name)
	}
}

func TestAnUpstreamThatKeepsFailingIsLeftAlone(t *testing.T) {
	t.Parallel()
	call, _ := caller(t, upstream.BreakerSettings{Failures: 2, Delay: time.Hour})
	bad, asked := serve(t, nil, 200, 503)
	good, _ := serve(t, nil, 200)
	do := func(url string) error {
		_, err := call.Do(t.Context(), upstream.Request{Method: "GET", URL: url + "/any?path", Header: http.Header{}, Allow: loopback, Limit: time.Second})
		return err
	}
	for range 10 {
		if err := do(bad); err != nil {
			break
		}
	}
	sent := asked.Load()
	require.Less(t, sent, int64(10))
	err := do(bad)
	var f *upstream.Failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, upstream.CodeUnavailable, f.Code)
	require.Regexp(t, `^The upstream has failed too often; nothing is sent to it for (1h0m1s|1h0m0s)\.$`, f.Message)
	require.Equal(t, sent, asked.Load(), "nothing is sent")
	require.NoError(t, do(good), "others are not concerned")
}

// Operators see how each request went.
func TestHowRequestsWentIsCounted(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	told := map[upstream.Result]int{}
	e := egress.New(egress.Config{})
	t.Cleanup(e.Close)
	c := upstream.New(upstream.Deps{
		Client: e, ResponseCap: 1 << 20, Breaker: upstream.BreakerSettings{Failures: 2, Delay: time.Hour}, Wait: (&pauses{}).wait,
		Observe: func(r upstream.Result, took time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			told[r]++
			require.Equal(t, r == upstream.Skipped, took == 0)
		},
	})
	ask := func(ctx context.Context, address string) {
		_, _ = c.Do(ctx, upstream.Request{Method: http.MethodGet, URL: address, Allow: loopback, Harmless: true, Retries: 1})
	}
	good, _ := serve(t, nil, 200, 404)
	ask(t.Context(), good)
	ask(t.Context(), good)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	ask(gone, good)
	bad, _ := serve(t, nil, 500, 503)
	ask(t.Context(), bad)
	ask(t.Context(), bad) // twice
	closed := httptest.NewServer(nil)
	closed.Close()
	ask(t.Context(), closed.URL) // twice
	ask(t.Context(), closed.URL) // twice, and it is left alone
	ask(t.Context(), closed.URL)
	s, err := c.Stream(t.Context(), upstream.StreamRequest{Request: upstream.Request{Method: http.MethodGet, URL: good, Allow: loopback}})
	require.NoError(t, err)
	s.Close()
	require.Equal(t, map[upstream.Result]int{
		upstream.Success: 1, upstream.Refused: 2, upstream.Cancelled: 1, upstream.Failing: 3, upstream.NoAnswer: 4, upstream.Skipped: 1,
	}, told)
}

// What an upstream refuses, what the caller gave up and what is too large says
// that the upstream works.
func TestARefusalIsNoFailureOfTheUpstream(t *testing.T) {
	t.Parallel()
	large := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "5000000") }))
	t.Cleanup(large.Close)
	refuses, _ := serve(t, nil, 500, 404, 429)
	for name, c := range map[string]struct {
		url   string
		allow []netip.Prefix
		gone  bool // its caller
		note  string
		code  string
	}{
		"refuses":      {refuses, loopback, false, "", ""},
		"too large":    {large.URL, loopback, false, "", upstream.CodeTooLarge},
		"given up":     {refuses, loopback, true, "", "CANCELLED"},
		"not allowed":  {refuses, nil, false, "", "EGRESS_REFUSED"},
		"not sendable": {refuses, loopback, false, "a\x01b", upstream.CodeInvalidRequest},
	} {
		call, _ := caller(t, upstream.BreakerSettings{Failures: 1, Delay: time.Hour})
		for range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			if c.gone {
				cancel()
			}
			_, err := call.Do(ctx, upstream.Request{Method: "GET", URL: c.url, Header: http.Header{"X-Note": {c.note}}, Allow: c.allow, Limit: time.Second})
			cancel()
			if c.code == "" {
				require.NoError(t, err, name)
				continue
			}
			require.ErrorContains(t, err, c.code, name)
		}
	}
}

// After the delay one call tries, and its success opens the way again.
func TestAnUpstreamThatWorksAgainIsUsedAgain(t *testing.T) {
	t.Parallel()
	call, _ := caller(t, upstream.BreakerSettings{Failures: 1, Delay: 20 * time.Millisecond})
	url, _ := serve(t, nil, 503, 503, 200)
	do := func() (upstream.Response, error) {
		return call.Do(t.Context(), upstream.Request{Method: "GET", URL: url, Header: http.Header{}, Allow: loopback, Limit: time.Second})
	}
	for range 2 {
		_, _ = do()
	}
	require.Eventually(t, func() bool {
		got, err := do()
		return err == nil && got.OK()
	}, time.Minute, 5*time.Millisecond)
}

// After the delay one call tries, and no other beside it. One whose caller leaves
// says nothing: the next one tries.
func TestOneCallTriesAlone(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	came, answer := make(chan struct{}, 10), make(chan int)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		came <- struct{}{}
		select {
		case status := <-answer:
			w.WriteHeader(status)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(s.Close)
	call, _ := caller(t, upstream.BreakerSettings{Failures: 2, Delay: time.Millisecond})
	do := func(ctx context.Context) error {
		_, err := call.Do(ctx, upstream.Request{Method: "GET", URL: s.URL, Header: http.Header{}, Allow: loopback, Limit: time.Minute})
		return err
	}
	begin := func(ctx context.Context) <-chan error {
		done := make(chan error, 1)
		go func() { done <- do(ctx) }()
		<-came
		return done
	}
	for range 2 {
		done := begin(t.Context())
		answer <- http.StatusServiceUnavailable
		require.NoError(t, <-done)
	}
	tries := func() (done <-chan error, leave context.CancelFunc) {
		ctx, leave := context.WithCancel(t.Context())
		for {
			ended := make(chan error, 1)
			go func() { ended <- do(ctx) }()
			select {
			case <-came:
				return ended, leave
			case err := <-ended:
				require.ErrorContains(t, err, upstream.CodeUnavailable, "the delay is not over")
			}
		}
	}
	done, leave := tries()
	require.ErrorContains(t, do(t.Context()), upstream.CodeUnavailable, "beside the one that tries")
	leave()
	require.ErrorContains(t, <-done, "CANCELLED")
	done, leave = tries()
	defer leave()
	require.ErrorContains(t, do(t.Context()), upstream.CodeUnavailable)
	answer <- http.StatusOK
	require.NoError(t, <-done)
	require.Equal(t, int64(4), asked.Load())
	require.Empty(t, call.Stopped())
}

// A process tells others when it stops calls. They go on until one of theirs gets no
// answer either, and do not tell each other for ever.
func TestOtherProcessesDoubtAnUpstream(t *testing.T) {
	t.Parallel()
	bad, asked := serve(t, nil, 503)
	good, _ := serve(t, nil, 200)
	told := make(chan string, 10)
	process := func() *upstream.Caller {
		e := egress.New(egress.Config{})
		t.Cleanup(e.Close)
		return upstream.New(upstream.Deps{
			Client: e, ResponseCap: 1 << 20, Breaker: upstream.BreakerSettings{Failures: 5, Delay: time.Hour}, Stopped: func(origin string) { told <- origin },
		})
	}
	do := func(c *upstream.Caller, url string) error {
		_, err := c.Do(t.Context(), upstream.Request{Method: "GET", URL: url, Header: http.Header{}, Allow: loopback, Limit: time.Second})
		return err
	}
	one, other := process(), process()
	for range 5 {
		require.NoError(t, do(one, bad))
	}
	require.Error(t, do(one, bad))
	require.Equal(t, bad, <-told)
	for range 3 { // however often it is told
		other.Doubt(bad)
		other.Doubt(good)
		one.Doubt(bad)
	}
	require.Empty(t, other.Stopped(), "what another process says stops nothing by itself")
	before := asked.Load()
	require.NoError(t, do(other, bad))
	require.Error(t, do(other, bad))
	require.Equal(t, before+1, asked.Load(), "one call was enough")
	require.Equal(t, bad, <-told)
	require.NoError(t, do(other, good))
	require.NoError(t, do(other, good))
	other.Doubt(good) // it answered a moment ago
	require.NoError(t, do(other, good))
	require.Empty(t, slices.DeleteFunc(other.Stopped(), func(s upstream.Stopped) bool { return s.Origin == bad }))
	require.Len(t, one.Stopped(), 1)
	require.Empty(t, told)
}

// After another process has said that an upstream gives no answer, one call tries,
// alone; where it answered this process a moment ago, none is held up.
func TestOneCallTriesWhatAnotherProcessDoubts(t *testing.T) {
	t.Parallel()
	came, answer := make(chan struct{}, 10), make(chan struct{}, 10)
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		came <- struct{}{}
		<-answer
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(answer) })
	call, _ := caller(t, upstream.BreakerSettings{Failures: 5, Delay: time.Hour})
	begin := func() <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := call.Do(t.Context(), upstream.Request{Method: "GET", URL: s.URL, Header: http.Header{}, Allow: loopback, Limit: time.Minute})
			done <- err
		}()
		return done
	}
	call.Doubt(s.URL)
	first := begin()
	<-came
	select {
	case err := <-begin():
		require.ErrorContains(t, err, upstream.CodeUnavailable)
	case <-came:
		t.Fatal("another call was sent beside the one that tries")
	}
	answer <- struct{}{}
	require.NoError(t, <-first)

	call.Doubt(s.URL)
	first, second := begin(), begin()
	require.Eventually(t, func() bool { return len(came) == 2 }, 20*time.Second, time.Millisecond, "both are sent: it has answered")
	answer <- struct{}{}
	answer <- struct{}{}
	require.NoError(t, <-first)
	require.NoError(t, <-second)
}

// However many origins are called, a bounded number is watched; those that calls are
// stopped to are not forgotten for it.
func TestManyOriginsAreForgotten(t *testing.T) {
	t.Parallel()
	call := upstream.New(upstream.Deps{Client: nowhere{}, ResponseCap: 1 << 20, Breaker: upstream.BreakerSettings{Failures: 1, Delay: time.Hour}})
	do := func(n int) error {
		_, err := call.Do(t.Context(), upstream.Request{Method: "GET", URL: fmt.Sprintf("http://host-%d.test/", n), Limit: time.Second})
		return err
	}
	for range 3 {
		_ = do(0)
	}
	require.ErrorContains(t, do(0), "nothing is sent")
	for n := range 3000 {
		require.NoError(t, do(100+n))
	}
	require.ErrorContains(t, do(0), "nothing is sent", "it is still known")
	require.Equal(t, 1000, upstream.Watched(call))
	for n := range 3000 {
		_ = do(10_000 + n%1500 + n/1500*5000) // all of them stop, too
	}
	require.Len(t, call.Stopped(), 1000)
}

// nowhere knows hosts with three or four digits only.
type nowhere struct{}

func (nowhere) Do(r *http.Request, _ []netip.Prefix) (*http.Response, error) {
	if n := len(r.URL.Host); n == len("host-100.test") || n == len("host-1000.test") {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Header: http.Header{}}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: r.URL.Host, IsNotFound: true}
}
