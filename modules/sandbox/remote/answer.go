package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"

	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/guest"
	"github.com/portico-run/portico/modules/sandbox/remote/wire"
)

// serve answers one request of the node.
func (x *exchange) serve(w http.ResponseWriter, r *http.Request) {
	x.mu.Lock()
	if x.closed {
		x.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	work := &x.answers
	if r.Host == wire.Control && r.URL.Path == wire.PathOutput {
		work = &x.output // no line comes after the end, however long the last one takes
	}
	work.Add(1)
	x.mu.Unlock()
	defer work.Done()
	if r.Host == wire.Gateway {
		x.gateway(w, r)
		return
	}
	var err error
	switch r.URL.Path {
	case wire.PathJob:
		err = x.giveJob(r.Context(), w)
	case wire.PathInput:
		err = x.giveInput(w, r)
	case wire.PathKnown:
		x.giveKnown(w, r)
	case wire.PathSignals:
		x.giveSignals(w, r)
	case wire.PathOutput:
		err = x.takeOutput(r.Body)
	case wire.PathResult:
		err = x.takeResult(r.Body)
	default:
		err = fmt.Errorf("it asks for %.100q", r.URL.Path)
	}
	if err != nil {
		x.finish(x.lost(err.Error()))
		panic(http.ErrAbortHandler)
	}
}

// gateway answers a request of the program.
func (x *exchange) gateway(w http.ResponseWriter, r *http.Request) {
	x.mu.Lock()
	serves := x.works() && x.job.Gateway != nil
	x.used = x.used || serves
	x.mu.Unlock()
	if !serves {
		panic(http.ErrAbortHandler)
	}
	r.Host = r.Header.Get(wire.HeaderHost)
	r.Header.Del(wire.HeaderHost)
	x.job.Gateway.ServeHTTP(w, r)
}

// enter changes the phase, and returns an error where the node should not be there.
func (x *exchange) enter(to phase, from ...phase) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !slices.Contains(from, x.phase) {
		return errors.New("it does things out of their order")
	}
	x.phase = to
	x.touch()
	wake(x.change)
	return nil
}

// works reports whether the node has the job, and has not ended it. The caller holds mu.
func (x *exchange) works() bool { return x.phase == given || x.phase == running }

// start lets the clock run when the node has everything.
func (x *exchange) start() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.phase == given && !slices.Contains(x.inputs, 0) {
		x.phase = running
		x.touch()
		wake(x.change)
		x.job.Clock.Start()
	}
}

func (x *exchange) giveJob(ctx context.Context, w io.Writer) error {
	// From here on code may run.
	if err := x.enter(given, offered); err != nil {
		return err
	}
	j := x.job
	spec := wire.Spec{
		Code: j.Code, Language: j.Language, Args: j.Args, Env: j.Env, Timeout: j.Timeout, Stubs: j.Stubs, MaxFiles: j.Collect.MaxFiles, MaxBytes: j.Collect.MaxBytes,
		Known: j.Collect.Known != nil, Gateway: j.Gateway != nil, Loopback: j.Loopback, Output: j.Output != nil,
	}
	for _, f := range j.Files {
		spec.Files = append(spec.Files, wire.File{Path: f.Path, Size: int64(len(f.Content))})
	}
	for _, f := range j.Inputs {
		size := f.Size
		if f.Open == nil {
			size = int64(len(f.Content))
		}
		spec.Inputs = append(spec.Inputs, wire.File{Path: f.Path, Size: size, ReadOnly: f.ReadOnly})
	}
	to := touching{x, w}
	err := wire.WriteHead(to, spec)
	for _, f := range j.Files {
		if err == nil {
			_, err = to.Write(f.Content)
		}
	}
	if err != nil {
		return ctx.Err() // of a node that is gone it is heard otherwise
	}
	x.start()
	return nil
}

// maxReads is how often a node may read an input: it tries as often as an engine does.
const maxReads = 3

