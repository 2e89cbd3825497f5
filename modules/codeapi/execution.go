package codeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/sandbox"
)

// execution is one program that may pause. Its process stays alive while the
// caller executes calls for it.
type execution struct {
	id      string
	service *Service
	who     actor.Actor
	work    workspace
	tools   map[string]bool // the caller's, by their own names
	phrases bool            // how the caller is answered
	gather  time.Duration   // how long calls that come one by one are gathered
	tooling http.Handler    // the tools of toolsets; nil without
	opened  *program.Opened // the record of a program with toolsets; nil without
	ctx     context.Context //nolint:containedctx // ends the program
	cancel  context.CancelCauseFunc

	sandbox  sandbox.Execution
	arrived  chan struct{} // told when calls wait to be asked for
	dead     chan struct{} // closed when nothing of the program runs any more
	finished chan struct{} // closed when reply is set
	reply    Reply
	err      error

	mu         sync.Mutex
	waiting    []*batch         // that the caller was not asked for yet
	asked      map[string]place // of this round, by the ids of the calls
	numbered   int              // calls that got an id
	round      int
	calls      int
	state      int64 // bytes of all results
	claimed    int64 // of them, those of the round that is being continued
	continuing bool
	over       bool
	recorded   bool // as an execution that paused
	idle       *time.Timer
}

// batch is the calls of one request of the program.
type batch struct {
	calls   []programCall
	results []programResult
	open    int // results that are missing
	done    chan struct{}
}

// place is where the result of a call belongs.
type place struct {
	batch *batch
	index int
}

type programCall struct {
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

type programResult struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  *string         `json:"error,omitempty"`
}

// ServeHTTP is the only thing the program reaches: the caller's tools, and
// those of the toolsets it was given.
func (e *execution) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == sandbox.CallsPath && r.Method == http.MethodPost {
		e.serveCalls(w, r)
		return
	}
	if e.tooling != nil {
		e.tooling.ServeHTTP(w, r)
		return
	}
	httpapi.Fail(w, errs.New(errs.NotFound, "This program reaches the tools of its request only."))
}

// maxBatch is the largest request for calls, in bytes.
const maxBatch = 32 << 20

