package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app"
)

// notes is an upstream that writes down what it is sent.
type notes struct {
	mu   sync.Mutex
	sent []string
}

func (n *notes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var note struct{ Text string }
	if err := json.NewDecoder(r.Body).Decode(&note); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sent = append(n.sent, note.Text)
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"saved":%q}`, note.Text) // whoever has gone is not told
}

func (n *notes) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(slices.Values(n.sent))
}

// noted is a toolset whose calls wait, and one whose calls do not.
func noted(t *testing.T) (*notes, map[string]string) {
	t.Helper()
	n := &notes{}
	web := httptest.NewServer(n)
	t.Cleanup(web.Close)
	file := func(level string) string {
		return `
key: ` + level + `
name: Notes
domain: ` + web.URL + `
egress: {allow: [127.0.0.0/8]}
approval: ` + level + `
billing: 2
methods:
  - {name: save, description: Save a note., endpoint: "/notes", method: POST,
     request: {type: object, additionalProperties: false, required: [text], properties: {text: {type: string}}}}
`
	}
	return n, map[string]string{"always.yaml": file("always"), "never.yaml": file("never")}
}

// A run whose call waits for a person outlives its process: it goes on in another one
// when the call is decided, with what the model had said, and nothing is sent twice.
func TestARunOutlivesItsProcess(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			upstream, files := noted(t)
			_, env := script(t, `
- expect: ["Save three notes"]
  output:
    - reasoning: "Three of them."
    - text: "I save them. "
    - call: {name: always_save, arguments: {text: one, file_name_title: one}}
    - call: {name: always_save, arguments: {text: two, file_name_title: two}}
    - call: {name: never_save, arguments: {text: three, file_name_title: three}}
- expect: ["Save three notes", "I save them.", "Three of them.", '{"saved":"ONE"}', "A person refused the call: not two", '{"saved":"three"}']
  output: [{call: {name: always_save, arguments: {text: four, file_name_title: four}}}]
- expect: ['{"saved":"four"}', "Save three notes"]
  output: [{text: "Three are saved."}]
`)
			url := databasetest.URL(t, d)
			env = environ(t, url, env...)
			first := serveWith(t, env)
			first.apply(t, files)
			id := ids.New(ids.Run)
			a := first.send(first.key, "POST", "/v1/skill/invoke", map[string]any{
				"query": "Save three notes", "toolsets": []string{"always", "never"}, "ptc": "off", "resultId": id,
			})
			require.Equal(t, 200, a.status, a.raw)
			waiting := first.waits(2)
			require.Eventually(t, func() bool {
				return first.count(`SELECT count(*) FROM tool_call_results WHERE status = 'completed'`) == 1
			}, time.Minute, 10*time.Millisecond)
			first.stop()
			// As if the process had died before it wrote down what the model was given.
			require.NoError(t, databasetest.OpenURL(t, url, nil).InTx(t.Context(), func(tx database.Tx) error {
				return database.Unscoped(tx.Handle).Exec("UPDATE action_messages SET content = '' WHERE type = 'tool'").Error
			}))
			// And as if it had recorded an answer, and not come to what follows from it.
			app.Exec(t, databasetest.OpenURL(t, url, nil), `INSERT INTO action_messages (message_id, result_id, seq, type, content) VALUES ('am-late', ?, 9999, 'ai', 'Given again.')`, id)
			second := serveWith(t, env)
			second.key = first.key
			for _, w := range second.waits(2) {
				require.Contains(t, []string{waiting[0].CallID, waiting[1].CallID}, w.CallID)
				if string(w.Arguments) == `{"text":"one"}` {
					require.Equal(t, 200, second.decide(w.CallID, "allow", "arguments", map[string]any{"text": "ONE"}).status)
				} else {
					require.Equal(t, 200, second.decide(w.CallID, "refuse", "reason", "not two").status)
				}
			}
			require.Equal(t, 200, second.decide(second.waits(1)[0].CallID, "allow").status)
			r := second.finished(t, second.key, id)
			require.Equal(t, "finish", r.Status, "%v", r.Errors)
			require.Equal(t, []string{"ONE", "four", "three"}, upstream.all())
			raw := second.send(second.key, "GET", "/v1/action/result?resultId="+id, nil).raw
			require.Contains(t, raw, `"content":"I save them. Three are saved."`)
			require.NotContains(t, raw, "Given again.")
		})
	}
}

// A process that takes a run over locks its calls before the run, as decisions do: on
// PostgreSQL, two transactions with different orders can end in a deadlock.
func TestATakeoverLocksAsADecisionDoes(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	upstream, files := noted(t)
	_, env := script(t, `
