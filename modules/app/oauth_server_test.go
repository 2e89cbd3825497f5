package app_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/account"
	"github.com/portico-run/portico/modules/account/oidc"
	"github.com/portico-run/portico/modules/account/oidc/oidctest"
)

const appCallback = "http://127.0.0.1:7100/callback"

// eachApp runs a test on servers that know their own address.
func eachApp(t *testing.T, test func(t *testing.T, s *instance)) {
	t.Helper()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			test(t, serveAt(t, d))
		})
	}
}

// serveAt starts a server that is reached at an address of its own, which it knows
// before it starts: at 127.0.0.1, where clients do without TLS.
func serveAt(t *testing.T, d database.Dialect, more ...string) *instance {
	t.Helper()
	var direct *instance
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = "http", strings.TrimPrefix(direct.url, "http://")
	}})
	t.Cleanup(front.Close)
	direct = serve(t, databasetest.URL(t, d), append(more, "ENDPOINT="+front.URL)...)
	behind := *direct
	behind.url = front.URL
	return &behind
}

// visitor is somebody with a browser, who is signed in.
type visitor struct {
	t      testing.TB
	s      *instance
	client *http.Client
}

func (s *instance) visitor(key string) *visitor {
	s.t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(s.t, err)
	p := &visitor{s.t, s, &http.Client{Jar: jar}}
	if key != "" {
		status, page := p.send("POST", "/v1/auth/session", "application/json", fmt.Sprintf(`{"apiKey":%q}`, key))
		require.Equal(s.t, 200, status, page)
	}
	return p
}

func (p *visitor) send(method, path, media, body string) (int, string) {
	p.t.Helper()
	if !strings.HasPrefix(path, "http") {
		path = p.s.url + path
	}
	r, err := http.NewRequestWithContext(p.t.Context(), method, path, strings.NewReader(body))
	require.NoError(p.t, err)
	r.Header.Set("Content-Type", media)
	if method != http.MethodGet {
		r.Header.Set("Origin", p.s.url)
	}
	answer, err := p.client.Do(r)
	require.NoError(p.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(p.t, err)
	return answer.StatusCode, string(text)
}

var (
	hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)"`)
	wayBack     = regexp.MustCompile(`<a href="([^"]*)">go back to the app`)
)

// decides opens the page of an app, presses a button, and returns where it leads.
func (p *visitor) decides(page, decision string) *url.URL {
	p.t.Helper()
	status, text := p.send("GET", page, "", "")
	require.Equal(p.t, 200, status, text)
	form := url.Values{"decision": {decision}}
	for _, field := range hiddenField.FindAllStringSubmatch(text, -1) {
		form.Set(html.UnescapeString(field[1]), html.UnescapeString(field[2]))
	}
	status, text = p.send("POST", "/console/authorize", "application/x-www-form-urlencoded", form.Encode())
	require.Equal(p.t, 200, status, text)
	require.Contains(p.t, text, `<meta http-equiv="refresh" content="0;url=`+wayBack.FindStringSubmatch(text)[1]+`"`)
	to, err := url.Parse(html.UnescapeString(wayBack.FindStringSubmatch(text)[1]))
	require.NoError(p.t, err)
	return to
}

const verifier = "a verifier of at least forty-three characters"

func challenge() string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// thirdParty is an app that is registered.
type thirdParty struct {
	s  *instance
	id string
}

func (s *instance) thirdParty(name string, redirects ...string) thirdParty {
	s.t.Helper()
	if len(redirects) == 0 {
		redirects = []string{appCallback}
	}
	status, body := s.form("/oauth/register", map[string]any{"client_name": name, "redirect_uris": redirects, "grant_types": []string{"authorization_code"}, "logo_uri": "https://example.com/logo"})
	require.Equal(s.t, 201, status, "%v", body)
	require.Equal(s.t, "none", body["token_endpoint_auth_method"])
	return thirdParty{s, body["client_id"].(string)}
}

