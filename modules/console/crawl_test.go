package console_test

import (
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app/apptest"
)

// violations are what axe finds.
const violations = `axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.flatMap(v => v.nodes.map(n => v.id + ": " + n.html.slice(0, 200) + " " + n.any.map(a => a.message).join(" "))))`

// Every page that links lead to, as the server shows it: it asks nobody else for
// anything, the browser complains of nothing, axe finds nothing, and it does not
// scroll sideways, in light and dark, on a desk and on a phone.
func TestEveryPageIsLocalAndAccessible(t *testing.T) {
	testenv.Slow(t, "every page in a browser, twice")
	t.Parallel()
	axe, err := os.ReadFile(testenv.Need(t, "PORTICO_AXE", "tools/axe.sh prints it"))
	require.NoError(t, err)
	s := apptest.Serve(t, "../../configs/toolsets")
	a := s.Post(s.Anna, "/v1/sandbox/execute", map[string]any{
		"title": "Weather", "language": "python", "toolsets": []string{"demo"},
		"code": "from refly_tools.demo import Demo\nprint(Demo.get_weather(city='Rome', file_name_title='x'))\nDemo.fail(file_name_title='x')",
	}, nil)
	require.Equal(t, http.StatusOK, a.Status, a.ErrMsg)
	s.Post(s.Anna, "/v1/canvas/create", map[string]any{"title": "Cities"}, nil)
	paths := slices.Sorted(maps.Keys(visitorOf(t, s, s.Anna).crawl()))
	paths = append(paths, "/docs", consent(t, s, "Notes", "http://127.0.0.1:7100/back"))
	ctx, seen := browser(t)
	signedIn(ctx, t, s, s.Anna)
	_, err = chromedp.Call(ctx, page.SetBypassCSP, page.SetBypassCSPParams{Enabled: true}) // for axe; that the policy is kept is another test's
	require.NoError(t, err)
	var found []string
	for _, path := range paths {
		if strings.HasSuffix(path, ".csv") {
			continue // a download
		}
		for _, view := range []struct {
			scheme string
			width  int64
			scale  float64
		}{{"light", 1440, 1}, {"dark", 400, 1}, {"light", 720, 2}} { // the last is 1440 pixels at 200 %
			look(ctx, t, s.URL+path, view.width, view.scheme)
			ask(ctx, t, chromedp.EmulateViewport(view.width, 844, chromedp.EmulateScale(view.scale)))
			ask(ctx, t, chromedp.Evaluate[int](`document.querySelectorAll("details").forEach(d => d.open = true); 0`))
			ask(ctx, t, chromedp.Evaluate[int](string(axe)+"; 0"))
			for _, wrong := range ask(ctx, t, chromedp.Evaluate[[]string](violations, chromedp.EvalAwaitPromise)) {
				found = append(found, path+" "+view.scheme+": "+wrong)
			}
			if ask(ctx, t, chromedp.Evaluate[int64](`document.documentElement.scrollWidth`)) > view.width {
				found = append(found, path+" scrolls sideways, "+view.scheme+": "+strings.Join(ask(ctx, t, chromedp.Evaluate[[]string](beyond)), " | "))
			}
		}
	}
	require.Empty(t, strings.Join(found, "\n"))
	seen.mu.Lock()
	defer seen.mu.Unlock()
	require.Empty(t, seen.complains)
	for _, r := range seen.requests {
		require.True(t, strings.HasPrefix(r, s.URL+"/") || strings.HasPrefix(r, "data:"), r) // Chromium draws its fields with the latter
	}
	require.Greater(t, len(seen.requests), len(paths))
}
