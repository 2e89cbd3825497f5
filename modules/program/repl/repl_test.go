package repl_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app/apptest"
	"github.com/portico-run/portico/modules/drive"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/program/repl"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/enginetest"
)

const toolsets = "../../../configs/toolsets"

// interpreters are those of a test, over the programs of a server.
type interpreters struct {
	*apptest.Server

	t      *testing.T
	module *repl.Module
}

func keep(t *testing.T, s *apptest.Server, x repl.Sandbox, settings repl.Settings) *interpreters {
	t.Helper()
	m := repl.New(repl.Deps{Programs: s.App.Programs.Service, Sandbox: x, Settings: settings})
	require.NoError(t, m.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, m.Stop(context.Background())) })
	return &interpreters{s, t, m}
}

// run runs code without tools in the interpreter of a place.
func (i *interpreters) run(u apptest.User, place, code string) repl.Answer {
	i.t.Helper()
	o, err := i.module.Service.Run(i.t.Context(), u.Actor, place, program.Request{Code: code, Language: sandbox.Python, Timeout: 10 * time.Second, Plain: true})
	require.NoError(i.t, err)
	return o
}

// An interpreter keeps what code defines, wherever it runs; another place and
// another user have another one.
func TestInterpretersKeepTheirVariables(t *testing.T) {
	t.Parallel()
	for where, behind := range map[string]func(t *testing.T, s enginetest.Sandbox) repl.Sandbox{
		"here":      func(_ *testing.T, s enginetest.Sandbox) repl.Sandbox { return s },
		"elsewhere": func(t *testing.T, s enginetest.Sandbox) repl.Sandbox { return enginetest.Remote(t, s) },
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			s := apptest.Serve(t, toolsets)
			i := keep(t, s, behind(t, s.App.Engine), repl.Settings{Max: 4, PerUser: 3, Idle: time.Hour})
			first := i.run(s.Anna, "a", "x = 41\nprint('set')\nx + 1")
			require.True(t, first.Fresh)
			require.Equal(t, "set\n42\n", first.Stdout, first.Stderr)
			second := i.run(s.Anna, "a", "print(x)")
			require.False(t, second.Fresh)
			require.Equal(t, "41\n", second.Stdout)
			require.Contains(t, i.run(s.Anna, "b", "x").Stderr, "NameError")
			require.Contains(t, i.run(s.Ben, "a", "x").Stderr, "NameError")
			require.Equal(t, "41\n", i.run(s.Anna, "a", "x").Stdout)

			// Code with tools: its calls are those of the code that makes them.
			o, err := i.module.Service.Run(t.Context(), s.Anna.Actor, "a", program.Request{
				Code: "print(x, len(get_weather(city='Oslo', file_name_title='x')['forecast']))", Language: sandbox.Python, Toolsets: []string{"demo"},
			})
			require.NoError(t, err)
			require.Equal(t, "41 3\n", o.Stdout, o.Stderr)
			require.Equal(t, 1, o.ToolCallsMade)
			_, err = i.module.Service.Run(t.Context(), s.Anna.Actor, "a", program.Request{Code: " ", Language: sandbox.Python})
			require.Error(t, err)
		})
	}
}

