package guest

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/portico-run/portico/modules/sandbox"
)

// Slots of servers that are gone are cleared, and nobody else's.
func TestSlots(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := OpenSlots(dir)
	require.NoError(t, err)
	held, err := s.Take()
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(s.Dir(), "7"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(s.Dir(), "7", "left"), nil, 0o600))
	again, err := OpenSlots(dir)
	require.NoError(t, err)
	require.NoDirExists(t, filepath.Join(s.Dir(), "7"))
	require.DirExists(t, held.Run(), "it is in use")
	other, err := again.Take()
	require.NoError(t, err)
	require.NotEqual(t, held.Run(), other.Run())
	require.Equal(t, filepath.Dir(held.Run()), filepath.Dir(held.Own()))

	children, err := held.Children()
	require.NoError(t, err)
	first, a, err := children.Take()
	require.NoError(t, err)
	second, b, err := children.Take()
	require.NoError(t, err)
	require.NotEqual(t, first, second)
	require.Equal(t, held.ID, a.ID)
	require.NoError(t, a.write([]sandbox.File{{Path: "deep/er/x.py", Content: []byte("x")}}))
	content, err := os.ReadFile(filepath.Join(a.Tools(), "deep/er/x.py"))
	require.NoError(t, err)
	require.Equal(t, "x", string(content))
	require.NoError(t, a.Release())
	require.DirExists(t, b.Tools())
	require.NoError(t, held.Release())
	require.NoError(t, other.Release())

	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	_, err = OpenSlots(filepath.Join(dir, "file"))
	require.Error(t, err)
	foreign := t.TempDir()
	require.NoError(t, os.Symlink(dir, filepath.Join(foreign, filepath.Base(s.Dir()))))
	_, err = OpenSlots(foreign)
	require.ErrorContains(t, err, "is not a folder of this user")
}

func TestTheRuntimeIsInstalledOnce(t *testing.T) {
	t.Parallel()
	s, err := OpenSlots(t.TempDir())
	require.NoError(t, err)
	dir, err := s.Install()
	require.NoError(t, err)
	info, err := os.Stat(filepath.Join(dir, "main.py"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o444), info.Mode().Perm())
	again, err := s.Install()
	require.NoError(t, err)
	require.Equal(t, dir, again)
}

// What Python finds compiled is what it would compile, and the host's folder
// holds nothing that a cell put elsewhere.
func TestMoreFilesOfTheRuntime(t *testing.T) {
	t.Parallel()
	s, err := OpenSlots(t.TempDir())
	require.NoError(t, err)
	dir := filepath.Join(s.Dir(), "runtime-x")
	require.NoError(t, s.install(dir, map[string][]byte{"__pycache__/a.pyc": []byte("code")}))
	info, err := os.Stat(filepath.Join(dir, "__pycache__", "a.pyc"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o444), info.Mode().Perm())
	for _, path := range []string{"../evil", "/tmp/evil", "refly_tools/evil"} {
		require.Error(t, s.install(dir+"-2", map[string][]byte{path: []byte("code")}), path)
		require.NoDirExists(t, dir+"-2")
	}
}

func TestPathsOfOutputs(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"a": true, "a/b.txt": true, "ä": true, "": false, "/a": false, "a/": false, "a//b": false, "..": false, "a/../b": false, ".": false,
		"a\nb": false, `a\b`: false, "\xff": false, "a/\x7f": false,
	} {
		require.Equal(t, want, UsablePath(path), "%q", path)
	}
}

// What the kernel says about a process is read as it means it, and as nothing
// where it makes no sense.
func TestWhatTheKernelSays(t *testing.T) {
	t.Parallel()
	stat := "7 (a) b (c) S 1 7 7 0 -1 0 0 0 0 0 100 50 20 30 20 0 1 0 0"
	require.Equal(t, 2*time.Second, ProcessorTime([]byte(stat)))
	require.Zero(t, ProcessorTime([]byte("7 (x) S 1")))
	require.Zero(t, ProcessorTime([]byte("7 (x) S 1 7 7 0 -1 0 0 0 0 0 many 50 20 30 20")))
	require.EqualValues(t, 12<<10, pss([]byte("Rss:     20 kB\nPss:     12 kB\nPss_Dirty: 3 kB\n")))
	require.Zero(t, pss([]byte("Pss: much kB\n")))
	require.Zero(t, pss(nil))
	l := sandbox.Limits{}.WithDefaults()
	status, _ := Measurement{}.judge(l)
	require.Empty(t, status)
	status, notice := Measurement{Memory: l.Memory + memorySlack + 1}.judge(l)
	require.Equal(t, sandbox.OutOfMemory, status)
	require.Contains(t, notice, "MiB of memory")
	status, _ = Measurement{Files: uint64(l.Inodes) + 1}.judge(l)
	require.Equal(t, sandbox.Killed, status)
}

