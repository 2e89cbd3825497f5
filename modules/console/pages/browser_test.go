package pages_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app/apptest"
	"github.com/portico-run/portico/modules/console/form"
)

// seen is what a browser does besides showing a page.
type seen struct {
	mu        sync.Mutex
	requests  []string
	complains []string // its console
}

func (s *seen) listen(event any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		s.requests = append(s.requests, e.Request.URL)
	case *log.EventEntryAdded:
		s.complains = append(s.complains, e.Entry.Text+" "+e.Entry.URL)
	case *runtime.EventExceptionThrown:
		s.complains = append(s.complains, e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		s.complains = append(s.complains, "console."+string(e.Type))
	}
}

// browser is a tab of a Chromium that ends with the test.
func browser(t *testing.T) (context.Context, *seen) {
	t.Helper()
	program := testenv.Need(t, "PORTICO_CHROMIUM", "tools/chromium.sh prints it")
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		// Chromium has no sandbox of its own under root. The pages are ours.
		chromedp.NoSandbox, chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()), chromedp.Env("HOME="+t.TempDir()))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	ctx, stop := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(stop)
	s := &seen{}
	ctx, closeTab := chromedp.NewContext(ctx, chromedp.WithListener(s.listen))
	t.Cleanup(closeTab)
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	require.NoError(t, err)
	return ctx, s
}

func ask[T any](ctx context.Context, t *testing.T, a chromedp.Action[T]) T {
	t.Helper()
	answer, err := chromedp.Run(ctx, a)
	require.NoError(t, err)
	return answer
}

// look shows a page at a width, in a colour scheme.
func look(ctx context.Context, t *testing.T, page string, width int64, scheme string) {
	t.Helper()
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	require.NoError(t, err)
	ask(ctx, t, chromedp.EmulateViewport(width, 844))
	ask(ctx, t, chromedp.Navigate(page))
}

// shown is a server with the console before an API.
func shown(t *testing.T, api http.Handler) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/console/", serve(t, api))
	mux.HandleFunc("/favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL + "/console"
}

// Nobody trips over a page: axe finds nothing on any, in light and dark, on a desk
// and on a phone; no page scrolls sideways, and the browser does not complain.
func TestPagesAreAccessible(t *testing.T) {
	testenv.Slow(t, "a browser")
	t.Parallel()
	axe, err := os.ReadFile(testenv.Need(t, "PORTICO_AXE", "tools/axe.sh prints it"))
	require.NoError(t, err)
	at := shown(t, &fake{data: full()})
	ctx, seen := browser(t)
	var found []string
	for _, path := range everyPage() {
		for _, view := range []struct {
			scheme string
			width  int64
		}{{"light", 1440}, {"dark", 400}} {
			look(ctx, t, at+path, view.width, view.scheme)
			ask(ctx, t, chromedp.Evaluate[int](`document.querySelectorAll("details").forEach(d => d.open = true); 0`))
			ask(ctx, t, chromedp.Evaluate[int](string(axe)+"; 0"))
			for _, wrong := range ask(ctx, t, chromedp.Evaluate[[]string](violations, chromedp.EvalAwaitPromise)) {
				found = append(found, path+" "+view.scheme+": "+wrong)
			}
			if ask(ctx, t, chromedp.Evaluate[int64](`document.documentElement.scrollWidth`)) > view.width {
				found = append(found, path+" scrolls sideways")
			}
		}
	}
	require.Empty(t, strings.Join(found, "\n"))
	seen.mu.Lock()
	defer seen.mu.Unlock()
	require.Empty(t, seen.complains)
}

// violations are what axe finds.
const violations = `axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.flatMap(v => v.nodes.map(n => v.id + ": " + n.html.slice(0, 200) + " " + n.any.map(a => a.message).join(" "))))`

