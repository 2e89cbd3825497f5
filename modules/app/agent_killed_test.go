//go:build !race

package app_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app"
)

// fate is what the test decides of a call, by its text.
func fate(text string) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(text)) // a hash takes everything
	return []string{"allow", "allow", "change", "refuse", "nothing"}[sum.Sum32()%5]
}

// many runs, each of which calls something that waits twice.
func manyTasks(n int) (script string, texts []string) {
	var b strings.Builder
	call := func(level, text string) {
		texts = append(texts, text)
		fmt.Fprintf(&b, "    - call: {name: %s_save, arguments: {text: %s, file_name_title: x}}\n", level, text)
	}
	for i := range n {
		fmt.Fprintf(&b, "- on: \"Task %d.\"\n  output:\n", i)
		for j := range i%3 + 1 {
			call("always", fmt.Sprintf("a%d-%d", i, j))
		}
		if i%2 == 0 {
			call("never", fmt.Sprintf("n%d", i))
		}
		b.WriteString("- output:\n")
		call("always", fmt.Sprintf("z%d", i))
		b.WriteString("- output: [{text: Done.}]\n")
	}
	return b.String(), texts
}

// Processes are killed while calls of runs wait, again and again, in the middle of
// decisions: what was allowed is sent once, all else never, and every run ends.
func TestRunsOutliveKilledProcesses(t *testing.T) {
	testenv.Slow(t, "whole servers at work")
	t.Parallel()
	const tasks, kills = 25, 4
	for _, d := range databasetest.Both() {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			upstream, files := noted(t)
			text, all := manyTasks(tasks)
			_, env := script(t, text)
			url := databasetest.URL(t, d)
			listen := testenv.FreeAddress(t)
			env = environ(t, url, append(env, "PORTICO_LISTEN="+listen, "ENDPOINT=http://"+listen, "TOOL_LEASE=6s", "APPROVAL_EXPIRY=40s", "LOG_LEVEL=error")...)
			// Who applies files and begins the runs is killed, too.
			first := serveWith(t, env)
			first.apply(t, files)
			key := first.key
			first.stop()
			p := spawn(t, env)
			s := &instance{t: t, url: "http://" + listen, key: key}
			waiting := 0
			for i := range tasks {
				a := s.send(key, "POST", "/v1/skill/invoke", map[string]any{
					"query": fmt.Sprintf("Task %d.", i), "toolsets": []string{"always", "never"}, "ptc": "off", "resultId": fmt.Sprintf("ar-task-%d", i),
				})
				require.Equal(t, 200, a.status, a.raw)
				waiting += i%3 + 1
			}
			s.waits(waiting)
			for range kills {
				require.NoError(t, p.cmd.Process.Kill())
				_ = p.cmd.Wait() // it was killed
				p = spawn(t, env)
				s.decideSome(6)
			}
			db := databasetest.OpenURL(t, url, nil)
			n := func(sql string, args ...any) int { return app.Count(t, db, sql, args...) }
			require.Eventually(t, func() bool {
				s.decideSome(1000)
				return n(`SELECT count(*) FROM action_results WHERE status NOT IN ('finish', 'error', 'failed')`) == 0
			}, 3*time.Minute, 500*time.Millisecond)

			finished := n(`SELECT count(*) FROM action_results WHERE status = 'finish'`)
			t.Logf("%d of %d runs finished", finished, tasks)
			require.GreaterOrEqual(t, finished, tasks-kills*6, "only those end otherwise whose call was being executed")
			sent := map[string]int{}
			for _, text := range upstream.all() {
				sent[text]++
			}
			for text, times := range sent {
				require.Equal(t, 1, times, text)
			}
			count := func(text, status string) int {
				return n(`SELECT count(*) FROM tool_call_results WHERE input LIKE ? AND status = ?`, `%"text":"`+text+`"%`, status)
			}
			for _, text := range all {
				switch {
				case text[0] == 'n':
				case fate(text) == "allow" && count(text, "completed") == 1:
					require.Equal(t, 1, sent[text], text)
				case fate(text) == "change":
					require.Zero(t, sent[text], text)
					require.LessOrEqual(t, count(text+"!", "completed"), sent[text+"!"], text)
				case fate(text) == "refuse", fate(text) == "nothing":
					require.Zero(t, sent[text], text)
				}
			}
			require.Zero(t, n(`SELECT count(*) FROM tool_call_results WHERE status IN ('executing', 'waiting')`))
			require.Zero(t, n(`SELECT count(*) FROM approvals WHERE state = 'waiting'`))
			require.Zero(t, n(`SELECT count(*) FROM agent_turns`), "what has ended leaves nothing")
			require.Equal(t, n(`SELECT count(*) FROM tool_call_results WHERE status = 'completed'`), n(`SELECT count(*) FROM credit_usages WHERE usage_type = 'tool_call'`))
		})
	}
}

// decideSome decides at most so many of the calls that wait.
func (s *instance) decideSome(most int) {
	s.t.Helper()
	a := s.send(s.key, "GET", "/v1/tool/approvals?limit=200", nil)
	require.Equal(s.t, http.StatusOK, a.status, a.raw)
	var page struct{ Items []waiting }
	require.NoError(s.t, json.Unmarshal(a.body.Data, &page))
	for _, w := range page.Items {
		var given struct{ Text string }
		require.NoError(s.t, json.Unmarshal(w.Arguments, &given))
		if most == 0 {
			return
		}
		switch decision := fate(given.Text); decision {
		case "nothing":
			continue
		case "change":
			s.decide(w.CallID, "allow", "arguments", map[string]any{"text": given.Text + "!"})
		default:
			s.decide(w.CallID, decision)
		}
		most--
	}
}
