package guest

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func poller(t *testing.T) *Poller {
	t.Helper()
	p, err := NewPoller()
	require.NoError(t, err)
	return p
}

func follow(t *testing.T, p *Poller, what syscall.Conn, ready func() bool) {
	t.Helper()
	_, err := p.Watch(what, ready)
	require.NoError(t, err)
}

func watchError(p *Poller, what syscall.Conn) error {
	_, err := p.Watch(what, func() bool { return false })
	return err
}

// Many pipes are read to their ends, piece by piece and in order, and no call
// comes before the one before it returned.
func TestThePollerReadsManyPipes(t *testing.T) {
	t.Parallel()
	p := poller(t)
	var all sync.WaitGroup
	for range 50 {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		var got bytes.Buffer
		var once sync.Mutex
		ended := make(chan struct{})
		follow(t, p, r, func() (again bool) {
			if !once.TryLock() {
				t.Error("two calls at once")
			}
			defer once.Unlock()
			if again = p.read(r, func(piece []byte) { got.Write(piece) }); !again {
				close(ended)
			}
			return again
		})
		all.Go(func() {
			var want bytes.Buffer
			for n := range 100 {
				piece := bytes.Repeat([]byte{byte(n)}, 1+n*31)
				want.Write(piece)
				if _, err := w.Write(piece); err != nil {
					t.Error(err)
				}
			}
			w.Close()
			<-ended
			if !bytes.Equal(want.Bytes(), got.Bytes()) {
				t.Error("not what was written")
			}
			r.Close()
		})
	}
	all.Wait()
	require.Eventually(t, func() bool { return watches(p) == 0 }, time.Minute, time.Millisecond)
	require.NoError(t, p.Close())
}

func watches(p *Poller) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.watched)
}

// What has nothing to read costs no goroutine.
func TestWhatIsWatchedCostsNoGoroutine(t *testing.T) { //nolint:paralleltest // it counts goroutines
	p := poller(t)
	before := runtime.NumGoroutine()
	var files []*os.File
	for range 100 {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		files = append(files, r, w)
		follow(t, p, r, func() bool { return false })
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before+5)
	for _, f := range files {
		require.NoError(t, f.Close())
	}
	require.NoError(t, p.Close())
}

// What is closed is watched no more, and never mistaken for what has its number
// afterwards.
func TestWhatIsClosedIsNotWatched(t *testing.T) {
	t.Parallel()
	p := poller(t)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	told := make(chan struct{})
	follow(t, p, r, func() bool {
		r.Close()
		close(told)
		return true
	})
	require.NoError(t, w.Close())
	<-told
	require.Eventually(t, func() bool { return watches(p) == 0 }, time.Minute, time.Millisecond)
	require.Error(t, watchError(p, r))
	require.Zero(t, watches(p))
	require.NoError(t, p.Close())
	fresh, end, err := os.Pipe()
	require.NoError(t, err)
	require.Error(t, watchError(p, fresh))
	require.NoError(t, fresh.Close())
	require.NoError(t, end.Close())
}

// A program that calls no tool leaves nothing behind: nobody connected to the socket
// that was watched for it, and the kernel tells nothing of a socket that is closed.
func TestASocketThatNobodyUsedIsForgotten(t *testing.T) {
	t.Parallel()
	p := poller(t)
	for range 10 {
		r, err := openToolChannel(t.Context(), p, filepath.Join(t.TempDir(), "tools"), http.NotFoundHandler())
		require.NoError(t, err)
		require.Equal(t, 1, watches(p))
		r.close()
		require.Zero(t, watches(p))
	}
	require.NoError(t, p.Close())
}
