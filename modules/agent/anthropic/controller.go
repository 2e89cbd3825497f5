package anthropic

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/agent/anthropic/answer"
	"github.com/portico-run/portico/modules/agent/anthropic/messages"
	"github.com/portico-run/portico/modules/agent/anthropic/wire"
	"github.com/portico-run/portico/modules/agent/dialogue"
)

// headers describes those that the operations know.
type headers struct {
	Version string `header:"anthropic-version" doc:"Any version; the answers are the same"`
	Beta    string `header:"anthropic-beta" doc:"Ignored"`
}

// retries is the header in which the vendor's clients count how often they sent a
// request before.
const retries = "X-Stainless-Retry-Count"

func write(w http.ResponseWriter, body any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(body)
}

func (m *Module) create(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	var raw json.RawMessage
	if err := httpapi.ReadJSON(r, &raw); err != nil {
		return err
	}
	asked, err := m.reader.Read(r.Context(), who, raw)
	if err != nil {
		return err
	}
	asked.Sent = sent(r)
	t, err := m.deps.Dialogues.Begin(r.Context(), who, asked.Request)
	if err != nil {
		return settled(w, wire.Of(err))
	}
	asked.View.ID = t.Begun().ID
	if asked.Stream {
		return m.stream(w, r, asked, t)
	}
	ran := asked.Continue != nil
	for e := range t.Events(r.Context()) {
		ran = ran || runs(e)
	}
	said, err := t.Answer(r.Context())
	if err != nil {
		return final(w, ran, err)
	}
	dialogue.TellCompacted(w.Header(), said.Compacted)
	if err := write(w, asked.View.Reply(said)); err != nil {
		return err
	}
	t.Delivered()
	return nil
}

// sent is what a client says of a request: docs/wire/anthropic.md#transport.
func sent(r *http.Request) dialogue.Sent {
	switch r.Header.Get(retries) {
	case "":
		return ""
	case "0":
		return dialogue.SentFirst
	}
	return dialogue.SentAgain
}

// settled says that sending a request again changes nothing: the vendor's clients try
// conflicts again.
func settled(w http.ResponseWriter, err error) error {
	return final(w, errs.CodeOf(err) == errs.Conflict, err)
}

// final is an error after tools may have run, where ran says so: the request is not to be
// sent again.
func final(w http.ResponseWriter, ran bool, err error) error {
	if ran {
		w.Header().Set(shouldRetry, "false")
	}
	return wire.Of(err)
}

// runs reports whether a step is of something that has effects.
func runs(e dialogue.Event) bool {
	switch e.Part.(type) {
	case dialogue.Program, dialogue.Output:
		return true
	}
	return false
}

// stream writes an answer while it comes. What goes wrong before its first words is
// answered with a status.
func (m *Module) stream(w http.ResponseWriter, r *http.Request, asked messages.Asked, t dialogue.Turn) error {
	ctx, leave := context.WithCancel(r.Context())
	defer leave()
	events := make(chan dialogue.Event)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(events)
		for e := range t.Events(ctx) {
			select {
			case events <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() {
		leave()
		<-ended
	}()
	early, open := first(events)
	if !open {
		if _, err := t.Answer(ctx); err != nil {
			return final(w, asked.Continue != nil, err)
		}
	}
	dialogue.TellCompacted(w.Header(), t.Begun().Compacted)
	out, streaming, err := m.streams.Open(w, r, []byte("event: ping\ndata: {\"type\":\"ping\"}\n\n"))
	if err != nil {
		return err
	}
	defer out.Close()
	err = follow(streaming, answer.NewStream(asked.View, out), followed{t, early, events}) //nolint:contextcheck // it is that of the request
	if err != nil {
		// The end of a stream that is not whole must not look like one that is.
		panic(http.ErrAbortHandler)
	}
	return nil
}

// first waits for the first step that is worth an answer, but no longer than a stream may
// be silent. It returns what came, and whether more can.
func first(events <-chan dialogue.Event) (early []dialogue.Event, open bool) {
	silence := time.NewTimer(answer.Quiet)
	defer silence.Stop()
	for {
		select {
		case e, more := <-events:
			if !more {
				return early, false
			}
			early = append(early, e)
			if e.Part != nil || e.Delta != nil {
				return early, true
			}
		case <-silence.C:
			return early, true
		}
	}
}

// followed is an answer that comes.
type followed struct {
	dialogue.Turn

	early  []dialogue.Event // that came already
	events <-chan dialogue.Event
}

// follow writes what came early and what comes, and the end, or why there is none.
func follow(ctx context.Context, s *answer.Stream, f followed) error {
	if err := s.Begin(f.early); err != nil {
		return err
	}
	for e := range f.events {
		if err := s.Step(e); err != nil {
			return err
		}
	}
	said, err := f.Answer(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return s.Fail(wire.Of(err), httpapi.TraceID(ctx))
	}
	if err := s.End(said); err != nil {
		return err
	}
	f.Delivered()
	return nil
}

// tokenCountBody is how many tokens a request has.
type tokenCountBody struct {
	InputTokens int64           `json:"input_tokens"`
	Portico     tokenCountExtra `json:"portico"`
}

type tokenCountExtra struct {
	Exact bool `json:"exact" doc:"Whether the provider counted; otherwise it is an estimate"`
}

func (m *Module) count(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	var raw json.RawMessage
	if err := httpapi.ReadJSON(r, &raw); err != nil {
		return err
	}
	asked, err := m.reader.ReadCount(r.Context(), who, raw)
	if err != nil {
		return err
	}
	counted, compacted, err := m.deps.Dialogues.Count(r.Context(), who, asked.Request)
	if err != nil {
		return wire.Of(err)
	}
	dialogue.TellCompacted(w.Header(), compacted)
	return write(w, tokenCountBody{InputTokens: counted.Tokens, Portico: tokenCountExtra{counted.Exact}})
}