- output: [{call: {name: always_save, arguments: {text: one, file_name_title: x}}}]
- output: [{text: One is saved.}]
`)
	url := databasetest.URL(t, database.Postgres)
	env = environ(t, url, env...)
	first := serveWith(t, env)
	first.apply(t, files)
	a := first.send(first.key, "POST", "/v1/skill/invoke", map[string]any{"query": "Save.", "toolsets": []string{"always"}, "ptc": "off", "resultId": "ar-both"})
	require.Equal(t, 200, a.status, a.raw)
	call := first.waits(1)[0].CallID
	second := serveWith(t, append(env, "DEMO_LISTEN="+testenv.FreeAddress(t)))
	db := databasetest.OpenURL(t, url, nil)
	require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
		decision := database.Unscoped(tx.Handle)
		require.NoError(t, decision.Exec("SELECT 1 FROM tool_call_results WHERE call_id = ? FOR NO KEY UPDATE", call).Error)
		first.stop()
		require.Eventually(t, func() bool {
			return app.Count(t, db, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
				AND query LIKE 'SELECT%tool_call_results%'`) > 0
		}, time.Minute, 10*time.Millisecond, "the takeover waits for the call")
		return decision.Exec("SELECT 1 FROM action_results WHERE result_id = 'ar-both' FOR NO KEY UPDATE NOWAIT").Error
	}))
	second.key = first.key
	require.Equal(t, 200, second.decide(call, "allow").status)
	r := second.finished(t, second.key, "ar-both")
	require.Equal(t, "finish", r.Status, "%v", r.Errors)
	require.Equal(t, []string{"one"}, upstream.all())
}

// A process that was taken for dead and comes back leaves the run to the one that went
// on with it: it asks the model nothing, sends nothing, and writes nothing.
func TestAProcessThatComesBackLeavesTheRun(t *testing.T) {
	testenv.Slow(t, "whole servers at work")
	t.Parallel()
	upstream, files := noted(t)
	model, env := script(t, `
- output: [{call: {name: always_save, arguments: {text: one, file_name_title: x}}}]
- output: [{call: {name: always_save, arguments: {text: two, file_name_title: x}}}]
- output: [{text: Two are saved.}]
`)
	url := databasetest.URL(t, database.Postgres)
	env = environ(t, url, append(env, "TOOL_LEASE=5s", "LOG_LEVEL=warn")...)
	first := serveWith(t, env)
	first.apply(t, files)
	key := first.key
	first.stop()
	sleeper := spawn(t, append(env, "PORTICO_LISTEN="+testenv.FreeAddress(t)))
	base, _, _ := strings.Cut(sleeper.url, "/v1/")
	s := &instance{t: t, url: base, key: key}
	a := s.send(key, "POST", "/v1/skill/invoke", map[string]any{"query": "Save.", "toolsets": []string{"always"}, "ptc": "off", "resultId": "ar-sleeps"})
	require.Equal(t, 200, a.status, a.raw)
	call := s.waits(1)[0].CallID
	require.NoError(t, sleeper.cmd.Process.Signal(syscall.SIGSTOP))

	second := serveWith(t, append(env, "DEMO_LISTEN="+testenv.FreeAddress(t)))
	second.key = key
	db := databasetest.OpenURL(t, url, nil)
	require.Eventually(t, func() bool {
		return app.Count(t, db, `SELECT count(*) FROM action_results WHERE lease_owner = ?`, second.app.Owner) == 1
	}, time.Minute, 20*time.Millisecond, "it is taken over")
	require.Equal(t, 200, second.decide(call, "allow").status)
	next := second.waits(1)[0].CallID
	require.NoError(t, sleeper.cmd.Process.Signal(syscall.SIGCONT))
	// It is back when it answers, and done with the run when it stops.
	require.Equal(t, 200, s.send(key, "GET", "/v1/auth/me", nil).status)
	require.NoError(t, sleeper.cmd.Process.Signal(syscall.SIGTERM))
	_ = sleeper.cmd.Wait() // how it ends is not the question
	require.Equal(t, 200, second.decide(next, "allow").status)
	r := second.finished(t, key, "ar-sleeps")
	require.Equal(t, "finish", r.Status, "%v", r.Errors)
	require.Equal(t, []string{"one", "two"}, upstream.all())
	require.Len(t, model.Requests(), 3)
	var given []string
	for _, m := range r.Messages {
		if m.Type == "tool" {
			given = append(given, m.Content)
		}
	}
	require.Equal(t, []string{`{"saved":"one"}`, `{"saved":"two"}`}, given)
}
