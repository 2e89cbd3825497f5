package connect_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/egress"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/modules/connector/connectortest"
	"github.com/portico-run/portico/modules/connector/mcp/authorize"
	"github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/connector/oauth"
	"github.com/portico-run/portico/modules/connector/oauth/connect"
	"github.com/portico-run/portico/modules/connector/oauth/oauthtest"
)

// users know anna by a key and a session.
type users struct{}

// Authenticate implements httpapi.Authenticator.
func (users) Authenticate(_ context.Context, c httpapi.Credentials) (actor.Actor, error) {
	switch {
	case c.APIKey == "rf_anna", c.Token == "session-of-anna":
		return actor.Actor{UID: "u-anna", Scope: actor.Full}, nil
	case c.APIKey == "rf_sandbox":
		return actor.Actor{UID: "u-anna", Scope: actor.ToolExecute}, nil
	}
	return actor.Actor{}, errs.New(errs.Unauthorized, "Invalid API key")
}

// browser is one that keeps cookies and follows nothing.
type browser struct {
	t       *testing.T
	base    string
	cookies []*http.Cookie
}

type page struct {
	*http.Response

	text string
}

func (b *browser) send(method, path, form string, headers ...string) page {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.base+path, strings.NewReader(form))
	require.NoError(b.t, err)
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	for _, c := range b.cookies {
		r.AddCookie(c)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(b.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(b.t, err)
	b.cookies = append(b.cookies, resp.Cookies()...)
	return page{resp, string(text)}
}

func start(t *testing.T, db *database.DB) (*oauthtest.Server, *oauth.Service, string) {
	t.Helper()
	connectortest.Exec(t, db, `INSERT INTO users (uid, name) VALUES ('u-anna', 'anna')`)
	box, err := secretbox.New(strings.Repeat("0a", 32))
	require.NoError(t, err)
	client := egress.New(egress.Config{})
	t.Cleanup(client.Close)
	servers := server.New(server.Deps{DB: db, Box: box})
	upstream := oauthtest.Start(t, oauthtest.Settings{})
	require.NoError(t, servers.Operators().Add(t.Context(), "", server.Spec{
		Name: "docs", Transport: server.HTTP, URL: upstream.URL, OAuth: true, Egress: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}))
	const endpoint = "https://portico.test"
	s := oauth.New(oauth.Deps{DB: db, Box: box, Client: client, Kind: authorize.Kind(servers), Endpoint: endpoint})
	a := httpapi.New(httpapi.Deps{Auth: users{}, Logger: slog.New(slog.DiscardHandler), BodyLimit: 1 << 20, Endpoint: endpoint})
	connect.New(s, users{}, endpoint).Register(a)
	web := httptest.NewServer(a)
	t.Cleanup(web.Close)
	return upstream, s, web.URL
}

func connected(t *testing.T, db *database.DB) bool {
	t.Helper()
	var n int64
	require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw(`SELECT count(*) FROM mcp_credentials WHERE uid = 'u-anna' AND tokens IS NOT NULL`).Scan(&n).Error)
	return n == 1
}