func (e *execution) serveCalls(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Calls []programCall `json:"calls"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBatch)).Decode(&body); err != nil {
		httpapi.Fail(w, errs.Newf(errs.Invalid, "The calls are not JSON, or larger than %d bytes.", maxBatch))
		return
	}
	b := e.ask(body.Calls)
	select {
	case <-b.done:
	case <-r.Context().Done():
		return // the program is gone
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"results": b.results}) // a program that is gone
}

// ask takes calls of the program. Those that cannot be asked for are answered
// at once.
func (e *execution) ask(calls []programCall) *batch {
	b := &batch{calls: calls, results: make([]programResult, len(calls)), done: make(chan struct{})}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, c := range calls {
		e.calls++
		switch {
		case !e.tools[c.Name]:
			b.fail(i, fmt.Sprintf("Tool %q was not given to this program.", c.Name))
		case e.calls > e.service.Settings.MaxCalls:
			b.fail(i, fmt.Sprintf("The program made more than %d calls.", e.service.Settings.MaxCalls))
		default:
			b.open++
		}
	}
	if b.open == 0 {
		close(b.done)
		return b
	}
	e.waiting = append(e.waiting, b)
	select {
	case e.arrived <- struct{}{}:
	default: // whoever looks has not looked yet
	}
	return b
}

func (b *batch) fail(i int, text string) { b.results[i] = programResult{Error: &text} }

// next waits until the program pauses or ends. When the caller goes away, the
// program ends.
func (e *execution) next(ctx context.Context) (Reply, error) {
	for {
		select {
		case <-e.finished:
			return e.reply, e.err
		case <-ctx.Done():
			e.cancel(errDisconnected)
			<-e.finished
			return Reply{}, ctx.Err()
		case <-e.arrived:
		}
		e.linger()
		reply, paused, err := e.pause(ctx)
		if err != nil || paused {
			return reply, err
		}
	}
}

// linger waits for more calls of programs that cannot send them together.
func (e *execution) linger() {
	if e.gather == 0 {
		return
	}
	timer := time.NewTimer(e.gather)
	defer timer.Stop()
	for {
		select {
		case <-e.arrived:
			timer.Reset(e.gather)
		case <-timer.C:
			return
		case <-e.finished:
			return
		}
	}
}

// pause hands the calls that wait to the caller. It reports false when there
// are none, or the program has ended or is being ended.
func (e *execution) pause(ctx context.Context) (Reply, bool, error) {
	s := e.service
	if paused, err := e.rest(); err != nil || !paused {
		return Reply{}, false, err
	}
	if err := e.record(ctx); err != nil {
		e.cancel(err)
		return Reply{}, false, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over || e.ctx.Err() != nil {
		return Reply{}, false, nil // it ended while that was written
	}
	reply := Reply{Session: e.work.session, Calls: e.number()}
	e.round++
	e.continuing = false
	expires := s.Now().Add(s.Settings.Idle)
	var err error
	if reply.Token, err = s.tokens.issue(ticket{
		Execution: e.id, Session: e.work.session, UID: e.who.UID, Round: e.round, Expires: expires.Unix(),
	}); err != nil {
		return Reply{}, false, err
	}
	e.wait()
	s.Observer.Round(len(reply.Calls))
	return reply, true, nil
}

// rest takes the turn of the program away while its caller executes calls. It
// reports false when no call waits, or the program has ended or is being ended.
func (e *execution) rest() (paused bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.waiting) == 0 || e.over || e.ctx.Err() != nil {
		return false, nil
	}
	if e.round == e.service.Settings.MaxRounds {
		e.cancel(errRounds)
		return false, nil
	}
	if err := e.sandbox.Pause(); err != nil {
		e.cancel(errCrowded)
		return false, err
	}
	return true, nil
}

// number gives the calls that wait their ids.
func (e *execution) number() []AskedCall {
	e.asked = map[string]place{}
	var calls []AskedCall
	for _, b := range e.waiting {
		for i, c := range b.calls {
			if b.results[i].Error != nil {
				continue
			}
			e.numbered++
			id := fmt.Sprintf("call_%03d", e.numbered)
			if len(c.Input) == 0 || string(c.Input) == "null" {
				c.Input = json.RawMessage("{}")
			}
			e.asked[id] = place{b, i}
			calls = append(calls, AskedCall{ID: id, Name: c.Name, Input: c.Input})
		}
	}
	e.waiting = nil
	return calls
}

// wait ends the program when nobody continues it in time.
func (e *execution) wait() {
	round := e.round
	e.idle = time.AfterFunc(e.service.Settings.Idle, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.round == round && !e.continuing {
			e.cancel(errIdle)
		}
	})
}

// record writes down, at the first pause, that this process holds the program.
// Only whoever waits for the program calls it, so that it is written once.
func (e *execution) record(ctx context.Context) error {
	e.mu.Lock()
	recorded := e.recorded
	e.mu.Unlock()
	if recorded {
		return nil
	}
	if err := e.service.open(ctx, e); err != nil {
		return err
	}
	e.mu.Lock()
	e.recorded = true
	over, cause := e.over, e.reply.Cause
	e.mu.Unlock()
	if over { // its end found nothing to write on
		e.service.close(ctx, e, cause)
	}
	return nil
}

// claim takes the results of a round, once. After it the round's token is
// used; an error leaves everything as it was. It reports false for a program
// that has ended or is being ended: it gets no results any more, and the answer
// is how it ended.
func (e *execution) claim(round int, results []ToolResult) (alive bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case round < e.round:
		return false, ErrTokenUsed.Do("Send the continuation_token of the last answer.")
	case e.continuing:
		return false, ErrContinuing.Do("Wait for the answer to that request.")
	case e.over || e.ctx.Err() != nil:
		return false, nil
	}
	size, err := e.check(results)
	if err != nil {
		return false, err
	}
	e.continuing, e.claimed = true, size
	e.state += size
	e.idle.Stop()
	return true, nil
}

// check refuses results that do not answer the round, one for each call.
func (e *execution) check(results []ToolResult) (size int64, err error) {
	limit := e.service.Settings
	seen := map[string]bool{}
	for _, r := range results {
		if _, ok := e.asked[r.CallID]; !ok || seen[r.CallID] {
			return 0, errs.Newf(errs.Invalid, "tool_results holds %q, which was not asked for, or holds it twice", r.CallID).
				Do("Send one result for each of tool_calls.")
		}
		seen[r.CallID] = true
		n := int64(len(r.Result) + len(r.Error))
		if n > limit.MaxResult {
			return 0, errs.Newf(errs.TooLarge, "The result of %s is larger than %d bytes.", r.CallID, limit.MaxResult).
				Do("Send an error result instead.")
		}
		size += n
	}
	for id := range e.asked {
		if !seen[id] {
			return 0, errs.Newf(errs.Invalid, "tool_results lacks %s", id).Do("Send one result for each of tool_calls.")
		}
	}
	if e.state+size > limit.MaxState {
		return 0, errs.Newf(errs.TooLarge, "The results of this program together are larger than %d bytes.", limit.MaxState).
			Do("Send error results instead.")
	}
	return size, nil
}

// unclaim undoes claim for a caller that left before its turn came.
func (e *execution) unclaim() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state -= e.claimed
	e.continuing = false
	e.wait()
}

// made is how many calls the caller was asked for.
func (e *execution) made() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.numbered
}

// deliver gives the program its results, unless it was ended since they were
// claimed.
func (e *execution) deliver(results []ToolResult) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx.Err() != nil {
		return
	}
	for _, r := range results {
		at, ok := e.asked[r.CallID]
		if !ok {
			continue
		}
		if r.Failed {
			at.batch.fail(at.index, r.Error)
		} else {
			at.batch.results[at.index] = programResult{Result: r.Result}
		}
		if at.batch.open--; at.batch.open == 0 {
			close(at.batch.done)
		}
	}
	e.asked = nil
}

// end notes that nothing of the program runs any more, and reports whether
// somebody may still come for its reply.
func (e *execution) end(reply Reply, err error) (awaited bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	if e.idle != nil {
		e.idle.Stop()
	}
	e.reply, e.err = reply, err
	return e.round > 0 && !e.continuing
}
