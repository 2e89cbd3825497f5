package app_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/agent"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/program/repl"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/sandbox"
)

// Every method of the agents and the interpreters is tried on another user's
// things.
func TestAgentsOfAnotherUser(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	_, env := script(t, "- output: [{text: Hello.}]")
	s := serve(t, databasetest.URL(t, database.SQLite), env...)
	users, err := s.app.Accounts.Service.Users(t.Context())
	require.NoError(t, err)
	anna := actor.Actor{UID: users[0].UID, Scope: actor.Full}
	made, err := s.app.Accounts.Service.CreateUser(t.Context(), "ben", "")
	require.NoError(t, err)
	ben := actor.Actor{UID: made.UID, Scope: actor.Full}
	canvas := s.canvas("hers")
	require.Equal(t, "finish", s.invoke(t, map[string]any{"query": "Hi", "resultId": "ar-hers", "canvasId": canvas}).Status)

	a := s.app.Agents.Service
	tries := map[string]func(t *testing.T){
		"Invoke": func(t *testing.T) {
			_, err := a.Invoke(t.Context(), ben, agent.Request{Query: "x", ResultID: "ar-hers"})
			require.ErrorIs(t, err, run.ErrMissing)
			_, err = a.Invoke(t.Context(), ben, agent.Request{Query: "x", CanvasID: canvas})
			require.ErrorIs(t, err, run.ErrCanvasMissing)
			_, err = a.Invoke(t.Context(), ben, agent.Request{Query: "x", History: []string{"ar-hers"}})
			require.ErrorIs(t, err, run.ErrMissing)
		},
		"Abort": func(t *testing.T) {
			_, err := a.Abort(t.Context(), ben, "ar-hers", nil)
			require.ErrorIs(t, err, run.ErrMissing)
		},
		"Spare": func(t *testing.T) {
			_, err := a.Spare(t.Context(), record.Call{UID: ben.UID, ResultID: "ar-hers", Origin: ids.Agent, Status: record.Waiting}, time.Now(), time.Now())
			require.ErrorIs(t, err, run.ErrMissing)
		},
		"AtOnce": func(t *testing.T) {
			now, _ := a.AtOnce(ben)
			require.Zero(t, now)
		},
		"Forget": func(t *testing.T) { // finds no turn of hers under his id
			require.NoError(t, s.app.DB.InTx(t.Context(), func(tx database.Tx) error {
				return a.Forget(tx, run.Ref{UID: ben.UID, ResultID: "ar-hers"})
			}))
		},
		"GoesOn": func(t *testing.T) { // finds no turn of hers under his id
			goesOn, err := a.GoesOn(t.Context(), run.Run{UID: ben.UID, ResultID: "ar-hers", Type: "skill"})
			require.NoError(t, err)
			require.False(t, goesOn)
		},
		"Running":  func(t *testing.T) { require.Zero(t, a.Running(), "it is a number, of all users") },
		"Abandon":  func(*testing.T) {}, // is for what a process works on, for all users
		"Quit":     func(*testing.T) {}, // the same
		"TakeOver": func(t *testing.T) { require.NoError(t, a.TakeOver(t.Context()), "it is for all users") },
	}
	i := s.app.Interpreters.Service
	cell := program.Request{Code: "print('x' in globals())\nx = 1", Language: sandbox.Python, Timeout: time.Minute}
	first, err := i.Run(t.Context(), anna, canvas, cell)
	require.NoError(t, err)
	require.Equal(t, "False\n", first.Stdout)
	foreign := map[string]func(t *testing.T){
		"Run": func(t *testing.T) {
			o, err := i.Run(t.Context(), ben, canvas, cell)
			require.NoError(t, err)
			require.True(t, o.Fresh)
			require.Equal(t, "False\n", o.Stdout, "the interpreter of that name is another one")
			other := cell
			other.CanvasID = canvas
			_, err = i.Run(t.Context(), ben, canvas, other)
			require.ErrorIs(t, err, run.ErrCanvasMissing)
			_, err = i.Reset(t.Context(), ben, canvas)
			require.NoError(t, err)
		},
		"Reset": func(t *testing.T) {
			reset, err := i.Reset(t.Context(), ben, canvas)
			require.NoError(t, err)
			require.False(t, reset)
		},
		"Resting": func(t *testing.T) { require.Positive(t, i.Resting(), "it is a number, of all users") },
		"Abandon": func(*testing.T) {}, // is for what a process works on, for all users
	}
	for of, c := range map[reflect.Type]map[string]func(t *testing.T){reflect.TypeFor[*agent.Service](): tries, reflect.TypeFor[*repl.Service](): foreign} {
		for m := range of.Methods() {
			try, tried := c[m.Name]
			require.True(t, tried, "%s.%s is not tried as another user", of, m.Name)
			try(t)
		}
	}
	again, err := i.Run(t.Context(), anna, canvas, cell)
	require.NoError(t, err)
	require.Equal(t, "True\n", again.Stdout, "hers is as it was")
}

// Interpreters give way to each other and end by themselves; what they had is
// gone then, and the next code is told.
func TestInterpretersAreBounded(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite), "AGENT_MAX_INTERPRETERS=2", "AGENT_MAX_INTERPRETERS_PER_USER=2", "AGENT_INTERPRETER_IDLE=10s")
	users, err := s.app.Accounts.Service.Users(t.Context())
	require.NoError(t, err)
	anna := actor.Actor{UID: users[0].UID, Scope: actor.Full}
	i := s.app.Interpreters.Service
	run := func(place, code string) repl.Answer {
		t.Helper()
		o, err := i.Run(t.Context(), anna, place, program.Request{Code: code, Language: sandbox.Python, Timeout: 2 * time.Second, Plain: true})
		require.NoError(t, err)
		return o
	}
	require.True(t, run("one", "x = 1").Fresh)
	require.True(t, run("two", "x = 2").Fresh)
	require.False(t, run("one", "x").Fresh)
	require.True(t, run("three", "x = 3").Fresh)
	require.False(t, run("one", "x").Fresh, "two was not used for longest and gave way")
	require.True(t, run("two", "0").Fresh)
	require.Eventually(t, func() bool { return s.app.Engine.Stats().Paused == 0 }, time.Minute, 20*time.Millisecond, "they end when nobody uses them")
	require.True(t, run("one", "0").Fresh)

	o := run("one", "data = bytearray(2 << 30)")
	require.Contains(t, []sandbox.Status{sandbox.OutOfMemory, sandbox.Failed}, o.Status)
	o = run("two", "import time\ntry:\n    while True: pass\nexcept Exception: pass\nprint('not reached')")
	require.Equal(t, sandbox.TimedOut, o.Status)
	require.NotContains(t, o.Stdout, "not reached")
	o = run("two", "import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\nwhile True: time.sleep(1)")
	require.Equal(t, sandbox.TimedOut, o.Status)
	require.True(t, o.Gone, "code that does not notice is ended with its interpreter")
	text := run("two", "print('x' * 3_000_000)")
	require.Contains(t, text.Stdout, "more bytes were dropped")
	require.Less(t, len(text.Stdout), 2<<20)
}
