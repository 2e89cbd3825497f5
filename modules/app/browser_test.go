package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
)

// tab is one of a Chromium that ends with the test, for which every name that ends
// with .test is this machine.
type tab struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // a tab is one for chromedp
}

func openTab(t *testing.T) tab {
	t.Helper()
	program := testenv.Need(t, "PORTICO_CHROMIUM", "tools/chromium.sh prints it")
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		// Chromium has no sandbox of its own under root. The pages are ours.
		chromedp.NoSandbox, chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()), chromedp.Env("HOME="+t.TempDir()),
		chromedp.Flag("host-resolver-rules", "MAP *.test 127.0.0.1"))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	ctx, stop := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(ctx)
	t.Cleanup(closeTab)
	return tab{t, ctx}
}

func (b tab) visit(address string) {
	b.t.Helper()
	_, err := chromedp.Run(b.ctx, chromedp.Navigate(address))
	require.NoError(b.t, err)
}

// run evaluates an expression of the page, and waits for its promise.
func (b tab) run(expression string) string {
	b.t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](expression, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err)
	return text
}

// page serves an empty page, and returns its address at a host.
func page(t *testing.T, host string) string {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>page</title><body>")
	}))
	t.Cleanup(web.Close)
	u, err := url.Parse(web.URL)
	require.NoError(t, err)
	return "http://" + host + ":" + u.Port()
}

// attack sends to a server, with the browser's cookies, all that a page of another
// origin can send: forms, fetches, pictures, beacons.
const attack = `(async server => {
	const key = server + "/v1/auth/cli/api-key", body = '{"name":"stolen"}'
	for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/json"])
		for (const mode of ["no-cors", "cors"])
			await fetch(key, {method: "POST", mode, credentials: "include", headers: {"Content-Type": type}, body}).catch(() => 0)
	for (const [method, path] of [["DELETE", "/v1/auth/session"], ["PATCH", "/v1/auth/cli/api-key/x"], ["POST", "/v1/auth/session"], ["POST", "/v1/canvas/create"]])
		for (const mode of ["no-cors", "cors"])
			await fetch(server + path, {method, mode, credentials: "include"}).catch(() => 0)
	navigator.sendBeacon(key, new Blob([body], {type: "text/plain"}))
	for (const path of ["/v1/auth/session", "/v1/auth/cli/api-key"])
		await new Promise(done => { const i = new Image(); i.onload = i.onerror = done; i.src = server + path })
	for (const [type, path] of [["text/plain", "/v1/auth/cli/api-key"], ["application/x-www-form-urlencoded", "/v1/auth/cli/api-key"], ["multipart/form-data", "/v1/drive/file/upload"], ["text/plain", "/v1/canvas/create"]])
		await new Promise(done => {
			const frame = document.createElement("iframe"), form = document.createElement("form"), input = document.createElement("input")
			frame.name = "f" + Math.random(); frame.onload = () => { if (form.sent) done() }
			Object.assign(form, {method: "POST", action: server + path, enctype: type, target: frame.name})
			Object.assign(input, {name: '{"name":"stolen","title":"', value: '"}'})
			form.append(input); document.body.append(frame, form)
			form.sent = true; form.submit(); setTimeout(done, 3000)
		})
	return "done"
})`