func TestWhyFilesDoNotFit(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, Unfit(unix.ENOSPC), sandbox.ErrInvalidJob)
	require.NotErrorIs(t, Unfit(unix.EIO), sandbox.ErrInvalidJob)
	require.ErrorIs(t, Unfit(unix.EIO), unix.EIO)
	require.NoError(t, asOwner(-1, func() error { return nil }))
	fault := errors.New("fault")
	require.ErrorIs(t, asOwner(os.Geteuid(), func() error { return fault }), fault)
}

// How a job ended follows from its exit code, unless a limit ended it.
func TestHowJobsEnded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   sandbox.Result
		want sandbox.Status
		exit int
	}{
		{sandbox.Result{}, sandbox.Completed, 0},
		{sandbox.Result{ExitCode: 3}, sandbox.Failed, 3},
		{sandbox.Result{ExitCode: -1}, sandbox.Killed, sandbox.ExitKilled},
		{sandbox.Result{ExitCode: 1, Stderr: "Traceback\nMemoryError\n"}, sandbox.OutOfMemory, 1},
		{sandbox.Result{ExitCode: 1, Stderr: "MemoryError: no\nValueError"}, sandbox.Failed, 1},
		{sandbox.Result{Status: sandbox.TimedOut, ExitCode: 9}, sandbox.TimedOut, sandbox.ExitTimedOut},
		{sandbox.Result{Status: sandbox.OutOfMemory}, sandbox.OutOfMemory, sandbox.ExitKilled},
	} {
		judge(&c.in)
		require.Equal(t, c.want, c.in.Status)
		require.Equal(t, c.exit, c.in.ExitCode)
	}
}

// A handler that does not heed the end of its request holds a job up for a
// moment only, and requests after the end are not answered.
func TestTheToolChannelEnds(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	p, err := NewPoller()
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	r, err := openToolChannel(t.Context(), p, filepath.Join(t.TempDir(), "s"), http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		close(entered)
		<-req.Context().Done()
		<-leave
	}))
	require.NoError(t, err)
	ours, theirs, err := Channel()
	require.NoError(t, err)
	defer theirs.Close()
	r.serve(ours)
	_, err = theirs.Write(append([]byte{0, 0, 0, 19, 0, 0, 0, 0}, `{"id":1,"path":"/"}`...))
	require.NoError(t, err)
	<-entered
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.close()
	}()
	<-r.ctx.Done()
	close(leave)
	<-ended
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { r.ServeHTTP(nil, nil) })
	_, err = openToolChannel(t.Context(), p, filepath.Join(t.TempDir(), "none", "s"), nil)
	require.Error(t, err)
}

// Only the byte that the runtime sends when it took the job counts.
func TestTheRuntimeSaysThatItBegan(t *testing.T) {
	t.Parallel()
	for said, fine := range map[string]bool{"S": true, "X": false} {
		ours, theirs, err := Channel()
		require.NoError(t, err)
		_, err = theirs.WriteString(said)
		require.NoError(t, err)
		listening, err := started(ours)
		require.Nil(t, listening)
		require.Equal(t, fine, err == nil, said)
		s := Session{Control: ours}
		_, err = theirs.WriteString(said)
		require.NoError(t, err)
		require.Equal(t, said == "R", s.expect('R') == nil)
		require.NoError(t, theirs.Close())
		require.Error(t, s.Ready(t.Context()))
		require.NoError(t, ours.Close())
	}
	_, err := started(nil)
	require.Error(t, err)
}

// Work of a host ends with it.
func TestWorkEndsWithItsHost(t *testing.T) {
	t.Parallel()
	h, err := NewHost("test", "true", Config{RunDir: t.TempDir()})
	require.NoError(t, err)
	require.NoError(t, h.Open())
	began := make(chan struct{})
	h.Go(func(closing context.Context) {
		close(began)
		<-closing.Done()
	})
	<-began
	ctx, done, err := h.Begin(t.Context())
	require.NoError(t, err)
	go func() {
		<-ctx.Done()
		done()
	}()
	require.NoError(t, h.Close())
}
