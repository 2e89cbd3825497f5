package console_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app/apptest"
)

// visit asks for a page as a browser without scripts does. Of form, the members
// are posted; headers are pairs.
func visit(t *testing.T, address string, form url.Values, headers ...string) (*http.Response, string) {
	t.Helper()
	method, body := http.MethodGet, ""
	if form != nil {
		method, body = http.MethodPost, form.Encode()
	}
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	require.NoError(t, err)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(text)
}

func sessionOf(t *testing.T, s *apptest.Server, u apptest.User) string {
	t.Helper()
	resp, _ := visit(t, s.URL+"/console/login", url.Values{"apiKey": {u.Key}})
	require.Equal(t, http.StatusSeeOther, resp.StatusCode)
	require.Len(t, resp.Cookies(), 1)
	c := resp.Cookies()[0]
	require.True(t, c.HttpOnly)
	require.Equal(t, http.SameSiteLaxMode, c.SameSite)
	return c.Name + "=" + c.Value
}

// Whoever is not signed in is asked to, with a key or with a password as it was set, and
// comes back to where he was going, but not to another server.
func TestSigningInLeadsBack(t *testing.T) {
	t.Parallel()
	s := apptest.Serve(t, "../../configs/toolsets")
	resp, _ := visit(t, s.URL+"/", nil, "Accept", "text/html")
	require.Equal(t, "/console/runs", resp.Header.Get("Location"))
	resp, _ = visit(t, s.URL+"/console/runs?status=error", nil)
	require.Equal(t, "/console/login?next=%2Fconsole%2Fruns%3Fstatus%3Derror", resp.Header.Get("Location"))
	for next, want := range map[string]string{
		"/console/runs?status=error": "/console/runs?status=error", "https://evil.example/console/runs": "/console/runs", "//evil.example/console/": "/console/runs",
		"/console/../../evil": "/console/runs", "/v1/auth/me": "/console/runs", `/console/\evil.example`: "/console/runs", "": "/console/runs",
	} {
		resp, _ = visit(t, s.URL+"/console/login", url.Values{"apiKey": {s.Anna.Key}, "next": {next}})
		require.Equal(t, want, resp.Header.Get("Location"), next)
	}
	resp, text := visit(t, s.URL+"/console/login", url.Values{"apiKey": {"rf_wrong"}})
	require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
	require.Contains(t, text, `role="alert"`)
	require.NotContains(t, text, "rf_wrong", "a key is not shown again")
	require.Empty(t, resp.Cookies())

	// Spaces around a password are part of it, those around a name are not.
	const spaced = " correct horse "
	require.Equal(t, http.StatusOK, s.Post(s.Ben, "/v1/auth/password", map[string]string{"password": spaced}, nil).Status)
	for typed, want := range map[string]int{spaced: http.StatusSeeOther, strings.TrimSpace(spaced): http.StatusUnauthorized} {
		resp, _ = visit(t, s.URL+"/console/login", url.Values{"email": {" ben "}, "password": {typed}})
		require.Equal(t, want, resp.StatusCode, "%q", typed)
	}

	cookie := sessionOf(t, s, s.Anna)
	resp, _ = visit(t, s.URL+"/console/logout", url.Values{}, "Cookie", cookie)
	require.Equal(t, "/console/login", resp.Header.Get("Location"))
	resp, _ = visit(t, s.URL+"/console/runs", nil, "Cookie", cookie)
	require.Equal(t, http.StatusSeeOther, resp.StatusCode, "the session is over")
}