// A person opens the page, gives a key, agrees there and comes back; nothing else
// is needed.
func TestAPersonConnectsInABrowser(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		upstream, _, base := start(t, db)
		b := &browser{t: t, base: base}
		p := b.send("GET", "/v1/mcp/connect/docs", "")
		require.Equal(t, 200, p.StatusCode)
		require.Contains(t, p.text, `<form method="post"`)
		for _, key := range []string{"rf_nobody", "rf_sandbox", ""} {
			p = b.send("POST", "/v1/mcp/connect/docs", "key="+key)
			require.Contains(t, []int{401, 403}, p.StatusCode, key)
			require.Contains(t, p.text, "<form")
		}
		for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example.com"}} {
			p = b.send("POST", "/v1/mcp/connect/docs", "key=rf_anna", headers...)
			require.Equal(t, 403, p.StatusCode, "a page of another site begins nothing")
		}
		require.Empty(t, b.cookies)
		p = b.send("POST", "/v1/mcp/connect/docs", "key=rf_anna", "Sec-Fetch-Site", "same-origin")
		require.Equal(t, 303, p.StatusCode, p.text)
		require.Len(t, b.cookies, 1)
		require.True(t, b.cookies[0].HttpOnly && b.cookies[0].Secure && b.cookies[0].SameSite == http.SameSiteLaxMode, "%v", b.cookies[0])
		back := upstream.Agree(t, "u-anna", p.Header.Get("Location"))
		p = b.send("GET", "/v1/mcp/oauth/callback?"+back.Encode(), "")
		require.Equal(t, 200, p.StatusCode, p.text)
		require.Contains(t, p.text, "<h1>Connected</h1>")
		require.Contains(t, p.Header.Get("Content-Security-Policy"), "default-src 'none'")
		require.Equal(t, "no-store", p.Header.Get("Cache-Control"))
		require.True(t, connected(t, db))
		p = b.send("GET", "/v1/mcp/oauth/callback?"+back.Encode(), "")
		require.Equal(t, 404, p.StatusCode, "an answer counts once")
	})
}

// A browser with a session goes on at once.
func TestASessionNeedsNoKey(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		upstream, _, base := start(t, db)
		b := &browser{t: t, base: base, cookies: []*http.Cookie{{Name: "_rf_access", Value: "session-of-anna"}}}
		p := b.send("GET", "/v1/mcp/connect/docs", "")
		require.Equal(t, 303, p.StatusCode, p.text)
		p = b.send("GET", "/v1/mcp/oauth/callback?"+upstream.Agree(t, "u-anna", p.Header.Get("Location")).Encode(), "")
		require.Contains(t, p.text, "<h1>Connected</h1>")
		require.True(t, connected(t, db))
	})
}

// Who begins with a key elsewhere gets a code from the browser that came back, and
// sends it with the key.
func TestABrowserThatIsNotKnownShowsACode(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		upstream, s, base := start(t, db)
		began, err := s.Connect(t.Context(), actor.Actor{UID: "u-anna"}, "docs")
		require.NoError(t, err)
		b := &browser{t: t, base: base, cookies: []*http.Cookie{{Name: "portico_mcp_connect", Value: "guessed"}}}
		p := b.send("GET", "/v1/mcp/oauth/callback?"+upstream.Agree(t, "u-anna", began.URL).Encode(), "")
		require.Equal(t, 200, p.StatusCode)
		require.False(t, connected(t, db))
		code := regexp.MustCompile(`<code>([A-Z0-9]{4}-[A-Z0-9]{4})</code>`).FindStringSubmatch(p.text)
		require.Len(t, code, 2, p.text)
		require.NoError(t, s.Confirm(t.Context(), actor.Actor{UID: "u-anna"}, "docs", code[1]))
		require.True(t, connected(t, db))
	})
}

// What an authorization server says is shown as text.
func TestPagesShowWordsOfOthersAsText(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		_, s, base := start(t, db)
		began, err := s.Connect(t.Context(), actor.Actor{UID: "u-anna"}, "docs")
		require.NoError(t, err)
		asked, err := url.Parse(began.URL)
		require.NoError(t, err)
		b := &browser{t: t, base: base}
		p := b.send("GET", "/v1/mcp/oauth/callback?"+url.Values{
			"state": {asked.Query().Get("state")}, "error": {"access_denied"}, "error_description": {"<script>alert(1)</script>"},
			"iss": {strings.TrimSuffix(asked.Scheme+"://"+asked.Host, "/")},
		}.Encode(), "")
		require.Equal(t, 403, p.StatusCode)
		require.Contains(t, p.text, "&lt;script&gt;")
		require.NotContains(t, p.text, "<script")
		p = b.send("GET", "/v1/mcp/connect/%3Cscript%3E", "")
		require.NotContains(t, p.text, "<script")
	})
}
