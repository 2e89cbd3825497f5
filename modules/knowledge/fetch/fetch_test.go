package fetch_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/portico-run/portico/internal/egress"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/knowledge/fetch"
	"github.com/portico-run/portico/modules/knowledge/read"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/forkserver"
	"github.com/portico-run/portico/modules/sandbox/guest"
	"github.com/portico-run/portico/modules/sandbox/sandboxtest"
)

func loopback() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }

// service fetches within the rules of egress, from networks that are opened.
func service(t *testing.T, change ...func(*fetch.Deps)) *fetch.Service {
	t.Helper()
	client := egress.New(egress.Config{})
	t.Cleanup(client.Close)
	d := fetch.Deps{Client: client, Settings: fetch.Settings{MaxBytes: 1 << 20, Timeout: 20 * time.Second, Egress: loopback(), MaxPages: 10, MaxFile: 1 << 20}}
	for _, f := range change {
		f(&d)
	}
	return fetch.New(d).Service
}

func engine(t *testing.T) *sandbox.Engine {
	t.Helper()
	root := sandboxtest.Root()
	testenv.Sandbox(t, root)
	driver, err := forkserver.New(guest.Config{Root: root, Preload: []string{"pandas"}})
	require.NoError(t, err)
	e := sandbox.New(sandbox.Deps{Driver: driver, MaxConcurrent: 2, MaxQueue: 100, Queue: sandbox.Queue{Timeout: time.Minute}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, e.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, e.Stop(context.WithoutCancel(t.Context()))) })
	return e
}

func site(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	return web.URL
}

func words(err error) string {
	if e, ok := errors.AsType[*errs.Error](err); ok {
		return e.Message + " " + e.Detail
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// resolver answers every question with one address.
func resolver(t *testing.T, address string) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	go func() {
		buf := make([]byte, 512)
		for {
			size, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:size]) != nil || len(m.Questions) == 0 {
				continue
			}
			m.Response, m.Additionals = true, nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				h := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: dnsmessage.ClassINET}
				m.Answers = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.AResource{A: netip.MustParseAddr(address).As4()}}}
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

func TestPrivateAddressesAreNotFetched(t *testing.T) {
	t.Parallel()
	closed := func(d *fetch.Deps) { d.Settings.Egress = nil }
	s := service(t, closed)
	for _, host := range []string{
		"127.0.0.1", "[::1]", "169.254.169.254", "10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "0.0.0.0", "localhost",
		"[::ffff:127.0.0.1]", "[::ffff:a9fe:a9fe]", "[fd00::1]", "[fe80::1]", "[64:ff9b::a00:1]",
	} {
		_, err := s.Markdown(t.Context(), "http://"+host+":9/latest/meta-data", "")
		require.ErrorIs(t, err, fetch.ErrRefused, "%s: %v", host, err)
	}
	for _, host := range []string{"2130706433", "0x7f.1", "0177.0.0.1", "127.1"} { // names here, which do not resolve
		_, err := s.Markdown(t.Context(), "http://"+host+":9/", "")
		require.Error(t, err, host)
	}
	named := service(t, closed, func(d *fetch.Deps) { d.Client = egress.New(egress.Config{Resolver: resolver(t, "10.1.2.3")}) })
	_, err := named.Markdown(t.Context(), "http://innocent.example.com/", "")
	require.ErrorIs(t, err, fetch.ErrRefused)
	require.NotContains(t, words(err), "10.1.2.3", "what a name resolves to is not told")

	for _, address := range []string{"", "example.com", "ftp://example.com/", "file:///etc/passwd", "http://", "https://user:secret@example.com/", "http://[::1"} {
		_, err := s.Markdown(t.Context(), address, "")
		require.ErrorIs(t, err, fetch.ErrAddress, address)
	}
}

