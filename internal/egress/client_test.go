package egress_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/portico-run/portico/internal/egress"
)

func loopback() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }

func client(t *testing.T, c egress.Config) *egress.Client {
	t.Helper()
	e := egress.New(c)
	t.Cleanup(e.Close)
	return e
}

func get(t *testing.T, c *egress.Client, target string, allow []netip.Prefix, change ...func(*http.Request)) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	for _, f := range change {
		f(r)
	}
	resp, err := c.Do(r, allow)
	if err == nil {
		t.Cleanup(func() { resp.Body.Close() })
	}
	return resp, err
}

func TestPrivateAddressesAreRefusedInEveryForm(t *testing.T) {
	t.Parallel()
	c := client(t, egress.Config{})
	for _, host := range []string{
		"127.0.0.1", "127.9.9.9", "localhost", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1",
		"169.254.169.254", "224.0.0.1", "255.255.255.255", "[::1]", "[::]", "[fe80::1]", "[fc00::1]", "[fd00:ec2::254]",
		"[::ffff:127.0.0.1]", "[::ffff:169.254.169.254]", "[64:ff9b::7f00:1]", "[ff02::1]", "[2002:7f00:1::]",
	} {
		resp, err := get(t, c, "http://"+host+":9/", nil)
		require.Error(t, err, "%s answered %v", host, resp)
		require.Equal(t, egress.Refused, egress.KindOf(err), "%s: %v", host, err)
		require.False(t, egress.BeforeWritten(err), "a refusal must not be retried")
	}
	// Numbers that some programs read as 127.0.0.1 are names here, and do not
	// resolve.
	for _, host := range []string{"2130706433", "0x7f000001", "0177.0.0.1", "127.1"} {
		_, err := get(t, c, "http://"+host+":9/", nil)
		require.Error(t, err, host)
		require.Contains(t, []egress.Kind{egress.Refused, egress.Unknown}, egress.KindOf(err), host)
	}
	for _, target := range []string{"file:///etc/passwd", "gopher://example.com", "ftp://example.com/", "http:///x"} {
		_, err := get(t, c, target, loopback())
		require.ErrorIs(t, err, egress.ErrRefused, target)
	}
}

func TestAllowedNetworksAreReachedByWhoMayOnly(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "here") }))
	t.Cleanup(server.Close)
	c := client(t, egress.Config{})
	resp, err := get(t, c, server.URL, loopback())
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "here", string(body))
	// The open connection of the one must not serve the other.
	_, err = get(t, c, server.URL, nil)
	require.Equal(t, egress.Refused, egress.KindOf(err))
	_, err = get(t, c, server.URL, []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")})
	require.Equal(t, egress.Refused, egress.KindOf(err))
}

// resolver answers every question for an address with the next of its list.
func resolver(t *testing.T, answers ...netip.Addr) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	go func() {
		buf := make([]byte, 512)
		for n := 0; ; {
			size, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:size]) != nil || len(m.Questions) == 0 {
				continue
			}
			m.Response = true
			m.Additionals = nil
			if m.Questions[0].Type == dnsmessage.TypeA {
				h := dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}
				m.Answers = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.AResource{A: answers[min(n, len(answers)-1)].As4()}}}
				n++
			}
			if packed, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(packed, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func TestNamesAreCheckedByWhatTheyResolveTo(t *testing.T) {
	t.Parallel()
	c := client(t, egress.Config{Resolver: resolver(t, netip.MustParseAddr("127.0.0.1"))})
	_, err := get(t, c, "http://innocent.example.com/", nil)
	require.Equal(t, egress.Refused, egress.KindOf(err), err)

	// A name that changes its mind between two requests is checked each time.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") }))
	t.Cleanup(server.Close)
	port := server.URL[strings.LastIndex(server.URL, ":"):]
	c = client(t, egress.Config{Resolver: resolver(t, netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("169.254.169.254"))})
	_, err = get(t, c, "http://rebinding.example.com"+port, loopback())
	require.NoError(t, err)
	_, err = get(t, c, "http://rebinding.example.com"+port, loopback())
	require.Equal(t, egress.Refused, egress.KindOf(err), err)
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	var seen http.Header
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		io.WriteString(w, "arrived")
	}))
	t.Cleanup(target.Close)
	var first *httptest.Server
	first = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := map[string]string{
			"/same": first.URL + "/end", "/other": target.URL + "/x", "/metadata": "http://169.254.169.254/latest",
			"/file": "file:///etc/passwd", "/loop": first.URL + "/loop", "/private": "http://10.0.0.1/",
		}[r.URL.Path]
		if to == "" {
			seen = r.Header.Clone()
			return
		}
		http.Redirect(w, r, to, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(first.Close)
	c := client(t, egress.Config{})
	secret := func(r *http.Request) {
		for _, name := range []string{"Authorization", "X-Api-Key", "X-Custom", "Cookie"} {
			r.Header.Set(name, "secret")
		}
		r.Header.Set("Accept", "application/json")
	}
	_, err := get(t, c, first.URL+"/same?key=secret", loopback(), secret)
	require.NoError(t, err)
	require.Equal(t, "secret", seen.Get("X-Api-Key"))
	require.Empty(t, seen.Get("Referer"))

	_, err = get(t, c, first.URL+"/other?key=secret", loopback(), secret)
	require.NoError(t, err)
	for name, values := range seen {
		require.NotContains(t, strings.Join(values, " "), "secret", name)
	}
	require.Equal(t, "application/json", seen.Get("Accept"))

	for _, path := range []string{"/metadata", "/file", "/loop", "/private"} {
		_, err = get(t, c, first.URL+path, loopback(), secret)
		require.Equal(t, egress.Refused, egress.KindOf(err), "%s: %v", path, err)
	}

	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, first.URL+"/other", strings.NewReader("private"))
	require.NoError(t, err)
	_, err = c.Do(r, loopback())
	require.ErrorIs(t, err, egress.ErrRefused)
}

