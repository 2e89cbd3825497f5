package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app/apptest"
)

// signedIn gives a browser the session of a user, as its page to sign in does.
func signedIn(ctx context.Context, t *testing.T, s *apptest.Server, u apptest.User) {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/console/login", strings.NewReader(url.Values{"apiKey": {u.Key}}.Encode()))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := client.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusSeeOther, resp.StatusCode)
	require.Len(t, resp.Cookies(), 1)
	c := resp.Cookies()[0]
	_, err = chromedp.Call(ctx, network.SetCookie, network.SetCookieParams{Name: c.Name, Value: c.Value, URL: s.URL})
	require.NoError(t, err)
}

// get reads from the API what a page is compared with.
func get(t *testing.T, s *apptest.Server, u apptest.User, path string, into any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, http.NoBody)
	require.NoError(t, err)
	r.Header.Set("X-API-Key", u.Key)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	var a apptest.Answer
	require.NoError(t, json.Unmarshal(raw, &a), string(raw))
	require.Equal(t, http.StatusOK, resp.StatusCode, string(raw))
	require.NoError(t, json.Unmarshal(a.Data, into))
}

// recorded is a call as the API has it.
type recorded struct {
	CallID, ToolsetID, ToolName, Status, Error, Credits string
	Line                                                int
	CreatedAt, UpdatedAt                                int64
}

// callsOf are the calls that a run made, without its programs, in their order.
func callsOf(t *testing.T, s *apptest.Server, u apptest.User, run string) []recorded {
	t.Helper()
	var all []recorded
	for cursor := ""; ; {
		var page struct {
			Items      []recorded
			NextCursor string
		}
		get(t, s, u, "/v1/tool/calls?payload=false&limit=100&resultId="+run+"&cursor="+cursor, &page)
		for _, c := range page.Items {
			if c.ToolsetID != "execute_code" && c.ToolName != "execute_code" {
				all = append(all, c)
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			return all
		}
	}
}

// begin runs a program in the background.
func begin(s *apptest.Server, u apptest.User, t *testing.T, code string) string {
	t.Helper()
	var started struct{ ResultID string }
	a := s.Post(u, "/v1/sandbox/execute", map[string]any{"code": code, "language": "python", "background": true, "title": "A test"}, &started)
	require.Equal(t, http.StatusOK, a.Status, a.ErrMsg+a.ErrDetail)
	return started.ResultID
}

// everyRow reads the list from its beginning to its end, by scrolling.
const everyRow = `(async () => {
  const box = document.getElementById("list"), seen = new Map();
  for (let y = 0; ; y += box.clientHeight - 28) {
    box.scrollTop = y;
    await new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)));
    for (const row of box.querySelectorAll(".row:not([hidden])")) seen.set(+row.getAttribute("aria-posinset"), [
      row.dataset.call, row.querySelector(".state .hidden").textContent.trim(), row.querySelector(".tool").textContent,
      row.querySelector(".cost").textContent, row.querySelector(".took").textContent]);
    if (y + box.clientHeight >= box.scrollHeight) break;
  }
  return [...seen].sort((a, b) => a[0] - b[0]).map(x => x[1]);
})()`

// The page of a run shows, live, exactly the calls that the API has, each once, and all
// of its programs.
func TestARunIsShownLiveAndExact(t *testing.T) {
	testenv.Slow(t, "a browser")
	t.Parallel()
	s := apptest.Serve(t, "../../configs/toolsets")
	ctx, seen := browser(t)
	signedIn(ctx, t, s, s.Anna)
	n := 60 + rand.IntN(60)
	nonce := fmt.Sprint("nonce", rand.Int64())
	code := fmt.Sprintf(`import random
from refly_tools.demo import Demo
for i in range(%d):
    if random.random() < 0.2:
        Demo.fail()
    elif random.random() < 0.5:
        Demo.wait(ms=random.randint(1, 60))
    else:
        Demo.get_weather(city=random.choice(["Rome", "Oslo"]))
print("%s")
`, n, nonce)
	run := begin(s, s.Anna, t, code)
	look(ctx, t, s.URL+"/console/runs/"+run, 1440, "light")
	ask(ctx, t, chromedp.Poll[bool](`document.querySelector(".row:not([hidden])") !== null`, often, chromedp.WithPollingTimeout(60*time.Second)))
	ask(ctx, t, chromedp.Poll[bool](`document.body.dataset.status === "finish"`, often, chromedp.WithPollingTimeout(90*time.Second)))
	want := callsOf(t, s, s.Anna, run)
	require.Len(t, want, n)
	rows := ask(ctx, t, chromedp.Evaluate[[][]string](everyRow, chromedp.EvalAwaitPromise))
	require.Len(t, rows, n)
	failed := 0
	lines := map[int]int{}
	for i, c := range want {
		state := map[string]string{"completed": "ok", "failed": "failed"}[c.Status]
		if state == "failed" {
			failed++
		}
		lines[c.Line]++
		require.Equal(t, []string{c.CallID, state, c.ToolsetID + "." + c.ToolName, c.Credits}, rows[i][:4], "row %d", i)
	}
	// Whoever hears the page is told of each call what it is, how it is, and how long it took.
	tree, err := chromedp.Call(ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	require.NoError(t, err)
	heard := 0
	for _, n := range tree.Nodes {
		if n.Role != nil && string(n.Role.Value) == `"option"` && n.Name != nil && strings.Contains(string(n.Name.Value), "demo.") {
			require.Regexp(t, `(ok|failed) demo\.\w+ .*\d+(\.\d)? m?s`, string(n.Name.Value))
			heard++
		}
	}
	require.Positive(t, heard)
	for line, calls := range lines {
		got := ask(ctx, t, chromedp.Evaluate[string](fmt.Sprintf(`document.querySelector('li[data-line="%d"] .count').textContent`, line)))
		require.Equal(t, fmt.Sprint(calls), got, "line %d", line)
	}
	var result struct {
		Totals struct {
			Calls, Failed int
			Credits       string
		}
	}
	get(t, s, s.Anna, "/v1/action/result?resultId="+run, &result)
	sums := ask(ctx, t, chromedp.Evaluate[[]string](`["calls", "failed", "credits"].map(id => document.getElementById(id).textContent)`))
	require.Equal(t, []string{fmt.Sprint(result.Totals.Calls), fmt.Sprint(failed), result.Totals.Credits}, sums)
	require.Equal(t, result.Totals.Failed, failed)
	require.Contains(t, ask(ctx, t, chromedp.Text(chromedp.CSS(".output"))), nonce)
	seen.mu.Lock()
	complains := seen.complains
	seen.mu.Unlock()
	require.Empty(t, complains)
	allPrograms(ctx, t, s)
}
