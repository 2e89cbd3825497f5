package console_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

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
	run, _ := ranElsewhere(t, s, s.Anna, many, " small")
	_, page := visit(t, s.URL+"/console/runs/"+run, nil, "Cookie", sessionOf(t, s, s.Anna))
	require.Equal(t, many, strings.Count(page, `<article class="program"`))
	require.NotContains(t, page, "There are more programs")

	run, programs := ranElsewhere(t, s, s.Anna, many, strings.Repeat("x", 60<<10))
	_, page = visit(t, s.URL+"/console/runs/"+run, nil, "Cookie", sessionOf(t, s, s.Anna))
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
