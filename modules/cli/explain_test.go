package cli_test

import (
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app/apptest"
)

// decided is what is said of one question, on the page or by the command.
type decided struct {
	Enabled bool
	Steps   []step
}

type step struct{ Check, Result, Reason string }

var (
	verdict = regexp.MustCompile(`(?s)<p role="status"><span class="state (ok|failed)">`)
	shown   = regexp.MustCompile(`(?s)<li><span class="state \w+">.*?</svg> (\w+)</span> <strong>(\w+)</strong> (.*?)</li>`)
)

// The page of administrators says of random policies and questions what the command
// says, step by step.
func TestThePageExplainsAsTheCommandDoes(t *testing.T) {
	testenv.Slow(t, "twenty servers")
	t.Parallel()
	random := rand.New(rand.NewPCG(20, 26))
	one := func(of ...string) string { return of[random.IntN(len(of))] }
	seen := map[string]int{}
	for n := range 20 {
		users := []string{"u-" + strings.Repeat("a", 24), "u-" + strings.Repeat("b", 24)}
		env := append(apptest.Environ(t, databasetest.URL(t, database.SQLite)),
			"PTC_ENABLED=", "PTC_MODE="+one("on", "on", "on", "partial", "partial", "partial", "off"), "PTC_DEBUG="+one("", "", "opt-in", "opt-out", "true"), "PTC_USER_ALLOWLIST="+one("", users[0], strings.Join(users, ",")),
			"PTC_TOOLSET_BLOCKLIST="+one("", "", "jina", "jina,demo"), "PTC_ROLLOUT_PERCENT="+one("100", "100", "60", "0"), "PTC_ROLLOUT_SALT="+fmt.Sprint("salt-", n),
		)
		if list := one("not set", "not set", "demo", "demo,gmail"); list != "not set" {
			env = append(env, "PTC_TOOLSET_ALLOWLIST="+list)
		}
		s := serving(t, env)
		cookie := s.session()
		for range 10 {
			q := []string{"--uid", one(users[0], users[1], fmt.Sprintf("u-%024d", random.IntN(1000))), "--toolsets", one("", "demo", "demo,jina", "gmail"), "--title", one("", "Weather", "useptc please", "NonPTC & <b>")}
			var said decided
			require.NoError(t, json.Unmarshal([]byte(good(t, env, append([]string{"ptc", "explain"}, q...)...)), &said))
			status, page := s.get("/console/admin/ptc?"+url.Values{"uid": {q[1]}, "toolsets": {q[3]}, "title": {q[5]}}.Encode(), "Cookie", cookie)
			require.Equal(t, http.StatusOK, status, page)
			found := verdict.FindStringSubmatch(page)
			require.NotNil(t, found, page)
			read := decided{Enabled: found[1] == "ok"}
			for _, m := range shown.FindAllStringSubmatch(page, -1) {
				read.Steps = append(read.Steps, step{m[2], m[1], html.UnescapeString(m[3])})
				seen[m[2]+" "+m[1]]++
			}
			require.Equal(t, said, read, "%v with %v", q, env[len(env)-8:])
			seen[fmt.Sprint(said.Enabled)]++
		}
		s.stop()
	}
	for _, check := range []string{"mode", "toolset_blocklist", "toolset_allowlist", "user_allowlist", "rollout", "debug_title"} {
		require.Positive(t, seen[check+" pass"], "%s never passed: %v", check, seen)
		require.Positive(t, seen[check+" fail"], "%s never failed: %v", check, seen)
	}
	require.Positive(t, seen["true"], seen)
	require.Positive(t, seen["false"], seen)
}

// session signs the first user in, and returns the cookie.
func (s *server) session() string {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+"/v1/auth/session", strings.NewReader(`{"apiKey":"`+s.key+`"}`))
	require.NoError(s.t, err)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	require.Equal(s.t, http.StatusOK, resp.StatusCode)
	require.Len(s.t, resp.Cookies(), 1)
	return resp.Cookies()[0].Name + "=" + resp.Cookies()[0].Value
}