// form sends what apps send: JSON, or a form.
func (s *instance) form(path string, body any) (int, map[string]any) {
	s.t.Helper()
	media, text := "application/x-www-form-urlencoded", ""
	if form, ok := body.(url.Values); ok {
		text = form.Encode()
	} else {
		media = "application/json"
		encoded, err := json.Marshal(body)
		require.NoError(s.t, err)
		text = string(encoded)
	}
	status, answer := s.visitor("").send("POST", path, media, text)
	var fields map[string]any
	require.NoError(s.t, json.Unmarshal([]byte(answer), &fields), answer)
	return status, fields
}

// page is the address that the app opens; others change some of it.
func (a thirdParty) page(others ...string) string {
	q := url.Values{
		"response_type": {"code"}, "client_id": {a.id}, "redirect_uri": {appCallback}, "state": {"its state"}, "scope": {"mcp"},
		"resource": {a.s.url + "/mcp/oauth"}, "code_challenge": {challenge()}, "code_challenge_method": {"S256"},
	}
	for i := 0; i < len(others); i += 2 {
		q.Set(others[i], others[i+1])
	}
	return a.s.url + "/console/authorize?" + q.Encode()
}

// redeem gets tokens for a code; others change some of the form.
func (a thirdParty) redeem(code string, others ...string) (int, map[string]any) {
	form := url.Values{"grant_type": {"authorization_code"}, "client_id": {a.id}, "code": {code}, "redirect_uri": {appCallback}, "code_verifier": {verifier}}
	for i := 0; i < len(others); i += 2 {
		form.Set(others[i], others[i+1])
	}
	return a.s.form("/oauth/token", form)
}

func (a thirdParty) refresh(token any, others ...string) (int, map[string]any) {
	form := url.Values{"grant_type": {"refresh_token"}, "client_id": {a.id}, "refresh_token": {token.(string)}}
	for i := 0; i < len(others); i += 2 {
		form.Set(others[i], others[i+1])
	}
	return a.s.form("/oauth/token", form)
}

// letIn is all that leads to tokens.
func (a thirdParty) letIn(p *visitor) map[string]any {
	a.s.t.Helper()
	status, tokens := a.redeem(p.decides(a.page(), "allow").Query().Get("code"))
	require.Equal(a.s.t, 200, status, "%v", tokens)
	return tokens
}

// opens reports the status of the tools' list for a token.
func (s *instance) opens(path string, token any) (int, http.Header) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+path, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	require.NoError(s.t, err)
	r.Header.Set("Content-Type", "application/json")
	if token != nil {
		r.Header.Set("Authorization", "Bearer "+token.(string))
	}
	answer, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	require.NoError(s.t, answer.Body.Close())
	return answer.StatusCode, answer.Header
}

