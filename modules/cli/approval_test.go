package cli_test

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app/apptest"
)

// An operator says which calls wait, and decides them while the server works.
func TestOperatorsDecideCalls(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	env := apptest.Environ(t, databasetest.EmptyURL(t, database.SQLite))
	s := serving(t, env)
	defer s.stop()
	told := func(args ...string) string {
		t.Helper()
		out := good(t, env, append(args, "--json")...)
		golden(t, filepath.Join("testdata", "json", "approval-"+args[1]+".json"), regexp.MustCompile(`127(\.\d+){3}:\d+`).ReplaceAllString(stable(out), "127.0.0.1:5801"))
		return out
	}
	told("approval", "set", "always", "--tool", "demo")
	told("approval", "policy")
	done := make(chan string, 1)
	go func() {
		done <- s.execute("print(get_weather(city='Oslo')['city'])\ntry:\n    get_weather(city='Rome')\nexcept ApprovalDenied as e:\n    print(e.reason)")
	}()
	waiting := func(city string) (callID string) {
		t.Helper()
		require.Eventually(t, func() bool {
			var list []struct {
				CallID    string
				Arguments struct{ City string }
			}
			require.NoError(t, json.Unmarshal([]byte(good(t, env, "approval", "list", "--json")), &list))
			if len(list) == 1 && list[0].Arguments.City == city {
				callID = list[0].CallID
			}
			return callID != ""
		}, time.Minute, 50*time.Millisecond)
		return callID
	}
	oslo := waiting("Oslo")
	told("approval", "list")
	told("approval", "show", oslo)
	told("approval", "allow", oslo)
	told("approval", "refuse", waiting("Rome"), "--reason", "not Rome")
	require.Contains(t, <-done, `Oslo\nnot Rome\n`)
}