func TestRedirectsAreFollowedWithinTheRules(t *testing.T) {
	t.Parallel()
	web := site(t, func(w http.ResponseWriter, r *http.Request) {
		to := map[string]string{"/private": "http://10.0.0.1/", "/metadata": "http://169.254.169.254/latest", "/file": "file:///etc/passwd", "/six": "/5", "/five": "/4"}[r.URL.Path]
		if n := strings.TrimPrefix(r.URL.Path, "/"); len(n) == 1 {
			to = fmt.Sprintf("/%c", n[0]-1)
			if n == "0" {
				w.Header().Set("Content-Type", "text/plain")
				_, _ = io.WriteString(w, "arrived")
				return
			}
		}
		http.Redirect(w, r, to, http.StatusFound)
	})
	s := service(t)
	for _, path := range []string{"/private", "/metadata", "/file"} {
		_, err := s.Markdown(t.Context(), web+path, "")
		require.ErrorIs(t, err, fetch.ErrRefused, path)
	}
	got, err := s.Markdown(t.Context(), web+"/five", "")
	require.NoError(t, err)
	require.Equal(t, "arrived", got)
	_, err = s.Markdown(t.Context(), web+"/six", "")
	require.ErrorIs(t, err, fetch.ErrRefused)
	require.Contains(t, words(err), "more than 5 redirects")
}

const article = `<html><head><title>Pumps | Site</title></head><body><nav><a href="/">Home</a></nav><main><h1>Pumps</h1>
<p>A pump moves water. See <a href="valves#small">valves</a>.</p><pre><code class="language-go">x := 1</code></pre>
<table><tr><th>Part</th></tr><tr><td>Seal</td></tr></table></main></body></html>`

func TestPagesAreReturnedByTheirType(t *testing.T) {
	t.Parallel()
	var agent string
	web := site(t, func(w http.ResponseWriter, r *http.Request) {
		agent = r.UserAgent()
		kind, text := "text/html; charset=utf-8", ""
		switch r.URL.Path {
		case "/docs/page":
			text = article
		case "/moved":
			http.Redirect(w, r, "/docs/page", http.StatusFound)
			return
		case "/data.json":
			kind, text = "application/json", `{"a": [1, 2]}`
		case "/notes":
			kind, text = "text/plain; charset=iso-8859-1", "caf\xe9 <b>"
		case "/README.md":
			kind, text = "text/plain", "# Skiff\n\nA queue.\n\n## Use\n\nPush."
		case "/app":
			text = `<body><div id="root"></div><script src="/a.js"></script></body>`
		case "/cat.png":
			kind, text = "image/png", "\x89PNG\r\n\x1a\n"
		case "/large":
			text = strings.Repeat("x", 1<<20+1)
		case "/packed":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.Copy(z, io.LimitReader(zeros{}, 64<<20))
			_ = z.Close()
			return
		case "/gone":
			w.WriteHeader(http.StatusGone)
			return
		}
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, text)
	})
	s := service(t)
	page := "# Pumps\n\nSource: " + web + "/docs/page\n\nA pump moves water. See [valves](" + web + "/docs/valves#small).\n\n```go\nx := 1\n```\n\n| Part |\n|---|\n| Seal |\n"
	for path, want := range map[string]string{
		"/docs/page#part": page, "/moved": page, "/data.json": `{"a": [1, 2]}`, "/notes": "café <b>",
		"/README.md": "# Skiff\n\nSource: " + web + "/README.md\n\nA queue.\n\n## Use\n\nPush.\n",
	} {
		got, err := s.Markdown(t.Context(), web+path, "")
		require.NoError(t, err, path)
		require.Equal(t, want, got, path)
	}
	require.Contains(t, agent, "Portico")
	for path, want := range map[string]string{
		"/app": "without a browser", "/cat.png": "image/png", "/large": "FETCH_MAX_BYTES", "/packed": "FETCH_MAX_BYTES", "/gone": "410 Gone",
	} {
		_, err := s.Markdown(t.Context(), web+path, "")
		require.Contains(t, words(err), want, path)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestFetchingEndsInTime(t *testing.T) {
	t.Parallel()
	web := site(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "a beginning")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	s := service(t, func(d *fetch.Deps) { d.Settings.Timeout = 50 * time.Millisecond })
	_, err := s.Markdown(t.Context(), web, "")
	failed, ok := errors.AsType[*upstream.Failure](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, upstream.CodeTimeout, failed.Code)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Markdown(ctx, web, "")
	require.ErrorIs(t, err, context.Canceled)
}

func TestPDFOfTheWebIsReadInTheSandbox(t *testing.T) {
	t.Parallel()
	e := engine(t)
	made, err := e.Run(t.Context(), sandbox.Job{Timeout: time.Minute, Collect: sandbox.Collect{MaxFiles: 1, MaxBytes: 1 << 20}, Code: `
from reportlab.pdfgen import canvas
c = canvas.Canvas("made"); c.setTitle("Tides"); c.drawString(100, 700, "High water at noon."); c.save()`})
	require.NoError(t, err)
	require.Len(t, made.Outputs, 1, made.Stderr)
	web := site(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/pdf")
		_, _ = w.Write(made.Outputs[0].Content)
	})
	got, err := service(t, func(d *fetch.Deps) { d.Sandbox = e }).Markdown(t.Context(), web+"/tides", "")
	require.NoError(t, err)
	require.Equal(t, "# Tides\n\nSource: "+web+"/tides\n\n## Page 1\n\nHigh water at noon.\n", got)
}

