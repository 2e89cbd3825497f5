package execution

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/sandbox"
)

// exchange carries the calls of one program to its caller, and their results
// back. It knows neither the sandbox nor the database.
type exchange struct {
	limits  Settings
	tools   map[string]bool // the caller's, by their own names
	gather  time.Duration   // how long calls that come one by one are gathered
	tooling http.Handler    // the tools of toolsets; nil without
	ctx     context.Context //nolint:containedctx // the program's; nothing is delivered after its end
	cancel  context.CancelCauseFunc
	arrived chan struct{} // told when calls wait to be asked for

	mu       sync.Mutex
	waiting  []*batch // that the caller was not asked for yet
	round    round
	calls    int
	numbered int   // calls that got an id
	state    int64 // bytes of all results
	held     int64 // bytes of the calls that are read, or have no result yet
	last     answer
	over     bool
}

// round is what the caller is asked for until the program goes on.
type round struct {
	number     int              // rounds so far
	asked      map[string]place // by the ids of the calls
	claimed    int64            // bytes of the results with which it is continued
	continuing bool
	idle       *time.Timer
}

// batch is the calls of one request of the program.
type batch struct {
	calls   []programCall
	results []programResult
	open    int   // results that are missing
	held    int64 // bytes of the request
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
func (e *exchange) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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

func (e *exchange) serveCalls(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Calls []programCall `json:"calls"`
	}
	in := &heldBody{Reader: http.MaxBytesReader(w, r.Body, maxBatch), calls: e}
	if err := json.NewDecoder(in).Decode(&body); err != nil {
		e.release(in.held)
		refused, known := errors.AsType[*errs.Error](err)
		if !known {
			refused = errs.Newf(errs.Invalid, "The calls are not JSON, or larger than %d bytes.", maxBatch)
		}
		httpapi.Fail(w, refused)
		return
	}
	b := e.ask(body.Calls, in.held)
	select {
	case <-b.done:
	case <-r.Context().Done():
		return // the program is gone
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"results": b.results}) // a program that is gone
}

// ask takes calls of the program, whose request had so many bytes. Those that
// cannot be asked for are answered at once.
func (e *exchange) ask(calls []programCall, held int64) *batch {
	b := &batch{calls: calls, results: make([]programResult, len(calls)), held: held, done: make(chan struct{})}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, c := range calls {
		e.calls++
		switch {
		case !e.tools[c.Name]:
			b.fail(i, fmt.Sprintf("Tool %q was not given to this program.", c.Name))
		case e.calls > e.limits.MaxCalls:
			b.fail(i, fmt.Sprintf("The program made more than %d calls.", e.limits.MaxCalls))
		default:
			b.open++
		}
	}
	if b.open == 0 {
		e.answer(b)
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

// linger waits for more calls of programs that cannot send them together.
func (e *exchange) linger(finished <-chan struct{}) {
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
		case <-finished:
			return
		}
	}
}

// number gives the calls that wait their ids.
func (e *exchange) number() []AskedCall {
	e.round.asked = map[string]place{}
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
			e.round.asked[id] = place{b, i}
			calls = append(calls, AskedCall{ID: id, Name: c.Name, Input: c.Input})
		}
	}
	e.waiting = nil
	return calls
}

// wait ends the program when nobody continues it in time.
func (e *exchange) wait() {
	round := e.round.number
	e.round.idle = time.AfterFunc(e.limits.Idle, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.round.number == round && !e.round.continuing {
			e.cancel(errIdle)
		}
	})
}

// claim takes the results of a round, once. After it the round's token is
// used; an error leaves everything as it was. It reports false for a program
// that has ended or is being ended: it gets no results any more, and the answer
// is how it ended.
func (e *exchange) claim(round int, results []ToolResult) (alive bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case round < e.round.number:
		return false, ErrTokenUsed.Do("Send the continuation_token of the last answer.")
	case e.round.continuing:
		return false, ErrContinuing.Do("Wait for the answer to that request.")
	case e.over || e.ctx.Err() != nil:
		return false, nil
	}
	size, err := e.check(results)
	if err != nil {
		return false, err
	}
	e.round.continuing, e.round.claimed = true, size
	e.state += size
	e.round.idle.Stop()
	return true, nil
}

// answered remembers what the continuation of a round was answered, and again returns
// it for the same one.
func (e *exchange) answered(a answer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if a.held() <= maxAnswer {
		e.last = a
	}
}

func (e *exchange) again(round int, results [sha256.Size]byte) (Reply, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last.reply, e.last.round == round && e.round.number == round+1 && !e.round.continuing && e.last.results == results
}

// check refuses results that do not answer the round, one for each call.
func (e *exchange) check(results []ToolResult) (size int64, err error) {
	limit := e.limits
	seen := map[string]bool{}
	for _, r := range results {
		if _, ok := e.round.asked[r.CallID]; !ok || seen[r.CallID] {
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
	for id := range e.round.asked {
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
func (e *exchange) unclaim() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state -= e.round.claimed
	e.round.continuing = false
	e.wait()
}

// made is how many calls the caller was asked for.
func (e *exchange) made() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.numbered
}

// deliver gives the program its results, unless it was ended since they were
// claimed.
func (e *exchange) deliver(results []ToolResult) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx.Err() != nil {
		return
	}
	for _, r := range results {
		at, ok := e.round.asked[r.CallID]
		if !ok {
			continue
		}
		if r.Failed {
			at.batch.fail(at.index, r.Error)
		} else {
			at.batch.results[at.index] = programResult{Result: r.Result}
		}
		if at.batch.open--; at.batch.open == 0 {
			e.answer(at.batch)
		}
	}
	e.round.asked = nil
}

// due reports whether calls wait that the caller can be asked for. It ends a
// program that paused too often.
func (e *exchange) due() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.waiting) == 0 || e.over || e.ctx.Err() != nil {
		return false
	}
	if e.round.number == e.limits.MaxRounds {
		e.cancel(errRounds)
		return false
	}
	return true
}

// begin begins a round with the calls that wait. It reports false when the
// program has ended, or is being ended.
func (e *exchange) begin() (number int, calls []AskedCall, begun bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over || e.ctx.Err() != nil {
		return 0, nil, false
	}
	calls = e.number()
	e.round.number++
	e.round.continuing = false
	e.wait()
	return e.round.number, calls, true
}

// close notes that nothing of the program runs any more, and reports whether
// somebody may still come for its reply, or waits for it after a pause.
func (e *exchange) close() (awaited bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	if e.round.idle != nil {
		e.round.idle.Stop()
	}
	return e.round.number > 0
}

// closed reports whether close was called.
func (e *exchange) closed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.over
}