// A page of another origin, also one of the same site, to which the browser sends
// the cookie, changes nothing, whether the browser says where it is from or not.
func TestPagesOfOtherOriginsChangeNothing(t *testing.T) {
	testenv.Slow(t, "a browser")
	t.Parallel()
	for name, hosts := range map[string][2]string{
		"the browser says Sec-Fetch-Site": {"127.0.0.1", "127.0.0.1"},
		"it does not, on plain http":      {"portico.test", "evil.portico.test"},
		"another site":                    {"127.0.0.1", "localhost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, databasetest.URL(t, database.SQLite))
			b := openTab(t)
			_, port, _ := strings.Cut(strings.TrimPrefix(s.url, "http://"), ":")
			home := "http://" + hosts[0] + ":" + port
			cookie, _ := s.signIn(s.key)
			_, token, _ := strings.Cut(cookie, "=")
			_, err := chromedp.Call(b.ctx, network.SetCookie, network.SetCookieParams{
				Name: "_rf_access", Value: token, URL: home, HTTPOnly: new(true), SameSite: network.CookieSameSiteLax,
			})
			require.NoError(t, err)
			counted := func() []int {
				return []int{s.count("SELECT count(*) FROM user_api_keys"), s.count("SELECT count(*) FROM canvases"), s.count("SELECT count(*) FROM user_sessions WHERE revoked_at IS NULL"), s.count("SELECT count(*) FROM audit_events")}
			}
			before := counted()
			b.visit(page(t, hosts[1]))
			require.Equal(t, "done", b.run(attack+"("+jsText(home)+")"))
			require.Equal(t, before, counted())
			if hosts[1] != "localhost" {
				require.Regexp(t, `method=POST path=/v1/auth/cli/api-key status=403`, s.log.String(), "the cookie came along, and the request was refused")
			}
			b.visit(home + "/healthz")
			require.Equal(t, "200 200", b.run(`(async () => {
				const made = await fetch("/v1/auth/cli/api-key", {method: "POST", headers: {"Content-Type": "application/json"}, body: '{"name":"own"}'})
				const gone = await fetch("/v1/auth/cli/api-key/" + (await made.json()).data.keyId, {method: "DELETE"})
				return made.status + " " + gone.status
			})()`), "a page of the server's own may")
			require.Equal(t, "200", b.run(`(async () => "" + (await fetch("/v1/auth/session", {method: "DELETE"})).status)()`))
			require.Equal(t, "401", b.run(`(async () => "" + (await fetch("/v1/auth/me")).status)()`))
		})
	}
}

// followed follows a run and says how many events there were before its end.
const followed = `(address => new Promise((done, failed) => {
	const source = new EventSource(address); let events = 0
	source.onmessage = m => { events++; document.title = "" + events; if (JSON.parse(m.data).event === "end") { source.close(); done("" + events) } }
	source.onerror = () => { if (source.readyState === EventSource.CLOSED) failed(new Error("refused")) }
}))`

// A page that cannot send headers follows a run: of the same origin with the
// cookie, of an allowed one with a ticket.
func TestABrowserFollowsARunWithoutAHeader(t *testing.T) {
	testenv.Slow(t, "a browser")
	t.Parallel()
	allowed, other := page(t, "localhost"), page(t, "localhost")
	s := serve(t, databasetest.URL(t, database.SQLite), "ORIGIN="+allowed)
	b := openTab(t)
	b.visit(s.url + "/healthz")
	require.Equal(t, "200", b.run(`(async () => "" + (await fetch("/v1/auth/session", {method: "POST", headers: {"Content-Type": "application/json"}, body: `+jsText(`{"apiKey":"`+s.key+`"}`)+`})).status)()`))
	require.NotContains(t, b.run("document.cookie"), "_rf_access", "no page reads it")
	live := func(id, address string) string {
		t.Helper()
		require.Equal(t, 200, s.send(s.key, "POST", "/v1/action/register", `{"resultId":"`+id+`","toolCallId":"call-`+id+`"}`).status)
		if strings.HasSuffix(address, "ticket=") {
			var made struct{ Ticket string }
			require.NoError(t, json.Unmarshal(s.send(s.key, "POST", "/v1/action/"+id+"/ticket", `{}`).body.Data, &made))
			address += made.Ticket
		}
		require.Equal(t, "begun", b.run("window.followed = "+followed+"("+jsText(address)+"); window.followed.catch(() => 0); 'begun'"))
		require.Eventually(t, func() bool { return b.run("document.title") != "page" && b.run("document.title") != "" }, 20*time.Second, 50*time.Millisecond)
		require.Equal(t, 200, s.send(s.key, "POST", "/v1/action/finish", `{"resultId":"`+id+`","status":"finish"}`).status)
		return b.run("window.followed")
	}
	require.NotEqual(t, "0", live("ar-cookie", "/v1/action/ar-cookie/events"))
	b.visit(allowed)
	require.NotEqual(t, "0", live("ar-ticket", s.url+"/v1/action/ar-ticket/events?ticket="))
	require.Equal(t, "refused", b.run(followed+"("+jsText(s.url+"/v1/action/ar-ticket/events")+").catch(e => e.message)"), "without a ticket")
	b.visit(other)
	var made struct{ Ticket string }
	require.NoError(t, json.Unmarshal(s.send(s.key, "POST", "/v1/action/ar-ticket/ticket", `{}`).body.Data, &made))
	require.Equal(t, "refused", b.run(followed+"("+jsText(s.url+"/v1/action/ar-ticket/events?ticket="+made.Ticket)+").catch(e => e.message)"), "of an origin that is not allowed")
}

func jsText(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // strings always have a JSON form
	}
	return string(b)
}
