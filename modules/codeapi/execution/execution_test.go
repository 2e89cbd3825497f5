package execution_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/codeapi"
	"github.com/portico-run/portico/modules/codeapi/codeapitest"
	"github.com/portico-run/portico/modules/codeapi/execution"
	"github.com/portico-run/portico/modules/codeapi/session"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/enginetest"
)

var anna = codeapitest.Anna()

func TestRowsFitTheSchema(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		for _, row := range execution.Rows() {
			databasetest.CheckRow(t, db, row)
		}
	})
}

// everywhere runs a test with a sandbox of this process, and with one that is
// reached over a connection only.
func everywhere(t *testing.T, change func(s *codeapi.Settings), test func(t *testing.T, f *codeapitest.Fixture)) {
	t.Helper()
	for where, begin := range map[string]func(t *testing.T) enginetest.Sandbox{
		"here":      func(t *testing.T) enginetest.Sandbox { return enginetest.New(t) },
		"elsewhere": func(t *testing.T) enginetest.Sandbox { return enginetest.Remote(t, enginetest.New(t)) },
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			test(t, codeapitest.New(t, databasetest.Open(t, database.SQLite, nil), codeapitest.Options{Sandbox: begin(t), Change: change}))
		})
	}
}

// drive answers the calls of a program until it ends, and returns its rounds.
func drive(t *testing.T, f *codeapitest.Fixture, req execution.ProgramRequest, with func(c execution.AskedCall) string) (r execution.Reply, rounds [][]string) {
	t.Helper()
	r, err := f.Executions.Start(t.Context(), anna, req)
	for ; err == nil && r.Paused(); r, err = f.Executions.Continue(t.Context(), anna, r.Token, codeapitest.Answer(r, with), "") {
		var names []string
		for _, c := range r.Calls {
			names = append(names, c.Name)
		}
		rounds = append(rounds, names)
	}
	require.NoError(t, err)
	return r, rounds
}

func echo(c execution.AskedCall) string { return string(c.Input) }

// A program that pauses is the same wherever it runs: its calls, its files, its
// clock and its end.
func TestProgramsPauseAndContinue(t *testing.T) {
	t.Parallel()
	everywhere(t, nil, func(t *testing.T, f *codeapitest.Fixture) {
		in, files, _, err := f.Sessions.Upload(t.Context(), anna, session.FileOwner{}, []session.Upload{codeapitest.Upload("in.txt", "hello"), codeapitest.Upload("same.txt", "same")})
		require.NoError(t, err)
		refs := []session.FileRef{{ID: files[0].ID, SessionID: in, Name: "in.txt"}, {ID: files[1].ID, SessionID: in, Name: "same.txt"}}
		r, rounds := drive(t, f, execution.ProgramRequest{Files: refs, Tools: codeapitest.Tools("look-up", "ask"), Code: `
w = await look_up(word=open("in.txt").read())
print(w["word"])
a, b = await asyncio.gather(ask(n=1), ask(n=2))
print(a["n"] + b["n"])
open("made.txt", "w").write("made")
open("in.txt", "a").write(" again")`}, echo)
		require.Empty(t, r.Cause, r.Result.Stderr)
		require.Equal(t, "hello\n3\n", r.Result.Stdout)
		require.Equal(t, [][]string{{"look-up"}, {"ask", "ask"}}, rounds)
		require.Equal(t, 3, r.Made)
		require.Len(t, r.Produced.Files, 3)
		require.Equal(t, "in.txt", r.Produced.Files[0].Name)
		require.Equal(t, files[0].ID, r.Produced.Files[0].From.ID)
		require.Equal(t, "made.txt", r.Produced.Files[1].Name)
		require.True(t, r.Produced.Files[2].Inherited)

		// Bash gathers what comes from several processes.
		r, _ = drive(t, f, execution.ProgramRequest{Language: "bash", Tools: codeapitest.Tools("ask"), Code: `ask '{"n":1}' > a & ask '{"n":2}' > b & wait; cat a b`}, echo)
		require.Equal(t, "{\"n\":1}\n{\"n\":2}", strings.TrimSpace(r.Result.Stdout), r.Result.Stderr)
		require.Equal(t, []string{"completed", "completed"}, f.Causes())
	})
}

