package console_test

import (
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app/apptest"
)

// visitor asks for pages with the session of a user.
type visitor struct {
	t     *testing.T
	s     *apptest.Server
	token string
}

func visitorOf(t *testing.T, s *apptest.Server, u apptest.User) visitor {
	t.Helper()
	token, err := s.App.Accounts.Service.IssueToken(t.Context(), u.Actor)
	require.NoError(t, err)
	return visitor{t, s, token}
}

// page is the status and the text of a page; redirections are not followed.
func (b visitor) page(path string) (status int, body string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.s.URL+path, http.NoBody)
	require.NoError(b.t, err)
	r.AddCookie(&http.Cookie{Name: "_rf_access", Value: b.token})
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	require.NoError(b.t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(b.t, err)
	return resp.StatusCode, string(raw)
}

var links = regexp.MustCompile(`href="(/console[^"#]*)`)

// crawl follows every link from the console's first page, and returns the pages by
// their addresses.
func (b visitor) crawl() map[string]string {
	b.t.Helper()
	found := map[string]string{}
	next := []string{"/console/runs"}
	for len(next) > 0 {
		path := next[0]
		next = next[1:]
		if _, seen := found[path]; seen || strings.Contains(path, "/static/") || strings.Contains(path, "/help/") {
			continue
		}
		status, body := b.page(path)
		if status == http.StatusSeeOther { // a page that leads to another
			found[path] = ""
			continue
		}
		require.Equal(b.t, http.StatusOK, status, path)
		found[path] = body
		for _, m := range links.FindAllStringSubmatch(body, -1) {
			next = append(next, strings.ReplaceAll(m[1], "&amp;", "&"))
		}
	}
	return found
}

// Whatever address of one user's pages another one opens, the answer is that of an
// address which does not exist, and the pages of administrators exist for
// administrators only. No page shows what opens anything.
func TestPagesOfOthersDoNotExist(t *testing.T) {
	testenv.Slow(t, "every page of a user, for two users")
	t.Parallel()
	s := apptest.Serve(t, "../../configs/toolsets")
	var ran struct{ ResultID string }
	a := s.Post(s.Anna, "/v1/sandbox/execute", map[string]any{"title": "only Anna's", "language": "python", "toolsets": []string{"demo"}, "code": "from refly_tools.demo import Demo\nprint(Demo.get_weather(city='Rome', file_name_title='x'))"}, &ran)
	require.Equal(t, http.StatusOK, a.Status, a.ErrMsg)
	var canvas struct{ CanvasID string }
	s.Post(s.Anna, "/v1/canvas/create", map[string]any{"title": "only Anna's"}, &canvas)
	anna, ben := visitorOf(t, s, s.Anna), visitorOf(t, s, s.Ben)
	pages := anna.crawl()
	paths := slices.Sorted(maps.Keys(pages))
	require.Contains(t, paths, "/console/runs/"+ran.ResultID)
	require.Contains(t, paths, "/console/admin")
	require.Greater(t, len(pages), 15)
	secrets := []string{s.Anna.Key, s.Ben.Key, anna.token, ben.token}
	owned := regexp.MustCompile(`(ar-[a-z0-9]{16,}|c-[a-z0-9]{16,}|df-[a-z0-9]{16,}|(?:ptc|agent):[0-9a-f-]{36})`)
	admins, others := 0, 0
	for path, body := range pages {
		for _, secret := range secrets {
			require.NotContains(t, body, secret, path)
		}
		status, got := ben.page(path)
		require.NotContains(t, got, "only Anna", path)
		if strings.HasPrefix(path, "/console/admin") {
			admins++
			require.Equal(t, http.StatusNotFound, status, path)
		}
		id := owned.FindString(path)
		if id == "" {
			continue
		}
		others++
		random := ids.New(ids.Run)
		if strings.Contains(id, ":") {
			random = "ptc:00000000-0000-4000-8000-000000000000"
		}
		wantStatus, want := ben.page(strings.ReplaceAll(path, id, random))
		require.Equal(t, wantStatus, status, path)
		require.Equal(t, strings.ReplaceAll(want, random, id), got, path)
		require.Equal(t, http.StatusNotFound, status, path)
	}
	require.Positive(t, admins)
	require.Greater(t, others, 3, paths)
	_, mine := ben.page("/console/runs")
	require.NotContains(t, mine, `href="/console/admin"`)
}