func TestProxiesOfTheEnvironmentAreIgnored(t *testing.T) {
	proxied := false
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { proxied = true }))
	t.Cleanup(proxy.Close)
	t.Setenv("HTTP_PROXY", proxy.URL)
	// The proxy itself may be reached: only the target is refused.
	_, err := get(t, client(t, egress.Config{}), "http://10.0.0.1/", loopback())
	require.Equal(t, egress.Refused, egress.KindOf(err))
	require.False(t, proxied)
}

func TestKinds(t *testing.T) {
	t.Parallel()
	c := client(t, egress.Config{})
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed.Close()
	_, err = get(t, c, "http://"+closed.Addr().String(), loopback())
	require.Equal(t, egress.Dial, egress.KindOf(err))
	require.True(t, egress.BeforeWritten(err))

	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	_, err = get(t, c, secure.URL, loopback())
	require.Equal(t, egress.TLS, egress.KindOf(err), err)

	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	_, err = get(t, c, strings.Replace(plain.URL, "http:", "https:", 1), loopback())
	require.Error(t, err)
	require.False(t, egress.BeforeWritten(err))

	cut := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(cut.Close)
	_, err = get(t, c, cut.URL, loopback())
	require.Equal(t, egress.Broken, egress.KindOf(err))
	require.False(t, egress.BeforeWritten(err))

	hang := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(hang.Close)
	for want, end := range map[egress.Kind]func() (context.Context, context.CancelFunc){
		egress.Timeout:  func() (context.Context, context.CancelFunc) { return context.WithTimeout(t.Context(), 1) },
		egress.Canceled: func() (context.Context, context.CancelFunc) { return canceled(t.Context()) },
	} {
		ctx, cancel := end()
		_, err = get(t, c, hang.URL, loopback(), func(r *http.Request) { *r = *r.WithContext(ctx) })
		cancel()
		require.Equal(t, want, egress.KindOf(err), err)
	}
	require.Equal(t, egress.Unknown, egress.KindOf(&url.Error{Err: &net.DNSError{}}))
	require.Equal(t, egress.Broken, egress.KindOf(errors.New("anything")))
}

func TestWhatWasSentIsKnown(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed.Close()
	redirects := httptest.NewServer(http.RedirectHandler("http://"+closed.Addr().String(), http.StatusSeeOther))
	t.Cleanup(redirects.Close)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	breaks := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(breaks.Close)
	hangsUp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { hangsUp.Close() })
	go func() {
		for {
			conn, err := hangsUp.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	for name, c := range map[string]struct {
		url, header string
		kind        egress.Kind
		sent, again bool
	}{
		"no connection":                    {"http://" + closed.Addr().String(), "", egress.Dial, false, true},
		"no connection after a redirect":   {redirects.URL, "", egress.Dial, true, false},
		"a certificate that is not known":  {secure.URL, "", egress.TLS, false, false},
		"an end in the handshake":          {"https://" + hangsUp.Addr().String(), "", egress.Dial, false, true},
		"an end after the request":         {breaks.URL, "", egress.Broken, true, false},
		"a header that HTTP cannot carry":  {redirects.URL, "a\x01b", egress.Invalid, false, false},
		"an address that may not be asked": {"http://10.0.0.1", "", egress.Refused, false, false},
	} {
		_, err := get(t, client(t, egress.Config{}), c.url, loopback(), func(r *http.Request) { r.Header.Set("X-Note", c.header) })
		require.Equal(t, c.kind, egress.KindOf(err), "%s: %v", name, err)
		require.Equal(t, c.sent, egress.Sent(err), "%s: %v", name, err)
		require.Equal(t, c.again, egress.BeforeWritten(err), "%s: %v", name, err)
	}
}

func canceled(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx, cancel
}

// An address may hold a signature, and errors are logged.
func TestErrorsNameNoAddress(t *testing.T) {
	t.Parallel()
	c := egress.New(egress.Config{})
	defer c.Close()
	local := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	web := httptest.NewServer(http.RedirectHandler("http://127.0.0.1:1/f?signature=secret", http.StatusFound))
	defer web.Close()
	for _, address := range []string{"http://127.0.0.1:1/f?signature=secret", web.URL + "/?signature=secret", "http://none.invalid/?signature=secret", "http://10.0.0.1/?signature=secret"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		require.NoError(t, err)
		_, err = c.Do(r, local)
		require.Error(t, err, address)
		require.NotContains(t, err.Error(), "secret")
	}
}