// A caller that leaves, cancels or stays away ends the program, wherever it
// runs.
func TestWhatEndsAPausedProgram(t *testing.T) {
	t.Parallel()
	everywhere(t, func(s *codeapi.Settings) { s.Programs.MaxRounds, s.Programs.Idle = 1, time.Hour }, func(t *testing.T, f *codeapitest.Fixture) {
		ctx := t.Context()
		ask := execution.ProgramRequest{Code: "await ask()\nawait ask()", Tools: codeapitest.Tools("ask")}
		start := func(request string) execution.Reply {
			t.Helper()
			ask.RequestID = request
			r, err := f.Executions.Start(ctx, anna, ask)
			require.NoError(t, err)
			require.True(t, r.Paused(), r.Result.Stderr)
			return r
		}
		r := start("r-1")
		cancelled, err := f.Executions.Cancel(ctx, anna, "r-1")
		require.NoError(t, err)
		require.True(t, cancelled)
		r, err = f.Executions.Continue(ctx, anna, r.Token, codeapitest.Answer(r), "")
		require.NoError(t, err)
		require.Equal(t, execution.Cancelled, r.Cause)
		require.Equal(t, sandbox.FailedCancelled, r.Cause.Failure())

		r = start("")
		r, err = f.Executions.Continue(ctx, anna, r.Token, codeapitest.Answer(r), "")
		require.NoError(t, err)
		require.Equal(t, execution.RoundLimit, r.Cause)

		leaving, leave := context.WithCancel(ctx)
		left := make(chan error, 1)
		go func() {
			r, err := f.Executions.Start(leaving, anna, execution.ProgramRequest{Code: "import time\ntime.sleep(600)", RequestID: "r-2"})
			if err == nil && r.Cause == execution.Disconnected {
				err = context.Canceled // it was ended before it had begun
			}
			left <- err
		}()
		leave()
		require.ErrorIs(t, <-left, context.Canceled)

		for code, cause := range map[string]execution.Cause{"1/0": execution.Exited, "while True: pass": execution.TimeLimit, "import os; os.kill(os.getpid(), 9)": execution.WasKilled} {
			r, err := f.Executions.Start(ctx, anna, execution.ProgramRequest{Code: code, Timeout: time.Second})
			require.NoError(t, err)
			require.Equal(t, cause, r.Cause, code)
		}

		r = start("")
		require.NoError(t, f.Module.Stop(ctx))
		r, err = f.Executions.Continue(ctx, anna, r.Token, codeapitest.Answer(r), "")
		require.NoError(t, err)
		require.Equal(t, execution.Stopped, r.Cause)
		_, err = f.Executions.Start(ctx, anna, ask)
		require.ErrorIs(t, err, sandbox.ErrUnavailable)
	})
}

func TestProgramsThatRunToTheirEnd(t *testing.T) {
	t.Parallel()
	everywhere(t, nil, func(t *testing.T, f *codeapitest.Fixture) {
		ctx := t.Context()
		for _, c := range []struct{ language, code, stdout string }{
			{"py", "import sys\nprint(sys.argv[1:])\nopen('out.txt', 'w').write('x')", "['a']\n"},
			{"sh", "echo $1", "a\n"},
			{" JS", "console.log(process.argv[2])", "a\n"},
		} {
			r, err := f.Executions.Exec(ctx, anna, execution.ExecRequest{Language: c.language, Code: c.code, Args: []string{"a"}})
			require.NoError(t, err)
			require.Equal(t, c.stdout, r.Result.Stdout, r.Result.Stderr)
		}
		r, err := f.Executions.Exec(ctx, anna, execution.ExecRequest{Language: "py", Code: "open('half', 'w').write('x')\n1/0"})
		require.NoError(t, err)
		require.Equal(t, sandbox.Failed, r.Result.Status)
		require.Empty(t, r.Produced.Files)
		for want, req := range map[string]execution.ExecRequest{
			"Unsupported language: rust":                       {Language: "rust", Code: "x"},
			"timeout must be from 1000 to 60000 milliseconds.": {Language: "py", Code: "x", Timeout: time.Hour},
			"code is required":                                 {Language: "py", Code: " "},
			"code must be UTF-8.":                              {Language: "py", Code: "\xff"},
			"code must not hold NUL.":                          {Language: "py", Code: "\x00"},
		} {
			_, err := f.Executions.Exec(ctx, anna, req)
			require.Equal(t, want, errs.Message(err))
			_, err = f.Executions.Start(ctx, anna, execution.ProgramRequest{Language: req.Language, Code: req.Code, Timeout: req.Timeout})
			require.Equal(t, want, errs.Message(err))
		}
	})
}