// known are validators by address.
type known map[string]fetch.Validators

func (k known) Validators(_ context.Context, address string) (fetch.Validators, error) {
	return k[address], nil
}

func packed(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	return b.String()
}

func urls(list ...string) string {
	return `<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>` + strings.Join(list, "</loc><lastmod>2026-01-01</lastmod></url><url><loc> ") + "</loc></url></urlset>"
}

func TestSitesAreReadByTheirSitemapAndRobots(t *testing.T) {
	t.Parallel()
	other := site(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, article) })
	web := ""
	web = site(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/robots.txt":
			_, _ = io.WriteString(w, "User-agent: *\nDisallow: /\n\nUser-agent: other\nUser-agent: Portico\nDisallow: /secret\nAllow: /secret/open$\nCrawl-delay: 900\n")
		case "/sitemap.xml":
			_, _ = io.WriteString(w, `<sitemapindex><sitemap><loc>`+web+`/a.xml</loc></sitemap><sitemap><loc>`+web+`/b.xml.gz</loc></sitemap><sitemap><loc>https://other.example/c.xml</loc></sitemap></sitemapindex>`)
		case "/a.xml":
			_, _ = io.WriteString(w, urls(web+"/one", web+"/one#again", web+"/secret/plan", web+"/secret/open", "https://other.example/x"))
		case "/b.xml.gz":
			_, _ = io.WriteString(w, packed(urls(web+"/kept", web+"/missing", web+"/away", web+"/hidden")))
		case "/kept":
			if r.Header.Get("If-None-Match") == `"v1"` {
				w.WriteHeader(http.StatusNotModified)
			}
		case "/away":
			http.Redirect(w, r, other+"/one", http.StatusFound)
		case "/hidden":
			http.Redirect(w, r, "/secret/plan", http.StatusFound)
		case "/one", "/secret/open", "/secret/plan":
			w.Header().Set("ETag", `"v2"`)
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, article)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	var waits []time.Duration
	s := service(t, func(d *fetch.Deps) {
		d.Wait = func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil }
	})
	got := map[string]string{}
	require.NoError(t, s.Site(t.Context(), web+"/sitemap.xml", known{web + "/kept": {ETag: `"v1"`}}, func(f fetch.Fetched) error {
		what := f.Document.Title + " " + f.Validators.ETag
		switch {
		case f.Err != nil:
			what = words(f.Err)
		case f.Unchanged:
			what = "unchanged " + f.Validators.ETag
		}
		got[strings.TrimPrefix(f.URL, web)] = what
		return nil
	}))
	for address, want := range map[string]string{
		"/one": `Pumps "v2"`, "/secret/open": `Pumps "v2"`, "/kept": `unchanged "v1"`, "/secret/plan": "robots.txt", "/hidden": "robots.txt",
		"/missing": "404", "/away": "another host", "https://other.example/x": "another host", "https://other.example/c.xml": "another host",
	} {
		require.Contains(t, got[address], want, address)
	}
	require.Len(t, got, 9)
	require.Len(t, waits, 6)
	require.Equal(t, 10*time.Second, waits[0], "a site may ask for so much at most")

	failed := errors.New("full")
	require.ErrorIs(t, s.Site(t.Context(), web+"/a.xml", known{}, func(fetch.Fetched) error { return failed }), failed)
}

