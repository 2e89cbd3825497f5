package console_test

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/modules/app/apptest"
)

// many is how many programs a run of the tests has: more than a page of the API.
const many = 25

// ranElsewhere is a run whose programs a service beside this server executed: n of
// them, each a number and the text that follows it.
func ranElsewhere(t *testing.T, s *apptest.Server, u apptest.User, n int, text string) (run string, programs []string) {
	t.Helper()
	for i := range n {
		var p struct{ ResultID, ToolCallID string }
		a := s.Post(u, "/v1/action/register", map[string]any{"resultId": run, "language": "text", "code": fmt.Sprint(i, text)}, &p)
		require.Equal(t, http.StatusOK, a.Status, a.ErrMsg)
		run, programs = p.ResultID, append(programs, p.ToolCallID)
	}
	a := s.Post(u, "/v1/action/finish", map[string]any{"resultId": run, "status": "finish"}, nil)
	require.Equal(t, http.StatusOK, a.Status, a.ErrMsg)
	return run, programs
}

// allPrograms looks at runs of many programs: small ones come with the page, large ones
// are read while it is open, each once and in their order. Where that does not work, the
// page says so, and asks no more.
func allPrograms(ctx context.Context, t *testing.T, s *apptest.Server) {
	t.Helper()
	const shown = `[...document.querySelectorAll(".program")].map((p) => p.id)`
	run, programs := ranElsewhere(t, s, s.Anna, many, " small")
	cookie := sessionOf(t, s, s.Anna)
	_, page := visit(t, s.URL+"/console/runs/"+run, nil, "Cookie", cookie)
	require.Equal(t, many, strings.Count(page, `<article class="program"`))
	require.NotContains(t, page, "There are more")

	// What is edited is the program that is replayed, or the one that is named.
	replayed := regexp.MustCompile(`name="program" value="([^"]+)"`).FindStringSubmatch(page)
	edit := regexp.MustCompile(`href="([^"]+)">Edit<`).FindStringSubmatch(page)
	require.Equal(t, programs[0], replayed[1])
	address := s.URL + html.UnescapeString(edit[1])
	_, page = visit(t, address, nil, "Cookie", cookie)
	require.Regexp(t, `<textarea id="code"[^>]*>\s*0 small</textarea>`, page)
	address, _, _ = strings.Cut(address, "&from=")
	_, page = visit(t, address+"&from="+url.QueryEscape(programs[many-1]), nil, "Cookie", cookie)
	require.Regexp(t, `<textarea id="code"[^>]*>\s*24 small</textarea>`, page)
	resp, _ := visit(t, address+"&from=none", nil, "Cookie", cookie)
	require.Equal(t, http.StatusNotFound, resp.StatusCode)

	// A conversation that is longer than one answer of the API says so.
	require.NoError(t, s.App.DB.InTx(t.Context(), func(tx database.Tx) error {
		for i := range 1001 {
			err := database.Unscoped(tx.Handle).Exec("INSERT INTO action_messages (message_id, result_id, version, seq, type, content) VALUES (?, ?, 0, ?, 'human', 'said')", fmt.Sprint("m-", i), run, i+100).Error
			if err != nil {
				return err
			}
		}
		return nil
	}))
	_, page = visit(t, s.URL+"/console/runs/"+run, nil, "Cookie", cookie)
	require.Less(t, strings.Count(page, `<article class="said human"`), 1001)
	require.Regexp(t, `There are more messages: <code>GET /v1/action/result\?resultId=[^ ]+;messagesAfter=[^<]+<`, page)

	run, programs = ranElsewhere(t, s, s.Anna, many, strings.Repeat("x", 60<<10))
	_, page = visit(t, s.URL+"/console/runs/"+run, nil, "Cookie", cookie)
	require.Contains(t, page, "There are more programs")
	look(ctx, t, s.URL+"/console/runs/"+run, 1440, "light")
	ask(ctx, t, chromedp.Poll[bool](fmt.Sprintf(`document.querySelectorAll(".program").length >= %d`, many), often, chromedp.WithPollingTimeout(20*time.Second)))
	require.Equal(t, programs, ask(ctx, t, chromedp.Evaluate[[]string](shown)))

	_, err := chromedp.Call(ctx, network.SetBlockedURLs, network.SetBlockedURLsParams{URLPatterns: []*network.BlockPattern{{URLPattern: "*://*:*/console/runs/*/programs\\?*", Block: true}}})
	require.NoError(t, err)
	look(ctx, t, s.URL+"/console/runs/"+run, 1440, "light")
	ask(ctx, t, chromedp.Poll[bool](`document.getElementById("connection").textContent.startsWith("Some programs could not be read.")`, often, chromedp.WithPollingTimeout(20*time.Second)))
	require.Len(t, ask(ctx, t, chromedp.Evaluate[[]string](shown)), 20)
}
