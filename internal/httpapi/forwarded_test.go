package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/httpapi"
)

func TestForwarded(t *testing.T) {
	t.Parallel()
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	for name, c := range map[string]struct {
		from   string
		header []string
		want   string
	}{
		"nobody in between":               {"192.0.2.7:999", nil, "192.0.2.7:999"},
		"what a stranger writes":          {"192.0.2.7:999", []string{"198.51.100.1"}, "192.0.2.7:999"},
		"one proxy":                       {"10.1.1.1:999", []string{"198.51.100.1"}, "198.51.100.1:0"},
		"two proxies":                     {"10.1.1.1:999", []string{"198.51.100.1, 10.2.2.2"}, "198.51.100.1:0"},
		"two headers":                     {"10.1.1.1:999", []string{"198.51.100.1", "10.2.2.2"}, "198.51.100.1:0"},
		"what a stranger wrote before":    {"10.1.1.1:999", []string{"203.0.113.9, 198.51.100.1"}, "198.51.100.1:0"},
		"a stranger who says to be one":   {"10.1.1.1:999", []string{"203.0.113.9, 10.9.9.9, 198.51.100.1"}, "198.51.100.1:0"},
		"the proxy itself":                {"10.1.1.1:999", nil, "10.1.1.1:999"},
		"nonsense":                        {"10.1.1.1:999", []string{"198.51.100.1, unknown"}, "10.1.1.1:999"},
		"nonsense that a proxy was given": {"10.1.1.1:999", []string{"unknown, 10.2.2.2"}, "10.2.2.2:0"},
		"with a port":                     {"10.1.1.1:999", []string{"198.51.100.1:8080"}, "198.51.100.1:0"},
		"IPv6":                            {"[::1]:999", []string{"[2001:db8::1]:80"}, "[2001:db8::1]:0"},
		"IPv6 without a port":             {"[::1]:999", []string{"2001:db8::1"}, "[2001:db8::1]:0"},
		"IPv4 in IPv6":                    {"[::ffff:10.1.1.1]:999", []string{"::ffff:198.51.100.1"}, "198.51.100.1:0"},
		"no address":                      {"@", []string{"198.51.100.1"}, "@"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
			r.RemoteAddr = c.from
			for _, h := range c.header {
				r.Header.Add("X-Forwarded-For", h)
			}
			got := ""
			httpapi.Forwarded(trusted, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.RemoteAddr })).ServeHTTP(httptest.NewRecorder(), r)
			require.Equal(t, c.want, got)
		})
	}
}
