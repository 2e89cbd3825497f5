package responses

import (
	"cmp"
	"encoding/json"
	"net/http"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/sse"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/agent/openai/failure"
	"github.com/portico-run/portico/modules/agent/openai/history"
)

// answering is a request while it is answered.
type answering struct {
	creation
	turn dialogue.Turn
	out  *output
	who  actor.Actor
}

// events numbers events and writes them.
type events struct {
	out    *sse.Writer
	next   int
	failed error // of the first write that failed
}

func (e *events) write(one event) {
	one.Sequence = e.next
	e.next++
	text, err := json.Marshal(one)
	if err == nil && e.failed == nil {
		err = e.out.Event(one.Type, text)
	}
	if e.failed == nil {
		e.failed = err
	}
}

// stream answers with events. What fails from here on is told in one of them.
func (s *Service) stream(w http.ResponseWriter, r *http.Request, a answering) error {
	dialogue.TellCompacted(w.Header(), a.turn.Begun().Compacted)
	out, ctx, err := s.deps.Settings.Stream.Open(w, r, nil)
	if err != nil {
		return err
	}
	defer out.Close()
	e := &events{out: out}
	first := s.begun(a.creation, a.who, s.deps.Now().Unix())
	e.write(event{Type: "response.created", Response: &first})
	e.write(event{Type: "response.in_progress", Response: &first})
	a.out.tell = e.write
	for one := range a.turn.Events(ctx) {
		if a.out.take(one); e.failed != nil {
			return e.failed
		}
	}
	answer, err := a.turn.Answer(ctx)
	if ctx.Err() != nil {
		panic(http.ErrAbortHandler) // a clean end would be taken for the end of the answer
	}
	a.out.flush()
	body := first
	if err == nil {
		s.remember(a.who, answer)
		body = first.ended(answer, a.out.items, s.deps.Now().Unix())
		_, err = s.keep(ctx, a.who, a.creation, body)
	}
	if err != nil {
		body = first.broken(failure.Of(err, history.CallPrefix), a.out.items)
	}
	e.write(event{Type: "response." + body.Status, Response: &body})
	if e.failed == nil && err == nil {
		a.turn.Delivered()
	}
	return cmp.Or(e.failed, err) // for the log
}