// An app that a person lets in has the MCP server, and nothing else, until the person,
// the app or somebody who sends its secrets again ends that.
func TestAppsAreLetIn(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	eachApp(t, func(t *testing.T, s *instance) {
		status, header := s.opens("/mcp/oauth", nil)
		require.Equal(t, 401, status)
		require.Equal(t, `Bearer resource_metadata="`+s.url+`/.well-known/oauth-protected-resource/mcp/oauth", scope="mcp"`, header.Get("WWW-Authenticate"))
		status, header = s.opens("/mcp", nil)
		require.Equal(t, 401, status)
		require.Empty(t, header.Get("WWW-Authenticate"), "a client that finds a way to get tokens sends no key")
		for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"} {
			require.Equal(t, 404, s.send("", "GET", path, nil).status, path)
		}

		anna, notes := s.visitor(s.key), s.thirdParty("<b>Notes</b>")
		_, page := anna.send("GET", notes.page(), "", "")
		require.Contains(t, page, "&lt;b&gt;Notes&lt;/b&gt; wants to use Portico")
		require.Contains(t, page, "<strong>127.0.0.1:7100</strong>")
		_, page = s.visitor("").send("GET", notes.page(), "", "")
		require.Contains(t, page, "Sign in")
		to := anna.decides(notes.page(), "refuse")
		require.Equal(t, url.Values{"error": {"access_denied"}, "iss": {s.url + "/oauth"}, "state": {"its state"}}, to.Query())

		// A port of this machine is as good as another.
		to = anna.decides(notes.page("redirect_uri", "http://127.0.0.1:50123/callback"), "allow")
		require.Equal(t, "127.0.0.1:50123", to.Host)
		require.Equal(t, "its state", to.Query().Get("state"))
		status, tokens := notes.redeem(to.Query().Get("code"), "redirect_uri", "http://127.0.0.1:50123/callback")
		require.Equal(t, 200, status, "%v", tokens)
		require.InDelta(t, 3600, tokens["expires_in"], 0)
		access := tokens["access_token"]
		status, _ = s.opens("/mcp/oauth", access)
		require.Equal(t, 200, status)
		for _, path := range []string{"/mcp", "/v1/tool/execute", "/v1/sandbox/execute", "/v1/exec", "/v1/auth/cli/api-key", "/v1/auth/apps/request"} {
			status, _ = s.opens(path, access)
			require.Equal(t, 403, status, path)
		}
		require.Equal(t, 401, s.send("", "POST", "/v1/auth/session", map[string]any{"apiKey": access}).status, "nor a session")

		status, next := notes.refresh(tokens["refresh_token"])
		require.Equal(t, 200, status, "%v", next)
		require.NotEqual(t, tokens["refresh_token"], next["refresh_token"])
		status, _ = s.opens("/mcp/oauth", next["access_token"])
		require.Equal(t, 200, status)
		status, _ = notes.refresh(tokens["refresh_token"])
		require.Equal(t, 400, status, "it is good once")
		for _, ended := range []any{access, next["access_token"]} {
			status, _ = s.opens("/mcp/oauth", ended)
			require.Equal(t, 401, status, "somebody else may have it")
		}
		status, _ = notes.refresh(next["refresh_token"])
		require.Equal(t, 400, status)

		code := anna.decides(notes.page(), "allow").Query().Get("code")
		status, tokens = notes.redeem(code)
		require.Equal(t, 200, status)
		status, _ = notes.redeem(code)
		require.Equal(t, 400, status)
		status, _ = s.opens("/mcp/oauth", tokens["access_token"])
		require.Equal(t, 401, status, "a code that comes twice ends what it gave")

		tokens = notes.letIn(anna)
		for range 2 {
			status, _ = s.form("/oauth/revoke", url.Values{"token": {tokens["refresh_token"].(string)}})
			require.Equal(t, 200, status)
		}
		status, _ = s.opens("/mcp/oauth", tokens["access_token"])
		require.Equal(t, 401, status)

		tokens = notes.letIn(anna)
		_, page = anna.send("GET", "/console/account", "", "")
		end := regexp.MustCompile(`/console/account/apps/[^/]+/end`).FindString(page)
		require.NotEmpty(t, end, page)
		ben := s.visitor(s.another("ben"))
		_, page = ben.send("GET", "/console/account", "", "")
		require.NotContains(t, page, "/console/account/apps/")
		_, page = ben.send("POST", end, "application/x-www-form-urlencoded", "")
		require.Contains(t, page, "Nothing here")
		status, _ = s.opens("/mcp/oauth", tokens["access_token"])
		require.Equal(t, 200, status, "it is not his")
		_, _ = anna.send("POST", end, "application/x-www-form-urlencoded", "")
		status, _ = s.opens("/mcp/oauth", tokens["access_token"])
		require.Equal(t, 401, status)

		// Whoever is disabled, or gone, has let nobody in.
		tokens = notes.letIn(ben)
		his, err := s.app.Accounts.Service.UserByName(t.Context(), "ben")
		require.NoError(t, err)
		require.NoError(t, s.app.Accounts.Service.Disable(t.Context(), his.UID, true))
		status, _ = s.opens("/mcp/oauth", tokens["access_token"])
		require.Equal(t, 401, status)
		status, _ = notes.refresh(tokens["refresh_token"])
		require.Equal(t, 400, status)
		require.Equal(t, 5, s.count("SELECT count(*) FROM audit_events WHERE action = 'app.allow'"))
		require.Equal(t, 4, s.count("SELECT count(*) FROM audit_events WHERE action = 'app.end'"))
		require.NotContains(t, s.log.String(), tokens["refresh_token"])
		require.NotContains(t, s.log.String(), tokens["access_token"])
	})
}