func (x *exchange) giveInput(w http.ResponseWriter, r *http.Request) error {
	n, err := strconv.Atoi(r.URL.Query().Get("n"))
	if err != nil || n < 0 || n >= len(x.job.Inputs) {
		return errors.New("it asks for an input that the job has not")
	}
	x.mu.Lock()
	serves := x.works() && x.asked[n] < maxReads
	x.asked[n]++
	x.mu.Unlock()
	if !serves {
		return errors.New("it asks for an input out of its order")
	}
	from, _, err := x.job.Inputs[n].Reader(r.Context())
	var broke error // on the way to the node, which may ask again, or says why it takes no more
	if err == nil {
		source := &guest.Source{Reader: from}
		_, broke = io.Copy(touching{x, w}, source)
		err = errors.Join(source.Err, from.Close())
	}
	switch {
	case r.Context().Err() != nil || err == nil && broke != nil:
		panic(http.ErrAbortHandler) // of a node that is gone it is heard otherwise
	case err != nil:
		x.finish(outcome{err: err}) // no fault of the node
		panic(http.ErrAbortHandler)
	}
	x.mu.Lock()
	x.inputs[n]++
	x.mu.Unlock()
	x.start()
	return nil
}

// touching notes what the node takes.
type touching struct {
	x  *exchange
	to io.Writer
}

// Write implements io.Writer.
func (t touching) Write(p []byte) (int, error) {
	n, err := t.to.Write(p)
	t.x.touch()
	return n, err
}

func (x *exchange) giveKnown(w http.ResponseWriter, r *http.Request) {
	x.touch()
	if x.job.Collect.Known != nil {
		if size, digest, known := x.job.Collect.Known(r.URL.Query().Get("path")); known {
			_ = json.NewEncoder(w).Encode(wire.Known{Size: size, Digest: digest[:]}) // of a node that is gone it is heard otherwise
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
}

// giveSignals tells the node when the job is paused, goes on, or is to end.
func (x *exchange) giveSignals(w http.ResponseWriter, r *http.Request) {
	paused, ended := false, false
	leaves := http.NewResponseController(w)
	for leaves.Flush() == nil {
		select {
		case <-x.poke:
		case <-r.Context().Done():
			return
		}
		x.mu.Lock()
		var signals []byte
		if x.paused && !paused {
			signals = append(signals, wire.Pause)
		}
		if !x.paused && paused {
			signals = append(signals, wire.Resume)
		}
		if x.ended && !ended {
			signals = append(signals, wire.Cancel)
		}
		paused, ended = x.paused, x.ended
		x.mu.Unlock()
		if _, err := w.Write(signals); err != nil {
			return
		}
	}
}

// most is the most bytes that a node may send of an output. What is kept of it may be
// three times as long, since what is no text becomes U+FFFD, and has a line of the
// sandbox's own.
func (x *exchange) most() int64 { return 3*x.limit + 4<<10 }

func (x *exchange) takeOutput(body io.Reader) error {
	x.mu.Lock()
	serves := x.works() && x.job.Output != nil && !x.printing && !x.closed
	x.printing = serves
	x.mu.Unlock()
	if !serves {
		return errors.New("it sends output out of its order")
	}
	printed := map[sandbox.Stream]int64{}
	for {
		stream, line, err := wire.ReadLine(body)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && !text(line) {
			err = errors.New("it sends output that is no text")
		}
		printed[stream] += int64(len(line)) + 1
		if err == nil && printed[stream] > x.most() {
			err = fmt.Errorf("it sends more output than SANDBOX_OUTPUT of this server lets it")
		}
		if err != nil {
			return err
		}
		x.touch()
		x.mu.Lock()
		x.used = true
		closed := x.closed
		x.mu.Unlock()
		if closed {
			return errors.New("it sends output after the end")
		}
		x.job.Output(stream, line)
		x.touch()
	}
	x.mu.Lock()
	x.printing = false
	x.mu.Unlock()
	return nil
}
