// Slow under the race detector: make test runs it without.
//go:build !race

package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/internal/testenv"
)

// columnsWith are the columns of the whole database that have a text in them.
func columnsWith(t *testing.T, db *database.DB, text string) []string {
	t.Helper()
	var places []string
	for table, columns := range schemaOf(t, db) {
		for _, column := range columns {
			q := fmt.Sprintf("SELECT count(*) FROM %q WHERE instr(CAST(%q AS blob), CAST(? AS blob)) > 0", table, column)
			if db.Dialect() == database.Postgres {
				q = fmt.Sprintf(`SELECT count(*) FROM %q WHERE strpos(CAST(%q AS text), ?) > 0`, table, column)
			}
			var n int64
			require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw(q, text).Scan(&n).Error, q)
			if n > 0 {
				places = append(places, table+"."+column)
			}
		}
	}
	return places
}

// objectsWith are the names of objects that have a text in their name or in their bytes.
func objectsWith(t *testing.T, objects objectstore.Store, text string) []string {
	t.Helper()
	keys, err := objects.List(t.Context(), "")
	require.NoError(t, err)
	var places []string
	for _, key := range keys {
		content, err := objectstore.Read(t.Context(), objects, key, 64<<20)
		require.NoError(t, err)
		if strings.Contains(key, text) || bytes.Contains(content, []byte(text)) {
			places = append(places, key)
		}
	}
	return places
}

// used is a user of the whole product who leaves a word wherever one can be left, with
// something that still goes on.
func (s *instance) used(word string) (uid, key string) {
	s.t.Helper()
	u, err := s.app.Accounts.Service.CreateUser(s.t.Context(), word+"-name", word+"@example.com")
	require.NoError(s.t, err)
	_, plain, err := s.app.Accounts.Service.CreateKey(s.t.Context(), actor.Actor{UID: u.UID, Scope: actor.Full}, word+" key", 0)
	require.NoError(s.t, err)
	as := *s
	as.key = plain.Reveal()
	as.signIn(as.key)
	must := func(method, path string, body any) answer {
		s.t.Helper()
		a := as.send(as.key, method, path, body)
		require.Equal(s.t, 200, a.status, "%s: %s", path, a.raw)
		return a
	}
	large := strings.Repeat(word+" ", 30_000)
	canvas := as.canvas(word + " canvas")
	as.store(canvas, word+".txt", word+" file")
	o := as.run(map[string]any{"code": "import sys\nopen('" + word + ".txt', 'w').write('x')\nprint('" + large + "')", "toolsets": []string{"demo"}})
	require.Contains(s.t, o.Stdout, word)
	must("POST", "/v1/tool/execute", map[string]any{"toolsetKey": "demo", "toolName": "get_weather", "arguments": map[string]any{"city": word}})
	require.Equal(s.t, 200, as.upload("/v1/upload", map[string]string{word + ".csv": word + ",1\n"}).status)
	require.Equal(s.t, 0, as.codeAs(as.key, "/exec", map[string]any{"lang": "py", "code": "print('" + word + "')"}).code-200)
	must("POST", "/v1/mcp/servers", map[string]any{"name": "theirs", "url": "https://mcp.example.com/" + word, "headers": map[string]string{"X-Key": word}})
	must("POST", "/v1/knowledge/documents", map[string]any{"source": word + ".md", "text": "The lantern of " + word + " is red."})
	must("POST", "/v1/action/register", map[string]any{"title": word + " elsewhere"})
	return u.UID, as.key
}

// An administrator erases a user who has used everything: neither the database nor the
// storage has anything of them, but their id where the books and the audit log need it.
// Another user, and the books, are as they were.
func TestAnErasedUserIsNowhere(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		const hers, his = "annacanary", "bencanary"
		anna, key := s.used(hers)
		_, bens := s.used(his)
		s.signIn(s.key)
		require.Equal(t, 200, s.send(s.key, "GET", "/v1/admin/users?q="+hers, nil).status)
		require.Greater(t, len(columnsWith(t, s.app.DB, hers)), 15)
		require.GreaterOrEqual(t, len(objectsWith(t, s.app.Objects, hers)), 3)
		before, kept := columnsWith(t, s.app.DB, his), objectsWith(t, s.app.Objects, his)
		type credits struct{ CreditBalance json.Number }
		var was, is credits
		require.NoError(t, json.Unmarshal(s.send(s.key, "GET", "/v1/admin/users/"+anna, nil).body.Data, &was))

		require.Equal(t, 409, s.send(s.key, "DELETE", "/v1/admin/users/"+s.first().UID, nil).status)
		require.Equal(t, 403, s.send(bens, "DELETE", "/v1/admin/users/"+anna, nil).status)
		require.Equal(t, 404, s.send(s.key, "DELETE", "/v1/admin/users/u-nobody", nil).status)
		// Programs of hers go on: one that is paused, and one that leaves a file when she
		// is gone.
		leaves := map[string]any{"lang": "py", "code": "import time\ntime.sleep(8)\nopen('" + hers + ".txt', 'w').write('" + hers + "')"}
		require.Equal(t, "tool_call_required", s.codeAs(key, "/exec/programmatic", map[string]any{"code": "await ask()", "tools": tools("ask")}).Status)
		late := make(chan ended, 1)
		go func() { late <- s.codeAs(key, "/exec", leaves) }()
		require.Eventually(t, func() bool { return s.app.Engine.Stats().Running == 1 }, time.Minute, time.Millisecond)
		a := s.send(s.key, "DELETE", "/v1/admin/users/"+anna, nil)
		require.Equal(t, 200, a.status, a.raw)
		end := <-late
		require.Equal(t, 200, end.code)
		require.Empty(t, end.Files)
		require.Contains(t, end.Stderr, "The user is disabled")

		require.Equal(t, 401, s.send(key, "GET", "/v1/action/list", nil).status)
		require.Empty(t, columnsWith(t, s.app.DB, hers))
		require.Empty(t, objectsWith(t, s.app.Objects, hers))
		require.Empty(t, objectsWith(t, s.app.Objects, anna))
		require.Subset(t, []string{
			"users.uid", "users.name", "audit_events.uid", "audit_events.subject",
			"credit_usages.uid", "credit_recharges.uid", "credit_recharges.recharge_id", "credit_debts.uid",
		}, columnsWith(t, s.app.DB, anna))
		require.ElementsMatch(t, before, columnsWith(t, s.app.DB, his))
		require.ElementsMatch(t, kept, objectsWith(t, s.app.Objects, his))
		require.Equal(t, 200, s.send(bens, "GET", "/v1/action/list", nil).status)
		users, wrong, err := s.app.Credits.Reports.Verify(t.Context())
		require.NoError(t, err)
		require.Empty(t, wrong)
		require.Equal(t, 3, users)
		require.NoError(t, json.Unmarshal(s.send(s.key, "GET", "/v1/admin/users/"+anna, nil).body.Data, &is))
		require.Equal(t, was, is)

		again := s.send(s.key, "DELETE", "/v1/admin/users/"+anna, nil)
		require.Equal(t, 200, again.status, again.raw)
		require.Contains(t, again.raw, `"objects":0`)
	}, "TOOL_OUTPUT_CAP=10KiB", "SIGNUP=invite")
}
