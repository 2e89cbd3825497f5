package dialogue

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/drain"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/model"
)

// Begin implements Dialogues.
func (s *Service) Begin(ctx context.Context, a actor.Actor, req Request) (Turn, error) {
	if s.deps.Model == nil {
		return nil, errs.New(errs.Unavailable, "This server has no model.").Do("Set MODEL_NAME or MODEL_FILE.")
	}
	s.mu.Lock()
	t := s.find(a.UID, req.Digest)
	s.mu.Unlock()
	if t != nil && req.Digest != ([32]byte{}) && t.answers(req.Sent) {
		return t, nil
	}
	if t == nil {
		if err := s.worksElsewhere(ctx, a, req); err != nil {
			return nil, err
		}
	}
	if req.Continue != nil {
		var ids []string
		for _, one := range req.Continue.named() {
			ids = append(ids, one.id)
		}
		if _, err := s.Waits(ctx, a, ids); err != nil {
			return nil, err
		}
		return s.goOn(a, req) //nolint:contextcheck // the work outlives its request
	}
	if err := drain.Admit(ctx); err != nil {
		return nil, err
	}
	c, err := s.converse(ctx, a, req)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// The same request may have begun meanwhile.
	if t := s.find(a.UID, req.Digest); t != nil && t.answers(req.Sent) {
		c.cancel(nil)
		return t, nil
	}
	begun, err := s.begin(c, req.Digest, nil) //nolint:contextcheck // the work outlives its request
	if err != nil {
		c.cancel(err)
		s.free(c)
		return nil, err
	}
	return begun, nil
}

// converse makes the conversation of a request.
func (s *Service) converse(ctx context.Context, a actor.Actor, req Request) (*conversation, error) {
	name := cmp.Or(req.Model, a.Model)
	if !s.deps.Model.Has(name) {
		return nil, ErrModelMissing.Do("GET /v1/models lists those that there are.")
	}
	c := &conversation{service: s, who: a, model: name, req: req, items: slices.Clone(req.Items), calls: map[string]*asked{}}
	if name == "" {
		c.model = s.deps.Model.Names()[0]
	}
	if req.Programs != nil {
		var err error
		if c.programs, err = s.describe(ctx, a, req); err != nil {
			return nil, err
		}
		if c.session = req.Programs.Session; c.session != "" { // before tokens are paid for
			if _, _, err := s.deps.Programs.Sessions.Touch(ctx, a, c.session); err != nil {
				return nil, gone(err)
			}
		}
		if req.Programs.Required {
			if c.req.Choice, err = model.ParseChoice([]byte(`{"type":"function","name":"` + RunCode + `"}`)); err != nil {
				return nil, err
			}
		}
	}
	if err := c.prepare(); err != nil {
		return nil, err
	}
	fits, err := c.fit()
	if err != nil {
		return nil, err
	}
	c.left = fits.left
	c.ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return c, nil
}

// begin begins to work on a conversation until its next answer. The lock is held.
func (s *Service) begin(c *conversation, digest [32]byte, with *Continue) (*turn, error) {
	if s.stopped {
		return nil, errs.New(errs.Unavailable, "The server is stopping.").Do("Send the request again.").After(time.Second).AsPlanned()
	}
	if err := s.reserve(c); err != nil {
		return nil, err
	}
	if err := s.enter(c.who.UID); err != nil {
		return nil, err
	}
	working, cancel := context.WithCancelCause(c.ctx)
	bounded, free := context.WithTimeoutCause(working, s.deps.Settings.Wall, errWall)
	t := newTurn(s.deps.Settings.Grace, c.left, cancel)
	s.remember(c.who.UID, digest, t)
	c.turn, c.works = t, true
	s.working.Go(func() {
		defer free()
		answer, err := c.run(bounded, with)
		cancel(nil)
		s.settle(c, t, answer, err)
		s.leave(c.who.UID)
	})
	return t, nil
}

// settle ends a turn. A conversation that waits for its client is kept for it, and so
// is one that the client may continue once more after an error.
func (s *Service) settle(c *conversation, t *turn, answer Answer, err error) {
	s.mu.Lock()
	c.works = false
	waits := err == nil && len(c.calls) > 0
	switch {
	case s.stopped && waits:
		err = errs.New(errs.Unavailable, "The server is stopping.").Do("Send the request again.").AsPlanned()
	case waits:
		if err = s.reserve(c); err == nil {
			s.hold(c)
		}
	case err != nil && c.rejected:
		c.rejected = false
		c.held[len(c.held)-1].turn = nil
	}
	over := errors.Is(err, ErrSessionGone) || errors.Is(err, ErrCallGone)
	if !waits && (err == nil || len(c.held) == 0 || over) || waits && err != nil {
		c.cancel(errIdle)
		s.free(c)
	}
	if c.idle != nil {
		c.idle.Reset(s.deps.Settings.Idle + rememberFor)
	}
	s.mu.Unlock()
	t.end(answer, err)
}