// What ends code ends no more than it must: an error and a time limit leave the
// variables, what cannot be stopped otherwise takes the interpreter along.
func TestEndsOfCells(t *testing.T) {
	testenv.Slow(t, "cells that run until they are ended")
	t.Parallel()
	s := apptest.Serve(t, toolsets)
	i := keep(t, s, s.App.Engine, repl.Settings{Max: 4, PerUser: 4, Idle: time.Hour})
	limited := func(code string) repl.Answer {
		t.Helper()
		o, err := i.module.Service.Run(t.Context(), s.Anna.Actor, "a", program.Request{Code: code, Language: sandbox.Python, Timeout: time.Second, Plain: true})
		require.NoError(t, err)
		return o
	}
	i.run(s.Anna, "a", "x = 1")
	failed := i.run(s.Anna, "a", "1/0")
	require.Equal(t, sandbox.Failed, failed.Status)
	require.Contains(t, failed.Stderr, "ZeroDivisionError")
	late := limited("while True: pass")
	require.Equal(t, sandbox.TimedOut, late.Status)
	require.False(t, late.Gone)
	require.Equal(t, "1\n", i.run(s.Anna, "a", "x").Stdout)
	odd := i.run(s.Anna, "a", `import sys; _ = sys.stdout.write("a\x00b")`)
	require.Equal(t, "a\uFFFDb", strings.TrimSpace(odd.Stdout))

	exited := i.run(s.Anna, "a", "exit()")
	require.Equal(t, sandbox.Completed, exited.Status)
	require.True(t, exited.Gone)
	require.True(t, i.run(s.Anna, "a", "0").Fresh)
	killed := i.run(s.Anna, "a", "import os; os._exit(0)")
	require.Equal(t, sandbox.Killed, killed.Status)
	require.True(t, killed.Gone)
	deaf := limited("import signal, time\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\nwhile True: time.sleep(1)")
	require.Equal(t, sandbox.TimedOut, deaf.Status)
	require.True(t, deaf.Gone)

	// Ending the caller's context ends the interpreter.
	i.run(s.Anna, "b", "0")
	rests := func() bool { return s.App.Engine.Stats().Running == 0 }
	require.Eventually(t, rests, time.Minute, time.Millisecond)
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan repl.Answer, 1)
	go func() {
		o, err := i.module.Service.Run(ctx, s.Anna.Actor, "b", program.Request{ResultID: "ar-left", Code: "print('begun')\nimport time\ntime.sleep(600)", Language: sandbox.Python, Plain: true})
		if err != nil {
			t.Error(err)
		}
		ended <- o
	}()
	require.Eventually(t, func() bool { return !rests() }, time.Minute, time.Millisecond, "it runs again when it has the code")
	leave()
	require.Equal(t, sandbox.Cancelled, (<-ended).Status)
}

// The files of the canvas are in the interpreter's folder, also those that came
// later; what code makes there is the canvas's.
func TestFilesOfInterpreters(t *testing.T) {
	t.Parallel()
	s := apptest.Serve(t, toolsets)
	i := keep(t, s, s.App.Engine, repl.Settings{Max: 4, Idle: time.Hour})
	canvas, err := s.App.Runs.Service.CreateCanvas(t.Context(), s.Anna.Actor, "work")
	require.NoError(t, err)
	save := func(name, content string) {
		t.Helper()
		_, err := s.App.Drive.Service.Save(t.Context(), s.Anna.Actor, drive.Content{
			CanvasID: canvas.CanvasID, Name: name, Body: strings.NewReader(content), Source: drive.Agent, Replace: true,
		})
		require.NoError(t, err)
	}
	run := func(code string) repl.Answer {
		t.Helper()
		o, err := i.module.Service.Run(t.Context(), s.Anna.Actor, canvas.CanvasID, program.Request{Code: code, Language: sandbox.Python, CanvasID: canvas.CanvasID})
		require.NoError(t, err)
		return o
	}
	save("early.txt", "early")
	require.Equal(t, "early\n", run("print(open('early.txt').read())").Stdout)
	save("late.txt", "late")
	save("early.txt", "changed")
	o := run("print(open('early.txt').read(), open('late.txt').read())\nopen('made.txt', 'w').write('made')")
	require.Contains(t, o.Stdout, "changed late\n", o.Stderr)
	require.Len(t, o.Files, 1)
	require.Equal(t, "made.txt", o.Files[0].Name)
	require.Empty(t, run("open('early.txt').read()").Files, "what is only read is not kept again")

	// What the canvas no longer has is forgotten: the same file comes again.
	early, err := s.App.Drive.Service.Find(t.Context(), s.Anna.Actor, canvas.CanvasID, "early.txt")
	require.NoError(t, err)
	require.NoError(t, s.App.Drive.Service.Delete(t.Context(), s.Anna.Actor, early.FileID))
	run("import os\nos.remove('early.txt')")
	save("early.txt", "changed")
	require.Equal(t, "changed\n", run("print(open('early.txt').read())").Stdout)
	run("for n in range(300): open(f'{n}.txt', 'w').write('kept or not')")
	require.LessOrEqual(t, i.module.Service.Known(s.Anna.UID, canvas.CanvasID), 203, "what is too much for the canvas is not remembered")
	run("for n in range(300): open(f'{n}.txt', 'w').write('not kept')\n1/0")
	run("0")
	require.LessOrEqual(t, i.module.Service.Known(s.Anna.UID, canvas.CanvasID), 203)
	i.run(s.Anna, "no canvas", "for n in range(300): open(f'{n}.txt', 'w').write('not kept')")
	require.Zero(t, i.module.Service.Known(s.Anna.UID, "no canvas"))
}