// Behind a proxy that is trusted, people do not use up each other's attempts to sign
// in; what a stranger says about where a request began does not count.
func TestAttemptsBehindAProxy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		settings []string
		other    int // what somebody else is answered
	}{
		"trusted": {[]string{"TRUSTED_PROXIES=127.0.0.0/8"}, http.StatusSeeOther},
		"not":     {nil, http.StatusTooManyRequests},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := apptest.Serve(t, "../../configs/toolsets", c.settings...)
			try := func(from, key string) int {
				resp, _ := visit(t, s.URL+"/console/login", url.Values{"apiKey": {key}}, "X-Forwarded-For", from)
				return resp.StatusCode
			}
			for range 5 {
				require.Equal(t, http.StatusUnauthorized, try("198.51.100.1", "rf_wrong"))
			}
			require.Equal(t, http.StatusTooManyRequests, try("198.51.100.1", s.Anna.Key))
			require.Equal(t, c.other, try("198.51.100.2", s.Anna.Key))
		})
	}
}

// Pages of other origins cannot post to the console, with and without the header
// that says so.
func TestOtherOriginsCannotPost(t *testing.T) {
	t.Parallel()
	s := apptest.Serve(t, "../../configs/toolsets")
	cookie := sessionOf(t, s, s.Anna)
	form := url.Values{"code": {"print(1)"}, "language": {"python"}}
	for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "same-site"}} {
		resp, _ := visit(t, s.URL+"/console/playground", form, append(headers, "Cookie", cookie)...)
		require.Equal(t, http.StatusForbidden, resp.StatusCode, headers)
	}
	var runs struct{ Items []any }
	get(t, s, s.Anna, "/v1/action/list", &runs)
	require.Empty(t, runs.Items)
	resp, _ := visit(t, s.URL+"/console/playground", form, "Cookie", cookie, "Sec-Fetch-Site", "same-origin")
	require.Equal(t, http.StatusSeeOther, resp.StatusCode)
	get(t, s, s.Anna, "/v1/action/list", &runs)
	require.Len(t, runs.Items, 1)
}