// hold keeps a conversation for its client.
func (s *Service) hold(c *conversation) {
	p := &pause{talk: c}
	for id, one := range c.calls {
		switch {
		case one.approval:
			p.approvals = append(p.approvals, id)
		case one.program != nil:
			p.calls = append(p.calls, id)
		default:
			p.direct = append(p.direct, id)
		}
		s.pauses[key(c.who.UID, id)] = p
	}
	c.held = append(c.held, p)
	s.talks[c] = true
	if c.idle == nil {
		c.idle = time.AfterFunc(s.deps.Settings.Idle+rememberFor, func() { s.release(c) })
	}
}

// release forgets a conversation that nobody continues.
func (s *Service) release(c *conversation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.works { // it was continued at the last moment
		return
	}
	c.cancel(errIdle)
	s.free(c)
	delete(s.talks, c)
	for _, p := range c.held {
		for _, id := range slices.Concat(p.direct, p.calls, p.approvals) {
			if k := key(c.who.UID, id); s.pauses[k] == p {
				delete(s.pauses, k)
			}
		}
	}
}

// goOn continues what waits for a client. The same results and words again get the same
// answer.
func (s *Service) goOn(a actor.Actor, req Request) (Turn, error) {
	with := req.Continue
	digest, err := sameResults(with)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.paused(a, with)
	if err != nil {
		return nil, err
	}
	if p.turn != nil {
		words, ok := p.added(with)
		answered := !p.turn.failed() || p.talk.ctx.Err() != nil
		switch {
		case p.digest != digest, !ok, answered && len(words) > 0:
			return nil, ErrOtherResults.Do("Send the results and the words after them as before, or begin anew.")
		case answered:
			return p.turn, nil
		}
		with = &Continue{More: words} // the results were taken; what came after them failed
	} else if p.talk.over() { // before a stream is open, so that clients see a status
		p.talk.cancel(errIdle)
		s.free(p.talk)
		return nil, errOver
	}
	p.talk.req.Options = req.Options
	t, err := s.begin(p.talk, req.Digest, with)
	if err != nil {
		return nil, err
	}
	p.turn, p.digest, p.more = t, digest, req.Continue.More
	return t, nil
}

// paused finds what a continuation is for.
func (s *Service) paused(a actor.Actor, with *Continue) (*pause, error) {
	var p *pause
	missing := &Missing{}
	seen := map[string]bool{}
	for _, one := range with.named() {
		found := s.pauses[key(a.UID, one.id)]
		known := found != nil && (p == nil || found == p)
		if known {
			p = found
		}
		if !known || seen[one.id] {
			missing.unknown(one)
		}
		seen[one.id] = true
	}
	if p == nil {
		if len(with.Results) == 0 {
			return nil, ErrDecisionGone.Do("The call has ended, or has expired, or the server was started anew. Begin the conversation anew.")
		}
		return nil, ErrCallGone.Do("They belong to nothing that waits: it has ended, or has expired, or the server was started anew. Begin the conversation anew.")
	}
	if with.Checked {
		switch {
		case with.Session == "":
			return nil, ErrSessionMissing
		case with.Session != p.talk.session:
			return nil, ErrSessionGone.Do("Send the id of the answer that asked for the calls.")
		}
	}
	answered := func(id string) bool {
		return slices.ContainsFunc(with.Results, func(r Result) bool { return r.CallID == id })
	}
	missing.Direct = slices.DeleteFunc(slices.Clone(p.direct), answered)
	missing.Programs = slices.DeleteFunc(slices.Clone(p.calls), answered)
	if len(missing.Direct)+len(missing.Programs)+len(missing.Unknown)+len(missing.Undecided) > 0 {
		return nil, missing
	}
	return p, nil
}

// reference is what a continuation answers.
type reference struct {
	id, as   string
	decision bool
}

func (c *Continue) named() []reference {
	var list []reference
	for _, r := range c.Results {
		list = append(list, reference{r.CallID, cmp.Or(r.As, r.CallID), false})
	}
	for _, d := range c.Decisions {
		list = append(list, reference{d.CallID, cmp.Or(d.As, d.CallID), true})
	}
	return list
}

// unknown adds what nobody asked for.
func (m *Missing) unknown(one reference) {
	if one.decision {
		m.Undecided = append(m.Undecided, one.as)
		return
	}
	m.Unknown = append(m.Unknown, one.as)
}

// ended is the error of a request whose work was ended.
func ended(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case err == nil || ctx.Err() == nil:
		return err
	case errors.Is(cause, errWall):
		return errs.New(errs.Unavailable, "The request took too long.").Do("Ask for less at once.")
	case errors.Is(cause, errIdle):
		return ErrSessionGone.Do("Nobody continued it in time. Begin the conversation anew.")
	case errors.Is(cause, errStopped):
		return errs.New(errs.Unavailable, "The server is stopping.").Do("Send the request again.").AsPlanned()
	}
	return errs.New(errs.Cancelled, "The client went away.")
}
