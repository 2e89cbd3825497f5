package responses

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/agent/openai/failure"
	"github.com/portico-run/portico/modules/agent/openai/history"
	"github.com/portico-run/portico/modules/agent/openai/made"
	"github.com/portico-run/portico/modules/agent/openai/offer"
	"github.com/portico-run/portico/modules/agent/openai/stored"
	"github.com/portico-run/portico/modules/model"
)

// creation is one request for a response.
type creation struct {
	body     ResponseRequest
	identity string // random; that of the response and its items
	input    []json.RawMessage
	offer    offer.Offer
	request  dialogue.Request
	silent   string // the program that waits, where the client answers nothing of it
}

// create answers POST /v1/responses.
func (s *Service) create(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	c, err := s.read(r, who)
	if err != nil {
		return err
	}
	turn, err := s.begin(r.Context(), who, c)
	if err != nil {
		return failure.Of(err, history.CallPrefix)
	}
	out := &output{identity: c.identity, user: who, offer: c.offer, seals: s.deps.Seals, most: s.deps.Settings.Output, tell: func(event) {}}
	if c.body.Stream {
		return s.stream(w, r, answering{c, turn, out, who}) //nolint:contextcheck // the request has it
	}
	answer, err := turn.Answer(r.Context())
	if err != nil {
		once(w, c.request, answer)
		return failure.Of(err, history.CallPrefix)
	}
	text, err := s.memory.Of(who.UID, turn).Make(func() ([]byte, error) { //nolint:contextcheck // the request has it
		for _, p := range answer.Parts {
			out.part(p)
		}
		out.flush()
		s.remember(who, answer)
		now := s.deps.Now().Unix()
		return s.keep(r.Context(), who, c, s.begun(c, who, now).ended(answer, out.items, now))
	})
	if err != nil {
		once(w, c.request, answer)
		return err
	}
	dialogue.TellCompacted(w.Header(), answer.Compacted)
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(text); err == nil { //nolint:gosec // it is JSON, and says so; else the client is gone
		turn.Delivered()
	}
	return nil
}

// begin begins to work on a request, or finds what it is answered already.
func (s *Service) begin(ctx context.Context, who actor.Actor, c creation) (dialogue.Turn, error) {
	if c.silent == "" {
		return s.deps.Dialogues.Begin(ctx, who, c.request)
	}
	waiting := s.memory.Waiting(who.UID, c.silent)
	if waiting == nil {
		if _, err := s.deps.Dialogues.Waits(ctx, who, []string{c.silent}); err != nil {
			return nil, err
		}
		return nil, dialogue.ErrCallGone.Do("The program has ended, or has expired. Begin the conversation anew.")
	}
	return &asking{rand.Text(), waiting}, nil
}

// remember keeps which approvals a program waits for: a client may ask again without
// them.
func (s *Service) remember(who actor.Actor, a dialogue.Answer) {
	waiting := map[string][]dialogue.Approval{}
	for _, p := range a.Parts {
		if one, ok := p.(dialogue.Approval); ok {
			waiting[one.Program] = append(waiting[one.Program], one)
		}
	}
	for program, list := range waiting {
		s.memory.Wait(who.UID, program, list, a.Expires)
	}
}

// asking is the answer to a client that answers nothing: the same approvals once more.
type asking struct {
	id        string
	approvals []dialogue.Approval
}

// Begun implements dialogue.Turn.
func (a *asking) Begun() dialogue.Begun { return dialogue.Begun{ID: a.id} }

// Events implements dialogue.Turn.
func (a *asking) Events(context.Context) iter.Seq[dialogue.Event] {
	return func(yield func(dialogue.Event) bool) {
		for _, one := range a.approvals {
			if !yield(dialogue.Event{Part: one}) {
				return
			}
		}
	}
}

// Answer implements dialogue.Turn.
func (a *asking) Answer(context.Context) (dialogue.Answer, error) {
	out := dialogue.Answer{Stop: dialogue.StopCalls}
	for _, one := range a.approvals {
		out.Parts = append(out.Parts, one)
	}
	return out, nil
}

// Delivered implements dialogue.Turn.
func (*asking) Delivered() {}

// once keeps clients from sending a request again whose programs may have called tools.
func once(w http.ResponseWriter, req dialogue.Request, a dialogue.Answer) {
	began := req.Continue != nil
	for _, p := range a.Parts {
		if _, ok := p.(dialogue.Program); ok {
			began = true
		}
	}
	if began {
		w.Header().Set("X-Should-Retry", "false")
	}
}

// keep stores a response, unless the client asked for the opposite, and returns it as it
// goes out.
func (s *Service) keep(ctx context.Context, who actor.Actor, c creation, body Response) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		return nil, fmt.Errorf("a response: %w", err)
	}
	answer := bytes.TrimSpace(text.Bytes())
	if !body.Store {
		return answer, nil
	}
	err := s.deps.Stored.Save(ctx, who, stored.Response{ID: body.ID, Previous: c.body.Previous, Input: c.input, Answer: answer})
	return answer, err
}