// An app that is let in to read finds tools and runs what only reads. What else it tries
// it is told to ask for; another server's tokens are held to the same.
func TestAppsThatOnlyRead(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	eachApp(t, func(t *testing.T, s *instance) {
		anna, notes := s.visitor(s.key), s.thirdParty("Notes")
		_, page := anna.send("GET", notes.page("scope", "mcp:read"), "", "")
		require.Contains(t, page, "which only read")
		require.NotContains(t, page, "your decisions")
		_, page = anna.send("GET", notes.page(), "", "")
		require.Contains(t, page, "your decisions")
		_, page = anna.send("GET", notes.page("scope", "write"), "", "")
		require.Contains(t, page, "asks for nothing that there is")
		code := anna.decides(notes.page("scope", "mcp:read"), "allow").Query().Get("code")
		status, tokens := notes.redeem(code)
		require.Equal(t, 200, status, "%v", tokens)
		require.Equal(t, "mcp:read", tokens["scope"])
		_, page = anna.send("GET", "/console/account", "", "")
		require.Contains(t, page, "only read")
		status, body := notes.refresh(tokens["refresh_token"], "scope", "mcp")
		require.Equal(t, 400, status)
		require.Equal(t, "invalid_scope", body["error"])
		status, tokens = notes.refresh(tokens["refresh_token"])
		require.Equal(t, 200, status, "%v", tokens)
		require.Equal(t, "mcp:read", tokens["scope"])
		s.reads(t, tokens["access_token"].(string))
		for _, path := range []string{"/mcp", "/v1/tool/execute", "/v1/sandbox/execute", "/v1/exec", "/v1/auth/cli/api-key", "/v1/auth/apps/request"} {
			status, _ = s.opens(path, tokens["access_token"])
			require.Equal(t, 403, status, path)
		}

		all := notes.letIn(anna)
		status, narrow := notes.refresh(all["refresh_token"], "scope", "mcp:read")
		require.Equal(t, 200, status)
		s.reads(t, narrow["access_token"].(string))
		require.Equal(t, 2, s.count("SELECT count(*) FROM app_grants WHERE refresh IS NOT NULL"))
		require.Equal(t, 1, s.count("SELECT count(*) FROM app_grants WHERE scope = 'mcp:read' AND refresh IS NOT NULL"), "what was allowed stays")
	})
}

// reads checks that a token reads, and changes and decides nothing.
func (s *instance) reads(t *testing.T, token string) {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, willing(allowing()))
	session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: s.url + "/mcp/oauth", HTTPClient: &http.Client{Transport: tokened{token}}, DisableStandaloneSSE: true,
	}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	require.NoError(t, err)
	require.Empty(t, session.ID(), "it is never asked")
	var names []string
	for tool, err := range session.Tools(t.Context(), nil) {
		require.NoError(t, err)
		names = append(names, tool.Name)
	}
	require.ElementsMatch(t, []string{"search_tools", "describe_tool", "run_code_readonly", "resume_code"}, names)
	r, _, failed := call(t, session, "run_code_readonly", map[string]any{"code": "print(get_weather(city='Oslo', days=1)['city'])\ntry:\n    save_note(title='t', text='x')\nexcept ToolExecutionError as e:\n    print(e.code)"})
	require.False(t, failed)
	require.Equal(t, "Oslo\nCALLER_NOT_ALLOWED\n", r.Stdout, r.Stderr)
	_, err = session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: r.Run})
	require.NoError(t, err)
	for _, change := range []string{`"name":"run_code","arguments":{"code":"print(1)"}`, `"name":"run_code_readonly","arguments":{"code":"print(1)","canvas":"new"}`} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/mcp/oauth", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+change+`}}`))
		require.NoError(t, err)
		r.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + token}}
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, 403, answer.StatusCode)
		require.Equal(t, `Bearer error="insufficient_scope", resource_metadata="`+s.url+`/.well-known/oauth-protected-resource/mcp/oauth", scope="mcp"`, answer.Header.Get("WWW-Authenticate"))
	}
}