// A file that cannot be read, or written, costs no variables: the answer says so, and a
// file of the canvas comes when there is a place for it.
func TestFilesThatAreInTheWay(t *testing.T) {
	t.Parallel()
	s := apptest.Serve(t, toolsets)
	i := keep(t, s, s.App.Engine, repl.Settings{Max: 4, Idle: time.Hour})
	canvas, err := s.App.Runs.Service.CreateCanvas(t.Context(), s.Anna.Actor, "work")
	require.NoError(t, err)
	run := func(code string) repl.Answer {
		t.Helper()
		o, err := i.module.Service.Run(t.Context(), s.Anna.Actor, canvas.CanvasID, program.Request{Code: code, Language: sandbox.Python, CanvasID: canvas.CanvasID})
		require.NoError(t, err)
		return o
	}
	o := run("import os\nx = 41\nopen('f', 'w').write('1')\nos.chmod('f', 0)\nos.mkdir('data')\nprint('done')")
	require.Equal(t, sandbox.Completed, o.Status)
	require.Equal(t, "done\n", o.Stdout)
	require.Contains(t, strings.Join(o.Warnings, "\n"), "1 files were not kept: too many, too large, not readable,")

	_, err = s.App.Drive.Service.Save(t.Context(), s.Anna.Actor, drive.Content{CanvasID: canvas.CanvasID, Name: "data", Body: strings.NewReader("a file"), Source: drive.Agent})
	require.NoError(t, err)
	o = run("os.rmdir('data')\nx")
	require.Equal(t, sandbox.Completed, o.Status, o.Stderr)
	require.Equal(t, "41\n", o.Stdout)
	require.Contains(t, strings.Join(o.Warnings, "\n"), "data is not as it is in the canvas")
	o = run("print(open('data').read())")
	require.Equal(t, "a file\n", o.Stdout, o.Stderr)
	require.Empty(t, o.Warnings)
}

// attended is a sandbox that says which request for a cell an interpreter makes,
// before it is answered.
type attended struct {
	repl.Sandbox

	asks func(n int)
}

// Begin implements repl.Sandbox.
func (a attended) Begin(ctx context.Context, job sandbox.Job) (sandbox.Execution, error) {
	next := job.Gateway
	var n atomic.Int64
	job.Gateway = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == sandbox.CellPath {
			a.asks(int(n.Add(1)))
		}
		next.ServeHTTP(w, r)
	})
	return a.Sandbox.Begin(ctx, job)
}

// A file that was read for a caller who left before the interpreter took the code
// comes with the code that it takes next.
func TestFilesOfACallerThatLeft(t *testing.T) {
	t.Parallel()
	s := apptest.Serve(t, toolsets)
	open := make(chan struct{})
	i := keep(t, s, attended{s.App.Engine, func(int) { <-open }}, repl.Settings{Max: 4, Idle: time.Hour})
	canvas, err := s.App.Runs.Service.CreateCanvas(t.Context(), s.Anna.Actor, "work")
	require.NoError(t, err)
	run := func(ctx context.Context, code string) (repl.Answer, error) {
		return i.module.Service.Run(ctx, s.Anna.Actor, canvas.CanvasID, program.Request{Code: code, Language: sandbox.Python, CanvasID: canvas.CanvasID})
	}
	leave := func() {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := run(ctx, "x = 1")
			left <- err
		}()
		require.Eventually(t, func() bool { return i.module.Service.Offers(s.Anna.UID, canvas.CanvasID) }, time.Minute, time.Millisecond)
		cancel()
		require.ErrorIs(t, <-left, context.Canceled)
	}
	leave() // the interpreter begins with the files that there are
	_, err = s.App.Drive.Service.Save(t.Context(), s.Anna.Actor, drive.Content{CanvasID: canvas.CanvasID, Name: "late.txt", Body: strings.NewReader("late"), Source: drive.Agent})
	require.NoError(t, err)
	leave()
	close(open)
	o, err := run(t.Context(), "print(open('late.txt').read())")
	require.NoError(t, err)
	require.Equal(t, "late\n", o.Stdout, o.Stderr)
}