func TestRequestsThatAreRefused(t *testing.T) {
	t.Parallel()
	f := codeapitest.New(t, databasetest.Open(t, database.SQLite, nil), codeapitest.Options{})
	for want, req := range map[string]execution.ProgramRequest{
		"Unsupported language: js":                            {Language: "js"},
		`The tools "a b" and "a-b" would both be called a_b.`: {Tools: codeapitest.Tools("a b", "a-b")},
		"A request may bring 5 tools at most.":                {Tools: codeapitest.Tools("a", "b", "c", "d", "e", "f")},
	} {
		req.Code = "x"
		_, err := f.Executions.Start(t.Context(), anna, req)
		require.Equal(t, want, errs.Message(err))
	}
	_, err := f.Executions.Cancel(t.Context(), anna, " ")
	require.Equal(t, errs.Invalid, errs.CodeOf(err))
}

// Results that do not answer the calls of the round, one for each, leave the
// program where it was.
func TestResultsMustAnswerTheRound(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := codeapitest.New(t, db, codeapitest.Options{Change: func(s *codeapi.Settings) { s.Programs.Idle = time.Hour }})
		answered := make(chan string, 1)
		f.Driver.Does(func(ctx context.Context, job sandbox.Job) sandbox.Result {
			_, text := codeapitest.Call(ctx, job, `{"calls":[{"name":"ask"},{"name":"other"},{"name":"ask","input":null}]}`)
			answered <- text
			return sandbox.Result{Status: sandbox.Completed}
		})
		ctx := t.Context()
		r, err := f.Executions.Start(ctx, anna, execution.ProgramRequest{Code: "x", Tools: codeapitest.Tools("ask")})
		require.NoError(t, err)
		require.Len(t, r.Calls, 2)
		require.JSONEq(t, `{}`, string(r.Calls[1].Input))
		right := codeapitest.Answer(r)
		large := codeapitest.Answer(r)
		large[0].Result = []byte(`"` + strings.Repeat("x", 1<<10) + `"`)
		foreign := codeapitest.Answer(r)
		foreign[1].CallID = "call_999"
		for name, wrong := range map[string][]execution.ToolResult{"none": nil, "one": right[:1], "twice": append(right[:2:2], right[0]), "foreign": foreign, "large": large} {
			_, err := f.Executions.Continue(ctx, anna, r.Token, wrong, "")
			require.Error(t, err, name)
		}
		right[1] = execution.ToolResult{CallID: right[1].CallID, Failed: true, Error: "no"}
		end, err := f.Executions.Continue(ctx, anna, r.Token, right, "")
		require.NoError(t, err)
		require.Empty(t, end.Cause)
		require.JSONEq(t, `{"results":[{"result":1},{"error":"Tool \"other\" was not given to this program."},{"error":"no"}]}`, <-answered)
		// Its caller may have lost the answer: the same results get it again.
		again, err := f.Executions.Continue(ctx, anna, r.Token, right, "")
		require.NoError(t, err)
		require.Equal(t, end, again)
		_, err = f.Executions.Continue(ctx, anna, r.Token, right[:1], "")
		require.ErrorIs(t, err, execution.ErrTokenUsed)
		f.Now = f.Now.Add(2 * time.Minute) // it is not kept for ever
		_, err = f.Executions.Continue(ctx, anna, r.Token, right, "")
		require.ErrorIs(t, err, execution.ErrGone)
		require.Contains(t, detail(err), "It has ended before (completed).")
	})
}

// A program that cannot pause is refused where it has made no calls. Where it has
// made some, its answer says so, also when that is asked for again.
func TestProgramsThatCannotPauseSayWhatTheyDid(t *testing.T) {
	t.Parallel()
	driver := &codeapitest.Driver{}
	engine := sandbox.New(sandbox.Deps{Driver: driver, MaxConcurrent: 4, MaxPaused: 1, Queue: sandbox.Queue{Timeout: time.Minute}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, engine.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, engine.Stop(context.Background())) })
	f := codeapitest.New(t, databasetest.Open(t, database.SQLite, nil), codeapitest.Options{Sandbox: engine})
	continued, taken := make(chan struct{}), make(chan struct{})
	driver.Does(func(ctx context.Context, job sandbox.Job) sandbox.Result {
		codeapitest.Call(ctx, job, `{"calls":[{"name":"ask"}]}`)
		if job.Code == "twice" {
			close(continued)
			<-taken
			codeapitest.Call(ctx, job, `{"calls":[{"name":"ask"}]}`)
		}
		return sandbox.Result{Status: sandbox.Cancelled}
	})
	start := func(a actor.Actor, code string) (execution.Reply, error) {
		return f.Executions.Start(t.Context(), a, execution.ProgramRequest{Code: code, Tools: codeapitest.Tools("ask")})
	}
	first, err := start(anna, "twice")
	require.NoError(t, err)
	type ended struct {
		reply execution.Reply
		err   error
	}
	over := make(chan ended, 1)
	go func() {
		r, err := f.Executions.Continue(t.Context(), anna, first.Token, codeapitest.Answer(first), "")
		over <- ended{r, err}
	}()
	<-continued
	second, err := start(codeapitest.Ben(), "once")
	require.NoError(t, err)
	require.True(t, second.Paused())
	close(taken)
	end := <-over
	require.NoError(t, end.err)
	require.Equal(t, execution.Crowded, end.reply.Cause)
	require.Equal(t, 1, end.reply.Made)
	require.NotEqual(t, sandbox.FailedUnavailable, end.reply.Cause.Failure())
	again, err := f.Executions.Continue(t.Context(), anna, first.Token, codeapitest.Answer(first), "")
	require.NoError(t, err)
	require.Equal(t, end.reply, again)

	_, err = start(anna, "once")
	require.Equal(t, errs.RateLimited, errs.CodeOf(err))
}