// tokened sends a token with every request.
type tokened struct{ token string }

// RoundTrip implements http.RoundTripper.
func (b tokened) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

// What is wrong with a request of an app is told to the person, or to the app, and
// gives nothing away.
func TestAppsThatAskWrongly(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serveAt(t, database.SQLite)
	anna, notes, other := s.visitor(s.key), s.thirdParty("Notes"), s.thirdParty("Other", "https://other.example.com/back", "other.app://back")
	for _, wrong := range [][]string{
		{"redirect_uri", "https://evil.example.com/callback"},
		{"redirect_uri", "http://127.0.0.1:7100/elsewhere"},
		{"redirect_uri", "http://127.0.0.1.evil.example.com:7100/callback"},
		{"redirect_uri", "http://evil@127.0.0.1:7100/callback"},
		{"redirect_uri", ""},
		{"client_id", other.id},
		{"client_id", notes.id[:len(notes.id)-4] + "AAAA"},
		{"client_id", "app."},
		{"client_id", "https://127.0.0.1:1/client.json"},
		{"client_id", ""},
		{"response_type", "token"},
		{"code_challenge", ""},
		{"code_challenge", verifier},
		{"code_challenge_method", "plain"},
		{"resource", s.url + "/mcp"},
		{"resource", "https://evil.example.com/mcp/oauth"},
	} {
		status, page := anna.send("GET", notes.page(wrong...), "", "")
		require.GreaterOrEqual(t, status, 400, "%v", wrong)
		require.Less(t, status, 500, "%v: %s", wrong, page)
		require.NotContains(t, page, "Let it in")
	}
	for _, redirect := range []string{
		"http://example.com/back", "javascript://x/%0aalert(1)", "data:text/html,x", "https://example.com/back#x", "https://a@example.com/", "file:///etc/passwd", "notes", "https://", "x:y",
	} {
		status, body := s.form("/oauth/register", map[string]any{"redirect_uris": []string{redirect}})
		require.Equal(t, 400, status, redirect)
		require.Equal(t, "invalid_redirect_uri", body["error"], redirect)
	}
	for _, body := range []map[string]any{{}, {"redirect_uris": []string{}}, {"redirect_uris": "x"}, {"redirect_uris": []string{appCallback}, "client_name": strings.Repeat("n", 101)}, {"redirect_uris": []string{"https://x.example/" + strings.Repeat("n", 2000)}}} {
		status, answer := s.form("/oauth/register", body)
		require.Equal(t, 400, status, "%v", body)
		require.NotEmpty(t, answer["error_description"])
	}

	code := anna.decides(notes.page(), "allow").Query().Get("code")
	for _, wrong := range [][]string{
		{"client_id", other.id},
		{"redirect_uri", "http://127.0.0.1:7101/callback"},
		{"code_verifier", strings.Repeat("w", 43)},
		{"code_verifier", ""},
		{"code", "another"},
		{"code", ""},
		{"resource", s.url + "/mcp"},
		{"grant_type", "password"},
		{"grant_type", "client_credentials"},
	} {
		status, body := notes.redeem(code, wrong...)
		require.Equal(t, 400, status, "%v", wrong)
		require.NotEmpty(t, body["error"], "%v", wrong)
		require.NotContains(t, body, "access_token")
	}
	status, tokens := notes.redeem(code, "resource", s.url+"/mcp/oauth")
	require.Equal(t, 200, status, "%v", tokens)
	status, _ = other.refresh(tokens["refresh_token"])
	require.Equal(t, 400, status, "it is another app's")
	status, _ = notes.refresh(tokens["refresh_token"], "resource", "https://evil.example.com")
	require.Equal(t, 400, status)
	status, tokens = notes.refresh(tokens["refresh_token"])
	require.Equal(t, 200, status, "%v", tokens)
	to := anna.decides(other.page("redirect_uri", "other.app://back"), "allow")
	require.Equal(t, "other.app", to.Scheme)

	// A page of another origin decides nothing, nor a key that may not do everything.
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/console/authorize", strings.NewReader("decision=allow"))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "https://evil.example.com")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	answer, err := anna.client.Do(r)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, 403, answer.StatusCode)
	_, limited, err := s.app.Accounts.Service.CreateKey(t.Context(), actor.Actor{UID: s.uid(t)}, "runs", 0, "run")
	require.NoError(t, err)
	require.Equal(t, 403, s.send(limited.Reveal(), "POST", "/v1/auth/apps/request", map[string]any{"clientId": notes.id, "redirectUri": appCallback, "responseType": "code", "codeChallenge": challenge(), "codeChallengeMethod": "S256", "allow": true}).status)
}