// Code that ran keeps its answer where its interpreter finds no place to rest
// afterwards, and ends.
func TestAnAnswerWithoutAPlaceToRest(t *testing.T) {
	t.Parallel()
	s := apptest.Serve(t, toolsets, "SANDBOX_MAX_PAUSED_PER_USER=1", "SANDBOX_MAX_PER_USER=2")
	other, err := s.App.Engine.Begin(t.Context(), sandbox.Job{Owner: s.Anna.UID, Code: "import time\ntime.sleep(600)", Timeout: time.Hour})
	require.NoError(t, err)
	i := keep(t, s, attended{s.App.Engine, func(n int) {
		if n == 2 { // with the report: another program of hers takes the place
			if err := other.Pause(); err != nil {
				t.Error(err)
			}
		}
	}}, repl.Settings{Max: 4, PerUser: 4, Idle: time.Hour})
	o := i.run(s.Anna, "a", "x = 41\nx + 1")
	require.Equal(t, sandbox.Completed, o.Status)
	require.Equal(t, "42\n", o.Stdout)
	require.True(t, o.Gone)
}

// One user's interpreters give way to that user's own, the one that was not used
// for longest first, and to others only where there is no room at all.
func TestInterpretersGiveWay(t *testing.T) {
	t.Parallel()
	s := apptest.Serve(t, toolsets)
	i := keep(t, s, s.App.Engine, repl.Settings{Max: 3, PerUser: 2, Idle: time.Hour})
	fresh := func(u apptest.User, place string) bool {
		t.Helper()
		return i.run(u, place, "x = 1").Fresh
	}
	require.True(t, fresh(s.Ben, "his"))
	require.True(t, fresh(s.Anna, "a"))
	require.True(t, fresh(s.Anna, "b"))
	require.False(t, fresh(s.Anna, "a"))
	require.True(t, fresh(s.Anna, "c"), "b gives way")
	require.False(t, fresh(s.Anna, "a"))
	require.False(t, fresh(s.Ben, "his"))
	require.True(t, fresh(s.Ben, "second"), "there are three: his own gives way before hers")
	require.False(t, fresh(s.Anna, "a"))

	// One that is busy does not give way.
	busy := keep(t, s, s.App.Engine, repl.Settings{Max: 1, Idle: time.Hour})
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = busy.module.Service.Run(ctx, s.Ben.Actor, "x", program.Request{Code: "import time\ntime.sleep(600)", Language: sandbox.Python, Plain: true})
	}()
	require.Eventually(t, func() bool { return s.App.Engine.Stats().Running == 1 }, time.Minute, time.Millisecond)
	_, err := busy.module.Service.Run(t.Context(), s.Anna.Actor, "y", program.Request{Code: "1", Language: sandbox.Python, Plain: true})
	require.ErrorIs(t, err, repl.ErrBusy)
	waiting, give := context.WithCancel(t.Context())
	give()
	_, err = busy.module.Service.Run(waiting, s.Ben.Actor, "x", program.Request{Code: "1", Language: sandbox.Python, Plain: true})
	require.Error(t, err)
	leave()
	<-done
}

// Interpreters end when they are reset, are not used, or the server stops.
func TestInterpretersEnd(t *testing.T) {
	t.Parallel()
	s := apptest.Serve(t, toolsets)
	i := keep(t, s, s.App.Engine, repl.Settings{Max: 8, Idle: time.Hour})
	i.run(s.Anna, "a", "x = 1")
	for _, c := range []struct {
		who   apptest.User
		place string
		want  bool
	}{{s.Ben, "a", false}, {s.Anna, "b", false}, {s.Anna, "a", true}, {s.Anna, "a", false}} {
		reset, err := i.module.Service.Reset(t.Context(), c.who.Actor, c.place)
		require.NoError(t, err)
		require.Equal(t, c.want, reset)
	}
	require.True(t, i.run(s.Anna, "a", "x = 1").Fresh)
	require.NoError(t, i.module.Stop(t.Context()))
	require.Zero(t, s.App.Engine.Stats().Paused)
	_, err := i.module.Service.Run(t.Context(), s.Anna.Actor, "a", program.Request{Code: "1", Language: sandbox.Python, Plain: true})
	require.ErrorIs(t, err, sandbox.ErrUnavailable)

	short := keep(t, s, s.App.Engine, repl.Settings{Max: 8, Idle: time.Millisecond})
	short.run(s.Anna, "a", "x = 1")
	require.Eventually(t, func() bool { return s.App.Engine.Stats().Paused == 0 }, time.Minute, time.Millisecond)
	require.True(t, short.run(s.Anna, "a", "0").Fresh)
}
