package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/program/repl"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/tool"
)

// cell is code for an interpreter, without tools.
func cell(code string) program.Request {
	return program.Request{Code: code, Language: sandbox.Python, Plain: true}
}

// interpret runs code in the interpreter of a place, asked of this process.
func (s *instance) interpret(place string, req program.Request) repl.Answer {
	s.t.Helper()
	got, err := s.app.Interpreters.Service.Run(s.t.Context(), s.first(), place, req)
	require.NoError(s.t, err)
	return got
}

// Variables are the same from every process, also when all of them begin at once; reset
// from any of them ends them; and the interpreter of one that stops is begun anew, which
// the model is told.
func TestAnyProcessFindsTheVariables(t *testing.T) {
	testenv.Slow(t, "two whole servers at work")
	t.Parallel()
	all := together(t, 2)
	one, other := all[0], all[1]
	first := one.interpret("c", cell("x = 1"))
	require.True(t, first.Fresh)
	for n := range 4 {
		got := all[(n+1)%2].interpret("c", cell("x += 1\nprint(x)"))
		require.Equal(t, fmt.Sprintln(n+2), got.Stdout, got.Stderr)
		require.False(t, got.Fresh)
	}
	require.Equal(t, 1, one.app.Engine.Stats().Paused+other.app.Engine.Stats().Paused, "there is one interpreter")
	his, err := other.app.Accounts.Service.CreateUser(t.Context(), "ben", "")
	require.NoError(t, err)
	ben := one.first()
	ben.UID = his.UID
	ended, err := other.app.Interpreters.Service.Reset(t.Context(), ben, "c")
	require.NoError(t, err)
	require.False(t, ended)
	got, err := other.app.Interpreters.Service.Run(t.Context(), ben, "c", cell("x"))
	require.NoError(t, err)
	require.Contains(t, got.Stderr, "NameError", "it is hers")

	for n, s := range all {
		one.interpret("c", cell("x = 1"))
		ended, err := s.app.Interpreters.Service.Reset(t.Context(), s.first(), "c")
		require.NoError(t, err)
		require.True(t, ended, n)
		require.True(t, all[1-n].interpret("c", cell("x = 1")).Fresh)
	}

	var beginning sync.WaitGroup
	for n := range 6 {
		beginning.Go(func() {
			got, err := all[n%2].app.Interpreters.Service.Run(t.Context(), one.first(), "together", cell("y = globals().get('y', 0) + 1\nprint(y)"))
			if err != nil || got.Status != sandbox.Completed {
				t.Errorf("%v %+v", err, got)
			}
		})
	}
	beginning.Wait()
	require.Equal(t, "7\n", other.interpret("together", cell("print(y + 1)")).Stdout)

	// Code with tools is recorded once, and what the other process lends it is called there.
	calls := 0
	req := program.Request{
		Code: "print(double(n=x + 20))", Language: sandbox.Python, Toolsets: []string{"demo"},
		Functions: []tool.Function{{
			Name: "double", Description: "Doubles.", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`),
			Run: func(_ context.Context, arguments json.RawMessage) record.Answer {
				calls++
				var in struct{ N int }
				if err := json.Unmarshal(arguments, &in); err != nil {
					return record.Refuse("INVALID", err.Error())
				}
				return record.Answer{Status: record.Success, Data: json.RawMessage(fmt.Sprint(2 * in.N))}
			},
		}},
	}
	for _, s := range all {
		got := s.interpret("c", req)
		require.Equal(t, "42\n", got.Stdout, "%+v", got)
		require.Equal(t, 1, got.ToolCallsMade)
		require.Equal(t, 1, one.count("SELECT count(*) FROM tool_call_results WHERE call_id = ? AND status = 'completed'", got.CallID))
	}
	require.Equal(t, 2, calls)

	holder := map[bool]*instance{true: one, false: other}[one.count("SELECT count(*) FROM interpreters WHERE place = 'c' AND uid = ? AND node_id = ?", one.first().UID, one.app.Owner) == 1]
	left := map[*instance]*instance{one: other, other: one}[holder]
	holder.stop()
	got = left.interpret("c", cell("print('x' in globals())"))
	require.Equal(t, "False\n", got.Stdout)
	require.True(t, got.Fresh)
}

// The interpreter of a process that is killed is begun anew when its lease is over: code
// waits until then, and never sees what was left behind. A process that has lost its
// lease has no interpreters left, either.
func TestInterpretersOfAKilledProcess(t *testing.T) {
	testenv.Slow(t, "two whole servers at work")
	t.Parallel()
	url, objects := databasetest.URL(t, database.Postgres), t.TempDir()
	s := serveWith(t, among(t, url, objects, "TOOL_LEASE=6s"))
	victim := spawn(t, among(t, url, objects, "TOOL_LEASE=6s", "PORTICO_LISTEN="+testenv.FreeAddress(t), "LOG_LEVEL=error"))
	s.exec("INSERT INTO interpreters (uid, place, node_id, used_at) SELECT ?, 'c', node_id, now() FROM nodes WHERE node_id <> ?", s.first().UID, s.app.Owner)
	require.True(t, s.interpret("c", cell("x = 1")).Fresh)
	require.Zero(t, s.app.Engine.Stats().Paused, "it is in the other process")
	require.False(t, s.interpret("c", cell("x")).Fresh)
	broken := make(chan error, 1)
	go func() {
		_, err := s.app.Interpreters.Service.Run(t.Context(), s.first(), "c", cell("print('begun')\nimport time\ntime.sleep(600)"))
		broken <- err
	}()
	require.Eventually(t, func() bool { return s.count("SELECT count(*) FROM tool_call_results WHERE status = 'executing'") == 1 }, time.Minute, 10*time.Millisecond)
	require.NoError(t, victim.cmd.Process.Kill())
	require.Error(t, victim.cmd.Wait())
	require.ErrorContains(t, <-broken, "lost", "what it did is not known, and it is not done again")
	got := s.interpret("c", cell("print('x' in globals())"))
	require.True(t, got.Fresh)
	require.Equal(t, "False\n", got.Stdout)

	s.interpret("c", cell("x = 1"))
	s.app.Interpreters.Service.Abandon()
	got = s.interpret("c", cell("print('x' in globals())"))
	require.True(t, got.Fresh)
	require.Equal(t, "False\n", got.Stdout)
}