func (s *instance) uid(t *testing.T) string {
	t.Helper()
	uid, err := s.app.Accounts.Service.KeyOwner(t.Context(), s.key)
	require.NoError(t, err)
	return uid
}

// Clients that others wrote, unmodified, find out how to get tokens, get them, and get
// others when they end.
func TestClientsOfOthersGetTokens(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	root := testenv.Need(t, "PORTICO_MCP", "tools/mcp.sh installs the clients")
	modules := filepath.Join(root, "node_modules")
	clients := map[string][]string{
		"Python, newer":     {filepath.Join(root, "python/bin/python"), "testdata/mcp_oauth.py"},
		"Python, older":     {filepath.Join(root, "python-legacy/bin/python"), "testdata/mcp_oauth.py"},
		"TypeScript, first": {"node", "testdata/mcp_oauth.mjs", "v1", modules},
		"TypeScript, later": {"node", "testdata/mcp_oauth.mjs", "v2", modules},
	}
	eachApp(t, func(t *testing.T, s *instance) {
		anna := s.visitor(s.key)
		uid := s.uid(t)
		browser := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if page := r.FormValue("page"); page != "expire" {
				_, _ = io.WriteString(w, anna.decides(page, "allow").String()) // the client waits for it
				return
			}
			var ids []string
			err := database.Unscoped(s.app.DB.Read(r.Context())).Table("user_api_keys").Where("scope = 'mcp' AND revoked_at IS NULL").Pluck("key_id", &ids).Error
			for _, id := range ids {
				err = errors.Join(err, s.app.Accounts.Service.RevokeKey(r.Context(), actor.Actor{UID: uid}, id))
			}
			if err != nil {
				t.Error(err)
			}
		}))
		t.Cleanup(browser.Close)
		for name, command := range clients {
			cmd := exec.CommandContext(t.Context(), command[0], append(command[1:], s.url+"/mcp/oauth", browser.URL)...)
			cmd.Env = os.Environ()
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			require.NoError(t, err, "%s: %s", name, &stderr)
			var seen struct {
				Pages          int
				Tools, Results []string
			}
			require.NoError(t, json.Unmarshal(out, &seen), name)
			require.Contains(t, seen.Tools, "run_code", name)
			require.Equal(t, []string{"Oslo\n", "Oslo\n"}, seen.Results, name)
			want := 1 // it has a refresh token
			if strings.HasPrefix(name, "Python") {
				want = 2 // which that client does not use for a token that ends before its time
			}
			require.Equal(t, want, seen.Pages, name)
		}
	})
}

