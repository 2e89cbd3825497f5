package console_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app/apptest"
)

// consent is the path of the page on which an app is let in that goes back to an
// address.
func consent(t *testing.T, s *apptest.Server, name, back string) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"client_name": name, "redirect_uris": []string{back}})
	require.NoError(t, err)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/oauth/register", strings.NewReader(string(body)))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	var registered struct {
		ID string `json:"client_id"`
	}
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&registered))
	q := url.Values{
		"response_type": {"code"}, "client_id": {registered.ID}, "redirect_uri": {back}, "state": {"s & <t>"}, "code_challenge_method": {"S256"},
		"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"},
	}
	return "/console/authorize?" + q.Encode()
}

// A person who is not signed in signs in first, sees which app asks and where it goes,
// and is back at the app after one click. What the app calls itself is text.
func TestAnAppIsLetInByOneClick(t *testing.T) {
	testenv.Slow(t, "a browser")
	t.Parallel()
	s := apptest.Serve(t, t.TempDir())
	got := make(chan url.Values, 10)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/back" {
			got <- r.URL.Query()
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<title>The app</title>") // the browser looks
	}))
	t.Cleanup(app.Close)
	page := consent(t, s, "<script>document.title = 'owned'</script>", app.URL+"/back")
	ctx, watched := browser(t)
	ask(ctx, t, chromedp.Navigate(s.URL+page))
	ask(ctx, t, chromedp.Evaluate[int](`const key = document.querySelector("input[name=apiKey]"); key.value = "`+s.Anna.Key+`"; setTimeout(() => key.form.requestSubmit()); 0`))
	reaches := func(condition string) {
		require.Eventually(t, func() bool {
			there, err := chromedp.Run(ctx, chromedp.Evaluate[bool](condition))
			return err == nil && there // a page that goes away answers nothing
		}, time.Minute, 20*time.Millisecond, condition)
	}
	reaches(`document.querySelector("h1")?.textContent === "Let an app in"`)
	text := ask(ctx, t, chromedp.Evaluate[string](`document.querySelector("main").innerText`))
	require.Contains(t, text, "<script>document.title = 'owned'</script> wants to use Portico as admin")
	require.Contains(t, text, strings.TrimPrefix(app.URL, "http://"))
	ask(ctx, t, chromedp.Evaluate[int](`setTimeout(() => document.querySelector("button[value=allow]").click()); 0`))
	select {
	case q := <-got:
		require.Equal(t, "s & <t>", q.Get("state"))
		require.NotEmpty(t, q.Get("code"))
	case <-time.After(time.Minute):
		t.Fatal("the browser does not come back")
	}
	reaches(`document.title === "The app"`)
	watched.mu.Lock()
	defer watched.mu.Unlock()
	require.Empty(t, watched.complains)
}
