package demo_test

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/demo"
)

func ask(t *testing.T, method, url, body string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("X-Demo-Key", demo.Key)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, strings.TrimSpace(string(text))
}

func TestHandler(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(demo.Handler())
	t.Cleanup(s.Close)
	form := []string{"Content-Type", "application/x-www-form-urlencoded"}
	for _, c := range []struct {
		method, path, body string
		headers            []string
		status             int
		want               string
	}{
		{"GET", "/cities?min_population=11000000", "", nil, 200, `{"cities":[{"name":"Tokyo","country":"Japan","currency":"JPY","population":13900000}]}`},
		{"GET", "/cities/rome/weather?days=1", "", nil, 200, `{"city":"Rome","forecast":[{"celsius":13,"day":1,"sky":"clear"}]}`},
		{"GET", "/cities/Atlantis/weather?days=1", "", nil, 404, `{"message":"There is no weather for \"Atlantis\""}`},
		{"GET", "/cities/Rome/weather?days=15", "", nil, 400, `{"message":"days must be 1 to 14"}`},
		{"POST", "/convert", `{"amount":10,"from":"USD","to":"EUR"}`, nil, 200, `{"amount":9,"currency":"EUR"}`},
		{"POST", "/convert", `{"amount":10,"from":"USD","to":"XXX"}`, nil, 400, `{"message":"Unknown currency"}`},
		{"POST", "/convert", `{`, nil, 400, `{"message":"The body must be JSON"}`},
		{"POST", "/notes", "title=t&text=h%C3%A9", form, 200, `{"characters":2,"saved":"t"}`},
		{"GET", "/slow?ms=1", "", nil, 200, `{"waited":1}`},
		{"GET", "/slow?ms=99999", "", nil, 400, `{"message":"ms must be 0 to 10000"}`},
		{"GET", "/outage", "", nil, 500, `{"message":"This endpoint always fails, to show what a failed call looks like"}`},
		{"GET", "/cities", "", []string{"X-Demo-Key", "wrong"}, 401, `{"message":"X-Demo-Key is missing or wrong"}`},
	} {
		status, body := ask(t, c.method, s.URL+c.path, c.body, c.headers...)
		require.Equal(t, c.status, status, c.path)
		require.Equal(t, c.want, body)
	}
}

func TestStartAndStop(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	// Something else holds the address.
	other := &http.Server{Handler: http.NotFoundHandler()}
	go func() { _ = other.Serve(l) }()
	d := demo.Deps{Listen: address, Logger: slog.New(slog.DiscardHandler)}
	require.ErrorContains(t, demo.New(d).Start(t.Context()), "DEMO_LISTEN")
	require.NoError(t, other.Close())

	first := demo.New(d)
	require.NoError(t, first.Start(t.Context()))
	second := demo.New(d)
	require.NoError(t, second.Start(t.Context()), "the service of another process is used")
	require.NoError(t, second.Stop(t.Context()))
	status, _ := ask(t, "GET", demo.URL(address)+"/cities", "")
	require.Equal(t, 200, status)
	require.NoError(t, first.Stop(t.Context()))
	require.NoError(t, first.Stop(t.Context()))
	_, err = net.Dial("tcp", address)
	require.Error(t, err)
}

// The made-up shop: thirty tools, filters that filter, and data that never
// changes, which the agent's demo relies on.
func TestShop(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(demo.Handler())
	t.Cleanup(s.Close)
	for _, c := range []struct {
		path   string
		status int
		want   string
	}{
		{"/shop/orders/count", 200, `{"count":720}`},
		{"/shop/orders/count?region=South&month=2026-03&status=paid", 200, `{"count":19}`},
		{"/shop/orders/order-001", 200, `{"amount":40,"customer":"cust-001","id":"order-001","month":"2026-02","product":"prod-001","region":"South","status":"open"}`},
		{"/shop/orders/order-999", 404, `{"message":"There is no order \"order-999\""}`},
		{"/shop/stores?limit=1", 200, `{"stores":[{"area":200,"id":"store-001","name":"store-001","region":"South"}]}`},
	} {
		status, body := ask(t, "GET", s.URL+c.path, "")
		require.Equal(t, c.status, status, c.path)
		require.Equal(t, c.want, body)
	}
	file, err := demo.ShopFile("shop")
	require.NoError(t, err)
	require.Equal(t, 30, strings.Count(string(file), `"endpoint"`))
}
