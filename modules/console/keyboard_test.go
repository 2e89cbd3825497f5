package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app/apptest"
)

// typist is somebody who has a keyboard and nothing else.
type typist struct {
	ctx context.Context //nolint:containedctx // of its browser, for one test
	t   *testing.T
}

func (k typist) press(keys string, options ...chromedp.KeyOption) {
	k.t.Helper()
	ask(k.ctx, k.t, chromedp.KeyEvent(keys, options...))
}

// reach presses Tab until the focus is on the element that a condition names. It is
// visible wherever it goes.
func (k typist) reach(condition string) {
	k.t.Helper()
	for range 100 {
		k.press(kb.Tab)
		require.True(k.t, k.asks(`((e) => { const s = getComputedStyle(e); return e === document.body || s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 1; })(document.activeElement)`), "the focus is visible")
		if k.asks(`((e) => ` + condition + `)(document.activeElement)`) {
			return
		}
	}
	require.Fail(k.t, "the keyboard does not reach it", condition)
}

func (k typist) asks(question string) bool {
	k.t.Helper()
	return ask(k.ctx, k.t, chromedp.Evaluate[bool](question))
}

func (k typist) waits(condition string) {
	k.t.Helper()
	ticks := time.NewTicker(20 * time.Millisecond)
	defer ticks.Stop()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); <-ticks.C {
		ok, err := chromedp.Run(k.ctx, chromedp.Evaluate[bool](condition)) // fails while a page is left
		if err == nil && ok {
			return
		}
	}
	require.Fail(k.t, condition, ask(k.ctx, k.t, chromedp.Evaluate[string](`location.href + " " + document.body.innerText`)))
}

// around presses Tab until the focus was everywhere and is where it began.
func (k typist) around() {
	k.t.Helper()
	k.asks(`window.first = undefined, true`)
	for range 150 {
		k.press(kb.Tab)
		if k.asks(`((e) => { if (e === document.body) return false; if (!window.first) { window.first = e; return false; } return window.first === e; })(document.activeElement)`) {
			return
		}
	}
	require.Fail(k.t, "the focus does not come round", ask(k.ctx, k.t, chromedp.Evaluate[string](`location.pathname + " " + document.activeElement.outerHTML`)))
}

// outside is a server with a toolset that waits for a person, and one that fails.
func outside(t *testing.T) *apptest.Server {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/broken" {
			w.WriteHeader(http.StatusTeapot)
		}
		fmt.Fprint(w, `{"sent":true}`)
	}))
	t.Cleanup(upstream.Close)
	dir := t.TempDir()
	for key, more := range map[string]string{"mail": "approval: always", "broken": "approval: never"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, key+".yaml"), []byte(`
key: `+key+`
name: `+key+`
domain: `+upstream.URL+`
egress: {allow: [127.0.0.0/8]}
`+more+`
credential: {type: header, name: X-Key, value: abc}
billing: 0
methods:
  - {name: send, description: Sends it., endpoint: /`+key+`, method: POST,
     request: {type: object, additionalProperties: false, required: [to], properties: {to: {type: string}}}}
`), 0o600))
	}
	return apptest.Serve(t, dir)
}

