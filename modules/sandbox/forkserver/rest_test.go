package forkserver_test

import (
	"net/http"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/forkserver"
	"github.com/portico-run/portico/modules/sandbox/guest"
	"github.com/portico-run/portico/modules/sandbox/sandboxtest"
)

// A program that waits for a call holds six descriptors of the server: its
// channel, its two outputs, its tool socket, its folder and its process. Besides
// the goroutine that runs it, it has one that reads its calls and one for the
// call it waits for.
func TestWhatAWaitingProgramHolds(t *testing.T) { //nolint:paralleltest // it counts what the process holds
	const programs = 10
	d, err := forkserver.New(guest.Config{Root: sandboxtest.Root(), RunDir: sandboxtest.RunDir(t), Preload: []string{"json"}})
	require.NoError(t, err)
	require.NoError(t, d.Open(t.Context()))
	begin := func(waits chan<- struct{}, answer <-chan struct{}) (ended chan struct{}) {
		c, err := d.Start(t.Context())
		require.NoError(t, err)
		ended = make(chan struct{})
		go func() {
			defer close(ended)
			r, err := c.Run(t.Context(), sandbox.Job{
				Code: "await ask()", Timeout: time.Minute, Stubs: []sandbox.Stub{{Identifier: "ask", Name: "ask", Open: true}},
				Gateway: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					waits <- struct{}{}
					<-answer
					_, _ = w.Write([]byte(`{"results":[{"result":1}]}`)) // read by the program
				}),
			})
			if err != nil || r.Status != sandbox.Completed {
				t.Error(err, r.Status, r.Stderr)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
		return ended
	}
	waits, answer := make(chan struct{}), make(chan struct{})
	all := []chan struct{}{begin(waits, answer)} // with it, what is there once
	<-waits
	descriptors, goroutines := held(t)
	for range programs {
		all = append(all, begin(waits, answer))
		<-waits
	}
	more, running := held(t)
	const once = 3 // what the process opens at some time, and keeps
	require.LessOrEqual(t, more-descriptors, 6*programs+once)
	require.LessOrEqual(t, running-goroutines, 3*programs+once)
	close(answer)
	for _, ended := range all {
		<-ended
	}
	require.NoError(t, d.Close())
}

// held is what this process holds.
func held(t *testing.T) (descriptors, goroutines int) {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(open), runtime.NumGoroutine()
}