// The end of a program is recorded also when its files take too long to store.
func TestEndsAreRecordedWhateverFilesTake(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := codeapitest.New(t, db, codeapitest.Options{Change: func(s *codeapi.Settings) { s.Programs.Idle = time.Hour }})
		execution.KeepFor(f.Executions, 0)
		f.Driver.Does(func(ctx context.Context, job sandbox.Job) sandbox.Result {
			codeapitest.Call(ctx, job, `{"calls":[{"name":"ask"}]}`)
			return sandbox.Result{Status: sandbox.Completed, Stdout: "printed", Outputs: []sandbox.File{{Path: "x"}}}
		})
		r, err := f.Executions.Start(t.Context(), anna, execution.ProgramRequest{Code: "x", Tools: codeapitest.Tools("ask")})
		require.NoError(t, err)
		end, err := f.Executions.Continue(t.Context(), anna, r.Token, codeapitest.Answer(r), "")
		require.NoError(t, err)
		require.Equal(t, "printed", end.Result.Stdout)
		require.Equal(t, 1, end.Produced.Undelivered)
		f.Now = f.Now.Add(2 * time.Minute) // its answer is forgotten
		_, err = f.Executions.Continue(t.Context(), anna, r.Token, codeapitest.Answer(r), "")
		require.ErrorIs(t, err, execution.ErrGone)
		require.Contains(t, detail(err), "It has ended before (completed).")
	})
}

func detail(err error) string {
	e, ok := errors.AsType[*errs.Error](err)
	if !ok {
		return ""
	}
	return e.Detail
}

// All results of a program together are bounded, and so are its calls.
func TestAProgramIsBounded(t *testing.T) {
	t.Parallel()
	f := codeapitest.New(t, databasetest.Open(t, database.SQLite, nil), codeapitest.Options{Change: func(s *codeapi.Settings) {
		s.Programs.MaxCalls, s.Programs.MaxState = 2, 1500
	}})
	f.Driver.Does(func(ctx context.Context, job sandbox.Job) sandbox.Result {
		status, _ := codeapitest.Call(ctx, job, "no JSON")
		out := fmt.Sprintln(status)
		for range 3 {
			_, text := codeapitest.Call(ctx, job, `{"calls":[{"name":"ask"}]}`)
			out += text
		}
		return sandbox.Result{Status: sandbox.Completed, Stdout: out}
	})
	large := func(execution.AskedCall) string { return `"` + strings.Repeat("x", 1000) + `"` }
	r, err := f.Executions.Start(t.Context(), anna, execution.ProgramRequest{Code: "x", Tools: codeapitest.Tools("ask")})
	require.NoError(t, err)
	r, err = f.Executions.Continue(t.Context(), anna, r.Token, codeapitest.Answer(r, large), "")
	require.NoError(t, err)
	_, err = f.Executions.Continue(t.Context(), anna, r.Token, codeapitest.Answer(r, large), "")
	require.Equal(t, errs.TooLarge, errs.CodeOf(err))
	r, err = f.Executions.Continue(t.Context(), anna, r.Token, codeapitest.Answer(r), "")
	require.NoError(t, err)
	require.False(t, r.Paused())
	require.True(t, strings.HasPrefix(r.Result.Stdout, "400\n"), r.Result.Stdout)
	require.Contains(t, r.Result.Stdout, "The program made more than 2 calls.")
}