// For a schema with everything, a browser without JavaScript posts the arguments
// that were meant, exactly, from the page of the tool.
func TestAToolIsTriedInABrowser(t *testing.T) {
	testenv.Slow(t, "a browser")
	t.Parallel()
	text, err := os.ReadFile("../form/testdata/hard.json")
	require.NoError(t, err)
	var schemas map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &schemas))
	api := &fake{data: full()}
	ctx, _ := browser(t)
	_, err = chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	require.NoError(t, err)
	at := shown(t, api)
	for _, c := range []struct{ schema, intended string }{
		{"everything", `{"name":"Anna","flag":false,"place":{"city":"Rome"},"ids":[]}`},
		{"everything", `{"name":"<b>\"'&","note":"two\nlines\n","day":"2026-11-23","when":"2026-11-23T08:30:00Z","flag":true,"maybe":false,"count":9007199254740993,"share":0.10,` +
			`"size":"","level":null,"fixed":"always","tags":["a, b"," c"],"ids":[1,123456789012345678901234567890],"kinds":["a","c"],` +
			`"place":{"city":"São Paulo","at":{"lat":-23.50,"deep":{"x":""}}},"either":["x"],"optional":"three","anything":{"a":[1e-7]},"map":{"k":2},"half":{"known":"y","other":3},"matrix":[[1],[2,3]]}`},
		{"names", `{"resource-group":"r","a.b":1,"a":{"b":2},"with space":"s","slash/and~tilde":"t","\"quote'":true,"ünï":"u","":"empty","0":"zero","x[0]":["i"]}`},
		{"references", `{"tree":{"value":1,"left":{"value":2,"right":{"value":3,"left":{"value":4}}}}}`},
		{"alternatives", `{"kind":"a","left":"l"}`},
	} {
		f, err := form.New(schemas[c.schema])
		require.NoError(t, err)
		values, err := f.Values(json.RawMessage(c.intended))
		require.NoError(t, err)
		api.data["/v1/tool/toolset/demo"] = object{"key": "demo", "name": "Demo", "state": "ready", "tools": []any{object{"name": "t", "inputSchema": schemas[c.schema]}}}
		look(ctx, t, at+"/toolsets/demo?tool=t", 1280, "light")
		typed, err := json.Marshal(values)
		require.NoError(t, err)
		require.Empty(t, ask(ctx, t, chromedp.Evaluate[[]string](strings.ReplaceAll(fill, "VALUES", string(typed)))), "inputs that are missing")
		ask(ctx, t, chromedp.Click(chromedp.CSS("#t button.primary")))
		ask(ctx, t, chromedp.WaitVisible(chromedp.CSS("#t [role=status], .problems")))
		var sent struct{ Arguments json.RawMessage }
		require.NoError(t, json.Unmarshal([]byte(api.body), &sent))
		require.Equal(t, canonical(t, c.intended), canonical(t, string(sent.Arguments)))
	}
}

// fill types into the form what its inputs are to hold, and lists those that are
// not there.
const fill = `(values => {
  const missing = [];
  for (const [name, texts] of Object.entries(values)) {
    const inputs = [...document.querySelectorAll("#t form [name]")].filter(e => e.name === name);
    if (inputs.length === 0) { missing.push(name); continue; }
    for (const e of inputs) {
      if (e.type === "checkbox") e.checked = texts.includes(e.value);
      else e.value = texts[0];
    }
  }
  return missing;
})(VALUES)`

// canonical is JSON with sorted names and all digits of its numbers.
func canonical(t *testing.T, text string) string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v), text)
	out, err := json.Marshal(v)
	require.NoError(t, err)
	return string(out)
}

// With the keyboard alone, somebody makes a key that works, and revokes it; where
// the focus is can always be seen.
func TestKeysByKeyboard(t *testing.T) {
	testenv.Slow(t, "a browser")
	t.Parallel()
	s := apptest.Serve(t, "../../../configs/toolsets")
	at := shown(t, s.App.API)
	token, err := s.App.Accounts.Service.IssueToken(t.Context(), s.Ben.Actor)
	require.NoError(t, err)
	ctx, _ := browser(t)
	_, err = chromedp.Call(ctx, network.SetCookie, network.SetCookieParams{Name: "_rf_access", Value: token, URL: at})
	require.NoError(t, err)
	look(ctx, t, at+"/keys", 1280, "light")

	reach(ctx, t, `e.name === "f/name"`)
	ask(ctx, t, chromedp.KeyEvent("by keyboard"))
	ask(ctx, t, chromedp.KeyEvent(kb.Enter))
	ask(ctx, t, chromedp.WaitVisible(chromedp.CSS(".made code")))
	made := ask(ctx, t, chromedp.Text(chromedp.CSS(".made code")))
	require.Equal(t, http.StatusOK, s.Post(apptest.User{Key: made}, "/v1/tool/execute", map[string]any{"toolsetKey": "demo", "toolName": "list_cities", "arguments": map[string]any{}}, nil).Status)

	reach(ctx, t, `e.tagName === "SUMMARY" && e.textContent === "Revoke by keyboard"`)
	ask(ctx, t, chromedp.KeyEvent(kb.Enter))
	reach(ctx, t, `e.tagName === "BUTTON" && e.innerText === "Revoke by keyboard"`)
	ask(ctx, t, chromedp.KeyEvent(kb.Enter))
	ask(ctx, t, chromedp.WaitNotPresent(chromedp.Search(`//th[.="by keyboard"]`)))
	require.Equal(t, http.StatusUnauthorized, s.Post(apptest.User{Key: made}, "/v1/tool/execute", map[string]any{}, nil).Status)
}

// reach presses Tab until the focus is on the element that a condition names.
func reach(ctx context.Context, t *testing.T, condition string) {
	t.Helper()
	const most = 80
	for range most {
		ask(ctx, t, chromedp.KeyEvent(kb.Tab))
		require.True(t, ask(ctx, t, chromedp.Evaluate[bool](`(e => e === document.body || getComputedStyle(e).outlineStyle !== "none")(document.activeElement)`)), "the focus is visible")
		if ask(ctx, t, chromedp.Evaluate[bool](`(e => `+condition+`)(document.activeElement)`)) {
			return
		}
	}
	require.Fail(t, "the keyboard does not reach it", condition)
}
