package program_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/app/apptest"
	"github.com/portico-run/portico/modules/drive"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/sandbox"
)

// Files of one program whose names are the same in a canvas do not replace each other,
// nor a file that has the name itself.
func TestFilesOfOneNameAreAllKept(t *testing.T) {
	t.Parallel()
	s := apptest.Serve(t, toolsets)
	canvas, err := s.App.Runs.Service.CreateCanvas(t.Context(), s.Anna.Actor, "work")
	require.NoError(t, err)
	o := python(t, s, program.Request{CanvasID: canvas.CanvasID, Code: `
import os
os.makedirs("2024/1")
for name in ("2024/1/r.csv", "2024-1-r.csv", "at 10:30.txt", "at 10?30.txt"):
    open(name, "w").write(name)`})
	contents := map[string]string{}
	for _, f := range o.Files {
		_, content, err := s.App.Drive.Service.Read(t.Context(), s.Anna.Actor, f.FileID, 100)
		require.NoError(t, err)
		contents[f.Name] = string(content)
	}
	require.Equal(t, map[string]string{
		"2024-1-r.csv": "2024-1-r.csv", "2024-1-r-2.csv": "2024/1/r.csv", "at 10-30.txt": "at 10:30.txt", "at 10-30-2.txt": "at 10?30.txt",
	}, contents)
	require.Contains(t, strings.Join(o.Warnings, "\n"), "2024/1/r.csv was kept as 2024-1-r-2.csv: another file has the name 2024-1-r.csv.")
}

// A program that waits for its turn while its files change is refused before it runs:
// it would find others than it was given.
func TestFilesThatChangeWhileAProgramWaits(t *testing.T) {
	t.Parallel()
	s := apptest.Serve(t, toolsets, "SANDBOX_MAX_CONCURRENT=1")
	canvas, err := s.App.Runs.Service.CreateCanvas(t.Context(), s.Anna.Actor, "work")
	require.NoError(t, err)
	save := func(content string) drive.File {
		t.Helper()
		f, err := s.App.Drive.Service.Save(t.Context(), s.Anna.Actor, drive.Content{
			CanvasID: canvas.CanvasID, Name: "a.txt", Body: strings.NewReader(content), Source: drive.Agent, Replace: true,
		})
		require.NoError(t, err)
		return f
	}
	f := save("short")
	for name, meanwhile := range map[string]func(){
		"replaced": func() { f = save("much longer than before") },
		"deleted": func() {
			require.NoError(t, s.App.Drive.Service.Delete(t.Context(), s.Anna.Actor, f.FileID))
			f = save("short")
		},
	} {
		ctx, end := context.WithCancel(t.Context())
		first, err := s.App.Engine.Begin(ctx, sandbox.Job{Language: sandbox.Python, Code: "import time\ntime.sleep(60)", Timeout: time.Minute})
		require.NoError(t, err)
		failed := make(chan error, 1)
		go func() {
			_, err := s.App.Programs.Service.Execute(t.Context(), s.Anna.Actor, program.Request{Language: sandbox.Python, Code: "print('ran')", CanvasID: canvas.CanvasID})
			failed <- err
		}()
		require.Eventually(t, func() bool { return s.App.Engine.Stats().Queued == 1 }, time.Minute, time.Millisecond)
		meanwhile()
		end()
		<-first.Done()
		err = <-failed
		require.Equal(t, errs.Conflict, errs.CodeOf(err), "%s: %v", name, err)
		require.Contains(t, errs.Message(err), "The file a.txt of the canvas was changed or deleted", name)
	}
}