// Calls that have no result yet are bounded together, also those whose program
// does not wait for them any more.
func TestCallsThatWaitAreBounded(t *testing.T) {
	t.Parallel()
	f := codeapitest.New(t, databasetest.Open(t, database.SQLite, nil), codeapitest.Options{Change: func(s *codeapi.Settings) { s.Programs.MaxState = 1500 }})
	call := `{"calls":[{"name":"ask","input":{"q":"` + strings.Repeat("x", 1000) + `"}}]}`
	tried := make(chan struct{})
	f.Driver.Does(func(ctx context.Context, job sandbox.Job) sandbox.Result {
		asked, leave := context.WithCancel(ctx)
		left := make(chan struct{})
		go func() {
			defer close(left)
			codeapitest.Call(asked, job, call)
		}()
		for paused := false; !paused; _, paused = job.Clock.Elapsed() {
			<-job.Clock.Changed()
		}
		leave()
		<-left
		soon, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		status, refused := codeapitest.Call(soon, job, call)
		small, _ := codeapitest.Call(ctx, job, strings.Replace(call, "ask", "other", 1)[:400])
		close(tried)
		_, answered := codeapitest.Call(ctx, job, `{"calls":[{"name":"ask"}]}`)
		_, again := codeapitest.Call(ctx, job, call)
		return sandbox.Result{Status: sandbox.Completed, Stdout: fmt.Sprintln(status, small, refused, answered, again)}
	})
	r, _ := drive(t, f, execution.ProgramRequest{Code: "x", Tools: codeapitest.Tools("ask")}, func(execution.AskedCall) string {
		<-tried
		return "1"
	})
	require.Contains(t, r.Result.Stdout, `"errMsg":"The calls that wait for results would have more than 1500 bytes together."`)
	require.Contains(t, r.Result.Stdout, "Make fewer calls at once")
	require.True(t, strings.HasPrefix(r.Result.Stdout, "413 400 "), "and a request that is refused holds nothing: %s", r.Result.Stdout)
	require.Equal(t, 2, strings.Count(r.Result.Stdout, `{"results":[{"result":1}]}`), r.Result.Stdout)
}

// While the database is slow to take down that a program paused, the program's
// other calls are answered.
func TestRecordingAPauseHoldsNoCallUp(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.SQLite, nil)
	f := codeapitest.New(t, db, codeapitest.Options{})
	begun, other := make(chan struct{}), make(chan string, 1)
	f.Driver.Does(func(ctx context.Context, job sandbox.Job) sandbox.Result {
		close(begun)
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			codeapitest.Call(ctx, job, `{"calls":[{"name":"ask"}]}`)
		}()
		for paused := false; !paused; _, paused = job.Clock.Elapsed() {
			<-job.Clock.Changed()
		}
		_, text := codeapitest.Call(ctx, job, `{"calls":[{"name":"nobody's"}]}`)
		other <- text
		<-asked
		return sandbox.Result{Status: sandbox.Completed}
	})
	var paused execution.Reply
	started := make(chan error, 1)
	require.NoError(t, db.InTx(t.Context(), func(database.Tx) error { // nobody else writes until it ends
		go func() {
			var err error
			paused, err = f.Executions.Start(t.Context(), anna, execution.ProgramRequest{Code: "x", Tools: codeapitest.Tools("ask")})
			started <- err
		}()
		<-begun
		select {
		case text := <-other:
			require.Contains(t, text, "was not given to this program")
		case <-time.After(time.Minute):
			t.Error("the call waits for the database")
		}
		return nil
	}))
	require.NoError(t, <-started)
	_, err := f.Executions.Continue(t.Context(), anna, paused.Token, codeapitest.Answer(paused), "")
	require.NoError(t, err)
}

// A program that nobody continues ends, and its caller learns why.
func TestIdleProgramsEnd(t *testing.T) {
	t.Parallel()
	f := codeapitest.New(t, databasetest.Open(t, database.SQLite, nil), codeapitest.Options{Change: func(s *codeapi.Settings) {
		s.Programs.Idle = time.Millisecond
	}})
	over := make(chan struct{})
	f.Driver.Does(func(ctx context.Context, job sandbox.Job) sandbox.Result {
		defer close(over)
		return codeapitest.Pausing(ctx, job, nil)
	})
	r, err := f.Executions.Start(t.Context(), anna, execution.ProgramRequest{Code: "x", Tools: codeapitest.Tools("ask")})
	require.NoError(t, err)
	<-over
	require.Eventually(t, func() bool { return len(f.Causes()) == 1 }, time.Minute, time.Millisecond)
	require.Equal(t, []string{"idle"}, f.Causes())
	_, err = f.Executions.Continue(t.Context(), anna, r.Token, codeapitest.Answer(r), "")
	require.True(t, err == nil || errors.Is(err, execution.ErrGone) || errors.Is(err, execution.ErrTokenExpired), err)
	require.NoError(t, f.Module.Purge(t.Context()))
}