// Somebody signs in, runs a program, looks at what failed and tries it in a shell and in
// Python, refuses and allows a call, makes a key and takes it back, and touches no mouse.
func TestEverythingByKeyboard(t *testing.T) {
	testenv.Slow(t, "a browser")
	t.Parallel()
	s := outside(t)
	ctx, seen := browser(t)
	k := typist{ctx, t}

	look(ctx, t, s.URL+"/console/login?next=/console/playground", 1280, "light")
	k.around()
	k.reach(`e.id === "apiKey"`)
	k.press(s.Anna.Key)
	k.press(kb.Enter)
	k.waits(`location.pathname === "/console/playground" && document.readyState === "complete"`)

	k.reach(`e.id === "code"`)
	for _, line := range []string{"from refly_tools.broken import Broken", "from refly_tools.mail import Mail", "for send in (Broken.send, Mail.send, Mail.send): print(send(to='anna'))"} {
		k.press(line)
		k.press(kb.Enter)
	}
	k.press(kb.Enter, chromedp.KeyModifiers(chromedp.ModifierCtrl))
	k.waits(`location.pathname.startsWith("/console/runs/") && document.querySelector("[data-approval]") !== null`)
	k.press("e")
	k.press("o")
	k.waits(`document.querySelector(".callcard")?.textContent.includes("418")`)
	k.asks(`navigator.clipboard.writeText = async (text) => { window.copied = text; }, true`) // a headless browser lets nobody read it
	k.press("c")
	k.waits(`window.copied !== undefined`)
	curl := ask(ctx, t, chromedp.Evaluate[string](`window.copied`))
	shell := exec.CommandContext(t.Context(), "bash", "-c", curl)
	shell.Env = append(os.Environ(), "URL="+s.URL, "KEY="+s.Anna.Key)
	said, err := shell.CombinedOutput()
	require.NoError(t, err, "%s\n%s", curl, said)
	k.asks(`window.copied = undefined, true`)
	k.press("p")
	k.waits(`window.copied !== undefined`)
	runs(t, s, s.Anna, ask(ctx, t, chromedp.Evaluate[string](`window.copied`)))
	var calls struct {
		Items []struct {
			ResultID, ToolsetID, ToolName string
			Input                         any
		}
	}
	get(t, s, s.Anna, "/v1/tool/calls?toolset=broken", &calls)
	require.Len(t, calls.Items, 3, "%s", said)
	require.NotEqual(t, calls.Items[0].ResultID, calls.Items[1].ResultID)
	for i := range calls.Items {
		calls.Items[i].ResultID = ""
		require.Equal(t, calls.Items[0], calls.Items[i], "the same tool, the same arguments")
	}

	k.reach(`e.textContent === "Refuse"`)
	k.press(kb.Enter)
	k.waits(`document.querySelector("[data-approval]") === null || document.querySelectorAll(".row:not([hidden])").length === 3`)
	k.waits(`[...document.querySelectorAll("[data-approval] button")].some((b) => b.textContent === "Allow" && !b.disabled)`)
	k.reach(`e.textContent === "Allow"`)
	k.press(kb.Enter)
	k.waits(ended)
	k.around()
	var approvals struct{ Items []struct{ State string } }
	get(t, s, s.Anna, "/v1/tool/approvals?state=all", &approvals)
	require.Len(t, approvals.Items, 2)
	require.Equal(t, "allowed", approvals.Items[0].State)
	require.Equal(t, "refused", approvals.Items[1].State)

	k.press("g")
	k.press("k")
	k.waits(`location.pathname === "/console/keys" && document.readyState === "complete"`)
	k.around()
	k.reach(`e.name === "f/name"`)
	k.press("by keyboard")
	k.press(kb.Enter)
	k.waits(`document.querySelector(".made code") !== null`)
	made := apptest.User{Key: ask(ctx, t, chromedp.Text(chromedp.CSS(".made code")))}
	one := map[string]any{"toolsetKey": "broken", "toolName": "send", "arguments": map[string]any{"to": "ben"}}
	require.Equal(t, http.StatusOK, s.Post(made, "/v1/tool/execute", one, nil).Status)
	k.reach(`e.tagName === "SUMMARY" && e.textContent === "Revoke by keyboard"`)
	k.press(kb.Enter)
	k.reach(`e.tagName === "BUTTON" && e.innerText === "Revoke by keyboard"`)
	k.press(kb.Enter)
	k.waits(`document.readyState === "complete" && !document.body.textContent.includes("by keyboard")`)
	require.Equal(t, http.StatusUnauthorized, s.Post(made, "/v1/tool/execute", one, nil).Status)
	seen.mu.Lock()
	defer seen.mu.Unlock()
	require.Empty(t, seen.complains)
}
