package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app/apptest"
)

// asking is a server whose toolset mail waits for a person, and counts what
// reaches its upstream.
func asking(t *testing.T) (s *apptest.Server, sent *atomic.Int64) {
	t.Helper()
	sent = &atomic.Int64{}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		sent.Add(1)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"sent":true}`)
	}))
	t.Cleanup(upstream.Close)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mail.yaml"), []byte(`
key: mail
name: Mail
domain: `+upstream.URL+`
egress: {allow: [127.0.0.0/8]}
approval: always
credential: {type: header, name: X-Key, value: abc}
billing: 0
methods:
  - {name: send_mail, description: Sends a mail., endpoint: /send, method: POST,
     request: {type: object, additionalProperties: false, required: [to], properties: {to: {type: string}}}}
`), 0o600))
	return apptest.Serve(t, dir), sent
}

const sends = `
from refly_tools.mail import Mail
for to in ("anna", "ben", "carl", "dora" * 50):
    answer = Mail.send_mail(to=to, file_name_title="x")
    print(to, answer.get("errorCode") or answer["data"])
`

// A card above the calls of a run asks for a decision. Nothing is sent before,
// nothing after a refusal, and once where two tabs allow at the same time; the later
// one is told.
func TestDecisionsOnTheRunPage(t *testing.T) {
	testenv.Slow(t, "a browser")
	t.Parallel()
	s, sent := asking(t)
	run := begin(s, s.Anna, t, sends)
	ctx, _ := browser(t)
	signedIn(ctx, t, s, s.Anna)
	ask(ctx, t, chromedp.Navigate(s.URL+"/console/runs/"+run))
	other, _ := browser(t) // hidden tabs follow nothing
	signedIn(other, t, s, s.Anna)
	ask(other, t, chromedp.Navigate(s.URL+"/console/runs/"+run))
	waits := func(ctx context.Context, to string) {
		t.Helper()
		ask(ctx, t, chromedp.Poll[bool](fmt.Sprintf(`[...document.querySelectorAll("[data-approval] code")].some((c) => c.textContent.includes(%q))`, to), often, chromedp.WithPollingTimeout(time.Minute)))
	}
	press := func(ctx context.Context, name string) bool {
		t.Helper()
		return ask(ctx, t, chromedp.Evaluate[bool](fmt.Sprintf(`(() => { const b = [...document.querySelectorAll("[data-approval] button")].find((b) => b.textContent === %q); b?.click(); return !!b; })()`, name)))
	}
	waits(ctx, "anna")
	waits(other, "anna")
	require.Zero(t, sent.Load())
	require.True(t, press(ctx, "Refuse"))
	waits(ctx, "ben")
	waits(other, "ben")
	require.Zero(t, sent.Load())
	require.True(t, press(ctx, "Allow"))
	press(other, "Allow") // where the event has not taken the card away yet
	waits(ctx, "carl")
	require.EqualValues(t, 1, sent.Load())
	waits(other, "carl")

	// The page of the call, with another tab on it that comes too late.
	var list struct{ Items []struct{ CallID string } }
	get(t, s, s.Anna, "/v1/tool/approvals", &list)
	require.Len(t, list.Items, 1)
	path := s.URL + "/console/approvals/" + url.PathEscape(list.Items[0].CallID)
	cookie := sessionOf(t, s, s.Anna)
	resp, body := visit(t, path, nil, "Cookie", cookie)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Contains(t, body, "Allow once")
	resp, body = visit(t, path+"/decide", url.Values{"decision": {"allow_always"}}, "Cookie", cookie)
	require.Equal(t, http.StatusSeeOther, resp.StatusCode, body)
	resp, body = visit(t, path+"/decide", url.Values{"decision": {"refuse"}}, "Cookie", cookie)
	require.Equal(t, http.StatusConflict, resp.StatusCode)
	require.Contains(t, body, "already settled: allowed")
	require.Eventually(t, func() bool { return sent.Load() == 2 }, time.Minute, 10*time.Millisecond)
	var permissions struct{ Items []struct{ Tool string } }
	get(t, s, s.Anna, "/v1/tool/approvals/permissions", &permissions)
	require.Len(t, permissions.Items, 1)
	require.Equal(t, "send_mail", permissions.Items[0].Tool)

	// Arguments that the card does not show whole are allowed where they are.
	waits(ctx, "dora")
	require.False(t, press(ctx, "Allow"))
	link := ask(ctx, t, chromedp.Evaluate[string](`document.querySelector("[data-approval] a").href`))
	_, body = visit(t, link, nil, "Cookie", cookie)
	require.Contains(t, body, strings.Repeat("dora", 50))
	require.True(t, press(ctx, "Refuse"))
}