// Access tokens of another authorization server open the MCP server for the user who
// signs in there, if they are for it.
func TestAccessTokensOfAnotherServer(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	provider, other := oidctest.Start(t, "http://127.0.0.1/unused"), oidctest.Start(t, "http://127.0.0.1/unused")
	s := serveAt(t, database.SQLite, "MCP_OAUTH="+provider.Issuer)
	s.another("anna")
	anna, err := s.app.Accounts.Service.UserByName(t.Context(), "anna")
	require.NoError(t, err)
	require.NoError(t, s.app.DB.InTx(t.Context(), func(tx database.Tx) error {
		return s.app.Accounts.Service.Join(tx, anna.UID, account.Identity{Issuer: provider.Issuer, Tenant: oidc.Tenant, Subject: "anna"})
	}))
	var meta struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
	}
	require.NoError(t, json.Unmarshal([]byte(s.send("", "GET", "/.well-known/oauth-protected-resource/mcp/oauth", nil).raw), &meta))
	require.Equal(t, s.url+"/mcp/oauth", meta.Resource)
	require.Equal(t, []string{provider.Issuer}, meta.Servers)
	for _, path := range []string{"/oauth/token", "/oauth/register", "/v1/auth/apps/request"} {
		require.Equal(t, 404, s.send(s.key, "POST", path, map[string]any{}).status, path)
	}
	_, page := s.visitor(s.key).send("GET", "/console/account", "", "")
	require.NotContains(t, page, "Apps that you let in")

	in := time.Now().Add(time.Hour).Unix()
	good := map[string]any{"iss": provider.Issuer, "aud": meta.Resource, "sub": "anna", "exp": in}
	token := provider.Access(t, good)
	status, _ := s.opens("/mcp/oauth", token)
	require.Equal(t, 200, status)
	narrow := maps.Clone(good)
	narrow["scope"] = "openid mcp:read"
	s.reads(t, provider.Access(t, narrow))
	for _, path := range []string{"/mcp", "/v1/tool/execute", "/v1/sandbox/execute"} {
		status, _ = s.opens(path, token)
		require.Equal(t, 403, status, path)
	}
	for name, change := range map[string]map[string]any{
		"for another": {"aud": s.url + "/mcp"}, "for nobody": {"aud": nil}, "over": {"exp": time.Now().Add(-time.Hour).Unix()}, "of nobody": {"sub": ""}, "of a stranger": {"sub": "ben"},
	} {
		claims := maps.Clone(good)
		maps.Copy(claims, change)
		status, header := s.opens("/mcp/oauth", provider.Access(t, claims))
		require.Equal(t, 401, status, name)
		require.Contains(t, header.Get("WWW-Authenticate"), "resource_metadata", name)
	}
	status, _ = s.opens("/mcp/oauth", other.Access(t, good))
	require.Equal(t, 401, status, "signed by another")
	require.NoError(t, s.app.Accounts.Service.Disable(t.Context(), anna.UID, true))
	require.Eventually(t, func() bool {
		status, _ = s.opens("/mcp/oauth", token)
		return status == 401
	}, time.Minute, 50*time.Millisecond)

	gone := serveAt(t, database.SQLite, "MCP_OAUTH=http://127.0.0.1:1")
	status, _ = gone.opens("/mcp/oauth", provider.Access(t, map[string]any{"iss": "http://127.0.0.1:1", "aud": gone.url + "/mcp/oauth", "sub": "anna", "exp": in}))
	require.Equal(t, 503, status)
	off := serveAt(t, database.SQLite, "MCP_OAUTH=off")
	status, _ = off.opens("/mcp/oauth", nil)
	require.Equal(t, 404, status)
}