// read reads a request.
func (s *Service) read(r *http.Request, who actor.Actor) (creation, error) {
	var c creation
	digest, err := made.Body(r, "responses", &c.body)
	if err != nil {
		return c, err
	}
	if err := c.body.check(); err != nil {
		return c, err
	}
	options, err := c.body.options()
	if err != nil {
		return c, err
	}
	identity, err := random()
	if err != nil {
		return c, err
	}
	c.identity = identity
	before, err := s.before(r.Context(), who, &c)
	if err != nil {
		return c, err
	}
	c.offer, err = offer.Read(offer.In{
		Tools: c.body.Tools, Choice: c.body.Choice, Portico: c.body.Portico, Most: s.deps.Settings.MaxTools,
		Usable: func() ([]string, error) { //nolint:contextcheck // the request has it
			return s.deps.Toolsets.Usable(r.Context(), who)
		},
	})
	if err != nil {
		return c, err
	}
	conversation, err := s.conversation(r.Context(), who, &c, before)
	if err != nil {
		return c, err
	}
	c.silent = conversation.Silent
	c.request = dialogue.Request{
		Model: c.body.Model, System: c.body.Instructions, Items: conversation.Items, Tools: texts(c.offer.Tools), Programs: c.offer.Programs,
		Choice: c.offer.Choice, Options: options, OneByOne: c.body.Parallel != nil && !*c.body.Parallel, Continue: conversation.Continue,
		Sent: made.Sent(r), Digest: digest,
	}
	return c, nil
}

func random() (string, error) {
	var b [16]byte
	_, err := rand.Read(b[:])
	return hex.EncodeToString(b[:]), err
}

// before are the items of the stored conversation that a request goes on from. A
// request that brings no tools has those of the response before, whose calls it may
// answer.
func (s *Service) before(ctx context.Context, who actor.Actor, c *creation) ([]json.RawMessage, error) {
	if c.body.Previous == "" {
		return nil, nil
	}
	chain, err := s.deps.Stored.Chain(ctx, who, c.body.Previous)
	switch {
	case errors.Is(err, stored.ErrMissing):
		return nil, failure.New(errs.Invalid, "previous_response_id", failure.PreviousMissing, "Previous response with id '%s' not found.", c.body.Previous)
	case errors.Is(err, stored.ErrBroken):
		return nil, failure.New(errs.Invalid, "previous_response_id", failure.PreviousMissing, "%s", stored.ErrBroken.Message).Do(stored.ErrBroken.Detail)
	case err != nil:
		return nil, failure.At("previous_response_id", err)
	}
	var items []json.RawMessage
	for _, one := range chain {
		output, err := one.Output()
		if err != nil {
			return nil, fmt.Errorf("the stored response %s: %w", one.ID, err)
		}
		items = append(append(items, one.Input...), output...)
	}
	if c.body.Tools == nil {
		var last struct {
			Tools []json.RawMessage `json:"tools"`
		}
		if err := json.Unmarshal(chain[len(chain)-1].Answer, &last); err != nil {
			return nil, err
		}
		if history.Waits(items) {
			c.body.Tools = last.Tools
		}
	}
	return items, nil
}

// conversation reads the items of a request, with those before.
func (s *Service) conversation(ctx context.Context, who actor.Actor, c *creation, before []json.RawMessage) (history.Conversation, error) {
	list, err := c.body.items()
	if err != nil {
		return history.Conversation{}, err
	}
	if list, err = s.referred(ctx, who, list); err != nil {
		return history.Conversation{}, err
	}
	read, err := history.Read(history.In{
		User: who, Before: before, Input: list, Offer: c.offer, Seals: s.deps.Seals,
		Native: s.deps.Protocol(cmp.Or(c.body.Model, who.Model)) == model.Responses,
	})
	if err != nil {
		return read, err
	}
	c.input, err = named(list, c.identity)
	return read, err
}

// texts says of functions without output_schema what programs get of them: the output
// as the text that it is: docs/wire/openai.md#tools.
func texts(tools []dialogue.Tool) []dialogue.Tool {
	tools = slices.Clone(tools)
	for i, t := range tools {
		if t.Output == nil {
			tools[i].Output = json.RawMessage(`{"type":"string"}`)
		}
	}
	return tools
}

// maxReferred is how many stored responses the items of a request may refer to.
const maxReferred = 200

// referred puts items in the place of references to them.
func (s *Service) referred(ctx context.Context, who actor.Actor, list []json.RawMessage) ([]json.RawMessage, error) {
	known := map[string]json.RawMessage{} // by id
	looked := map[string]bool{}
	out := make([]json.RawMessage, len(list))
	for i, raw := range list {
		id, ok := history.Refers(raw)
		if !ok {
			out[i] = raw
			continue
		}
		if strings.HasPrefix(id, "mcpr_") { // what it asks is known by its id alone
			known[id] = json.RawMessage(fmt.Sprintf(`{"type":"mcp_approval_request","id":%q}`, id))
		}
		if response, ours := responseOf(id); ours && !looked[response] {
			if looked[response] = true; len(looked) > maxReferred {
				return nil, failure.Invalid("input", "The items of a request may refer to %d responses.", maxReferred).Do("Send previous_response_id.")
			}
			kept, err := s.deps.Stored.Get(ctx, who, response)
			if err != nil && !errors.Is(err, stored.ErrMissing) {
				return nil, err
			}
			if err := index(known, kept); err != nil {
				return nil, err
			}
		}
		if out[i] = known[id]; out[i] == nil {
			return nil, failure.Invalid(fmt.Sprintf("input[%d].id", i), "Item with id '%s' not found.", id).Do("Items are there as long as the stored response that has them.")
		}
	}
	return out, nil
}

// index adds the items of a stored response.
func index(known map[string]json.RawMessage, r stored.Response) error {
	if r.ID == "" {
		return nil
	}
	output, err := r.Output()
	if err != nil {
		return err
	}
	for _, raw := range append(output, r.Input...) {
		var head struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(raw, &head); err != nil {
			return err
		}
		known[head.ID] = raw
	}
	return nil
}