func TestAllRulesOfARobotsFileCount(t *testing.T) {
	t.Parallel()
	rules, web := "", ""
	web = site(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/robots.txt":
			_, _ = io.WriteString(w, rules)
		case "/sitemap.xml":
			_, _ = io.WriteString(w, urls(web+"/open", web+"/secret/plan.html?a=1"))
		default:
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, article)
		}
	})
	s := service(t, func(d *fetch.Deps) {
		d.Wait = func(context.Context, time.Duration) error { return nil }
	})
	const all = "User-agent: *\n"
	const half = all + "Disallow: /\nAllow: /open\n#"
	for _, c := range []struct{ what, rules, refused string }{
		{"a mark of the byte order", "\ufeff" + all + "Disallow: /secret\n", "/secret"},
		{"many rules", all + strings.Repeat("Disallow: /a\n", 4000) + "Disallow: /secret\n", "/secret"},
		{"half a rule at the end", half + strings.Repeat("x", 500<<10-len(half+"\nAllow: /secret/")) + "\nAllow: /secret/other\n", "/secret"},
		{"anything", all + "Disallow: *\n", "/open /secret"},
		{"anything in between", all + "Disallow: /s*/p*.html\n", "/secret"},
		{"in another order", all + "Disallow: /s*.html*plan\n", ""},
		{"the end", all + "Disallow: /s*plan*=1$\n", "/secret"},
		{"another end", all + "Disallow: /s*.html$\nDisallow: /ope$\n", ""},
		{"all of it", all + "Disallow: /open$\n", "/open"},
	} {
		rules = c.rules
		var refused []string
		require.NoError(t, s.Site(t.Context(), web+"/sitemap.xml", known{}, func(f fetch.Fetched) error {
			if f.Err != nil {
				require.Contains(t, words(f.Err), "robots.txt", c.what)
				refused = append(refused, strings.TrimSuffix(strings.TrimPrefix(f.URL, web), "/plan.html?a=1"))
			}
			return nil
		}), c.what)
		slices.Sort(refused)
		require.Equal(t, c.refused, strings.Join(refused, " "), c.what)
	}
}

func TestSitemapsThatCannotBeReadSayWhy(t *testing.T) {
	t.Parallel()
	web := ""
	fail := false
	web = site(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/robots.txt":
			if fail {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			w.WriteHeader(http.StatusNotFound)
		case "/many.xml":
			list := make([]string, 11)
			for n := range list {
				list[n] = fmt.Sprintf("%s/%d", web, n)
			}
			_, _ = io.WriteString(w, urls(list...))
		case "/bomb.xml.gz":
			_, _ = io.WriteString(w, packed(strings.Repeat(" ", 2<<20)))
		case "/page":
			_, _ = io.WriteString(w, article)
		case "/deep.xml":
			_, _ = io.WriteString(w, "<urlset>"+strings.Repeat("<a>", 1000))
		}
	})
	s := service(t)
	never := func(fetch.Fetched) error { return errors.New("nothing is fetched") }
	for path, want := range map[string]string{"/many.xml": "FETCH_MAX_PAGES", "/bomb.xml.gz": "FETCH_MAX_BYTES", "/page": "sitemap in XML", "/deep.xml": "sitemap in XML"} {
		err := s.Site(t.Context(), web+path, known{}, never)
		require.ErrorIs(t, err, fetch.ErrSitemap, path)
		require.Contains(t, words(err), want)
	}
	fail = true
	require.ErrorContains(t, s.Site(t.Context(), web+"/many.xml", known{}, never), "robots.txt")
}

func TestOneAddressIsReadAsADocument(t *testing.T) {
	t.Parallel()
	web := site(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, article) })
	f, err := service(t).Document(t.Context(), web+"/p", fetch.Validators{})
	require.NoError(t, err)
	require.Equal(t, "Pumps", f.Document.Title)
	require.NotEmpty(t, read.Split(f.Document, read.SplitOptions{}))
}
