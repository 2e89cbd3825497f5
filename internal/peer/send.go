package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portico-run/portico/internal/actor"
)

// Connections that rest are closed before the other side closes them.
const (
	clientIdle = 30 * time.Second
	serverIdle = 2 * time.Minute
)

func newClient(d Deps) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: d.TLS.Clone(), IdleConnTimeout: clientIdle, MaxIdleConnsPerHost: 64, TLSHandshakeTimeout: d.Times.Accept,
			// A request is sent whole only when it is taken; who waits for that is send.
			ExpectContinueTimeout: 24 * time.Hour, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// question is what is sent to another process.
type question struct {
	to, op string
	who    actor.Actor
	header http.Header
	body   []byte
}

// reply is the answer. It must be closed.
type reply struct {
	*http.Response

	end func()
}

// Close ends the exchange.
func (r *reply) Close() {
	_ = r.Body.Close()
	r.end()
}

// A request is waiting until the other process takes it.
const (
	waiting int32 = iota
	taken
	given // up
)

// gate is a body that is sent only when it was asked for.
type gate struct {
	io.Reader

	state *atomic.Int32
}

// Read implements io.Reader.
func (g gate) Read(p []byte) (int, error) {
	if g.state.Load() != taken {
		return 0, errSilent
	}
	return g.Reader.Read(p)
}

var errSilent = errors.New("the process does not take the request in time")

// send sends a question. The errors are ErrGone, ErrLost, ErrUnreachable where the other
// process has taken nothing, ErrBroken where it has, or what it answered.
func (s *Service) send(ctx context.Context, q question) (*reply, error) {
	at, err := s.place(ctx, q.to)
	if err != nil {
		return nil, err
	}
	asking, cancel := context.WithCancelCause(ctx)
	state := &atomic.Int32{}
	silent := time.AfterFunc(s.deps.Times.Accept, func() {
		if state.CompareAndSwap(waiting, given) {
			cancel(errSilent)
		}
	})
	var watching sync.WaitGroup
	end := func() {
		silent.Stop()
		cancel(nil)
		watching.Wait()
	}
	watching.Go(func() { s.watch(asking, q.to, cancel) })
	r, err := s.request(asking, at, q, state)
	if err != nil {
		end()
		return nil, err
	}
	resp, err := s.client.Do(r)
	if err == nil {
		if err = s.refusal(ctx, q, resp); err == nil {
			silent.Stop()
			return &reply{resp, end}, nil
		}
		_ = resp.Body.Close()
		end()
		return nil, err
	}
	cause := context.Cause(asking)
	end()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(cause, ErrGone) && state.Load() == taken:
		return nil, ErrLost
	case errors.Is(cause, ErrGone):
		return nil, ErrGone
	case state.Load() == taken:
		return nil, ErrBroken.With(err)
	}
	return nil, s.absent(ctx, q.to, err)
}

func (s *Service) request(ctx context.Context, at string, q question, state *atomic.Int32) (*http.Request, error) {
	token, err := s.issue(q.to, q.op, q.who)
	if err != nil {
		return nil, err
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got100Continue: func() { state.CompareAndSwap(waiting, taken) }})
	scheme := "http"
	if s.deps.TLS != nil {
		scheme = "https"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, scheme+"://"+at+path+q.op, gate{bytes.NewReader(q.body), state})
	if err != nil {
		return nil, err
	}
	maps.Copy(r.Header, q.header)
	r.Header.Set(headerToken, token)
	r.Header.Set("Expect", "100-continue")
	r.ContentLength = -1
	return r, nil
}

// refusal is why a response is no answer to what was asked.
func (s *Service) refusal(ctx context.Context, q question, r *http.Response) error {
	switch r.Header.Get(headerProblem) {
	case none:
		return nil
	case asked:
		return readProblem(r)
	case otherNode:
		return s.absent(ctx, q.to, errOtherNode)
	}
	err := fmt.Errorf("the process %s refuses to be asked for %s: %s", q.to, q.op, r.Status)
	s.deps.Logger.ErrorContext(ctx, "processes do not understand each other; they must have the same ENCRYPTION_KEY and PORTICO_PEER_TLS_… files", "error", err)
	return ErrUnreachable.With(err)
}

// absent is the error for a process that took nothing: whether it is gone, its lease
// says.
func (s *Service) absent(ctx context.Context, id string, cause error) error {
	s.mu.Lock()
	delete(s.places, id)
	s.mu.Unlock()
	if _, err := s.deps.Nodes.Get(ctx, id); err != nil {
		return err
	}
	return ErrUnreachable.With(cause)
}

// maxPlaces is how many addresses are kept.
const maxPlaces = 10_000

// place is where a process is. What a process that was asked before is asked again
// needs no question to the directory.
func (s *Service) place(ctx context.Context, id string) (string, error) {
	s.mu.Lock()
	at := s.places[id]
	s.mu.Unlock()
	if at != "" {
		return at, nil
	}
	n, err := s.deps.Nodes.Get(ctx, id)
	if err != nil {
		return "", err
	}
	if n.Address == "" {
		return "", ErrUnreachable.With(fmt.Errorf("the process %s listens for no others", id))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.places) >= maxPlaces {
		clear(s.places)
	}
	s.places[id] = n.Address
	return n.Address, nil
}

// watch gives a question up whose process is gone without a word.
func (s *Service) watch(ctx context.Context, id string, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(s.deps.Times.Look)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := s.deps.Nodes.Get(ctx, id); errors.Is(err, ErrGone) {
			cancel(ErrGone)
			return
		}
	}
}

// maxAnswer is the largest answer that is read whole, in bytes.
const maxAnswer = 128 << 20

// Call is what another process is asked for: what it does under a name, for somebody.
type Call struct {
	Op  string
	Who actor.Actor
	In  any
}

// Ask asks another process. The answer goes into out, unless that is nil. Ending ctx
// ends the work there.
func (s *Service) Ask(ctx context.Context, to string, c Call, out any) error {
	body, err := json.Marshal(c.In)
	if err != nil {
		return err
	}
	r, err := s.send(ctx, question{to: to, op: c.Op, who: c.Who, body: body})
	if err != nil {
		return err
	}
	defer r.Close()
	text, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxAnswer))
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return ErrBroken.With(err)
	case out == nil:
		return nil
	}
	return json.Unmarshal(text, out)
}

// Others asks all other processes that live at once, and returns when all have
// answered. each is told of every answer, one after the other; the error is that of
// one that did not answer.
func (s *Service) Others(ctx context.Context, op string, who actor.Actor, in any, each func(answer json.RawMessage)) error {
	nodes, err := s.deps.Nodes.Live(ctx)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var failed []error
	var all sync.WaitGroup
	for _, n := range nodes {
		if n.ID == s.deps.Self || n.Address == "" {
			continue
		}
		all.Go(func() {
			var answer json.RawMessage
			err := s.Ask(ctx, n.ID, Call{op, who, in}, &answer)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				each(answer)
			case !errors.Is(err, ErrGone): // its work ended with it
				failed = append(failed, err)
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}