// A page of another origin, in the browser of somebody who is signed in, changes
// nothing: not with a form, not with a request of a script, not with an image.
func TestAnotherOriginChangesNothing(t *testing.T) {
	testenv.Slow(t, "a browser")
	t.Parallel()
	s := apptest.Serve(t, "../../configs/toolsets")
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<form method=post action="%[1]s/console/playground" target=a><input name=code value="print(1)"><input name=language value=python></form>
<form method=post action="%[1]s/console/files" target=b><input name="f/title" value=x></form><form method=post action="%[1]s/console/logout" target=c></form>
<iframe name=a></iframe><iframe name=b></iframe><iframe name=c></iframe>
<img src="%[1]s/console/logout"><img src="%[1]s/v1/auth/session"><script>
for (const form of document.forms) form.submit();
const ask = (method, path, body, type, mode) => fetch("%[1]s" + path, {method, body, mode, credentials: "include", headers: type ? {"Content-Type": type} : {}}).catch(() => 0);
const code = '{"code":"print(1)","language":"python"}', title = '{"title":"x"}';
Promise.all([
  ask("POST", "/v1/sandbox/execute", code, "text/plain", "no-cors"), ask("POST", "/v1/sandbox/execute", code, "application/json", "cors"),
  ask("POST", "/v1/canvas/create", title, "text/plain", "no-cors"), ask("POST", "/v1/canvas/create", title, "application/json", "cors"),
  ask("POST", "/console/files", "f/title=x", "application/x-www-form-urlencoded", "no-cors"), ask("DELETE", "/v1/auth/session", undefined, "", "cors"),
]).then(() => { document.body.dataset.done = "1"; });
</script>`, s.URL)
	}))
	t.Cleanup(evil.Close)
	for _, origin := range []string{evil.URL, strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)} {
		ctx, _ := browser(t)
		signedIn(ctx, t, s, s.Anna)
		ask(ctx, t, chromedp.Navigate(origin))
		ask(ctx, t, chromedp.Poll[bool](`document.body?.dataset.done === "1" && document.readyState === "complete"`, often, chromedp.WithPollingTimeout(30*time.Second)))
		ask(ctx, t, chromedp.Navigate(s.URL+"/console/files"))
		require.Equal(t, "/console/files", ask(ctx, t, chromedp.Evaluate[string]("location.pathname")), "the session has not ended")
	}
	for _, path := range []string{"/v1/action/list", "/v1/canvas/list"} {
		var list struct{ Items []any }
		get(t, s, s.Anna, path, &list)
		require.Empty(t, list.Items, path)
	}
}

// What is another's looks like what is not there, and each page says what it may
// load.
func TestAnothersRunLooksLikeNone(t *testing.T) {
	t.Parallel()
	s := apptest.Serve(t, "../../configs/toolsets")
	var ran struct{ ResultID, CallID string }
	s.Post(s.Anna, "/v1/sandbox/execute", map[string]any{"code": "print(1)", "language": "python", "title": "Anna's"}, &ran)
	require.NotEmpty(t, ran.ResultID)
	ben, anna := sessionOf(t, s, s.Ben), sessionOf(t, s, s.Anna)
	for _, path := range []string{"/runs/", "/calls/"} {
		id := map[string]string{"/runs/": ran.ResultID, "/calls/": ran.CallID}[path]
		there, hers := visit(t, s.URL+"/console"+path+id, nil, "Cookie", anna)
		require.Equal(t, http.StatusOK, there.StatusCode)
		require.Contains(t, there.Header.Get("Content-Security-Policy"), "require-trusted-types-for 'script'")
		require.Equal(t, "no-store", there.Header.Get("Cache-Control"))
		require.NotEmpty(t, hers)
		resp, theirs := visit(t, s.URL+"/console"+path+id, nil, "Cookie", ben)
		require.Equal(t, http.StatusNotFound, resp.StatusCode)
		_, none := visit(t, s.URL+"/console"+path+"ar-nothing", nil, "Cookie", ben)
		require.Equal(t, none, strings.ReplaceAll(theirs, id, "ar-nothing"))
	}
	resp, _ := visit(t, s.URL+"/console/runs/"+ran.ResultID+"/programs?version=0", nil, "Cookie", ben)
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
	resp, _ = visit(t, s.URL+"/console/calls/"+ran.CallID+"/card", nil, "Cookie", ben)
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
}

// Files are kept by browsers for ever under an address that changes with them.
func TestFilesOfPages(t *testing.T) {
	t.Parallel()
	s := apptest.Serve(t, "../../configs/toolsets")
	_, page := visit(t, s.URL+"/console/login", nil)
	files := regexp.MustCompile(`(?:href|src)="(/console/static/[^"#]+)"`).FindAllStringSubmatch(page, -1)
	require.NotEmpty(t, files)
	for _, f := range files {
		resp, text := visit(t, s.URL+f[1], nil)
		require.Equal(t, http.StatusOK, resp.StatusCode, f[1])
		require.Contains(t, resp.Header.Get("Cache-Control"), "immutable")
		require.NotEmpty(t, text)
		require.NotEqual(t, "application/octet-stream", resp.Header.Get("Content-Type"))
	}
	resp, _ := visit(t, s.URL+"/console/static/0000000000000000/console.css", nil)
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
}

// The console can be elsewhere, or off.
func TestTheConsoleCanBeOffOrElsewhere(t *testing.T) {
	t.Parallel()
	off := apptest.Serve(t, "../../configs/toolsets", "CONSOLE_ENABLED=false")
	resp, _ := visit(t, off.URL+"/console/login", nil)
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
	resp, _ = visit(t, off.URL+"/", nil, "Accept", "text/html")
	require.Equal(t, http.StatusOK, resp.StatusCode)

	ui := apptest.Serve(t, "../../configs/toolsets", "CONSOLE_PATH=/ui")
	resp, page := visit(t, ui.URL+"/ui/login", nil)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.NotContains(t, page, "/console/")
	resp, _ = visit(t, ui.URL+"/", nil, "Accept", "text/html")
	require.Equal(t, "/ui/runs", resp.Header.Get("Location"))
}
