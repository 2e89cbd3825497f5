package chat

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/agent/openai/failure"
	"github.com/portico-run/portico/modules/agent/openai/made"
	"github.com/portico-run/portico/modules/agent/openai/offer"
)

// creation is one request for a completion.
type creation struct {
	body    ChatRequest
	head    Completion // what the whole and each chunk begin with
	request dialogue.Request
}

// create answers POST /v1/chat/completions.
func (s *Service) create(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	c, err := s.read(r, who)
	if err != nil {
		return err
	}
	turn, err := s.deps.Dialogues.Begin(r.Context(), who, c.request)
	if err != nil {
		return failure.Of(err, programCall)
	}
	if c.body.Stream {
		return s.stream(w, r, c, turn) //nolint:contextcheck // the request has it
	}
	answer, err := turn.Answer(r.Context())
	if err != nil {
		if c.request.Programs != nil || c.request.Continue != nil {
			w.Header().Set("X-Should-Retry", "false") // programs may have called tools
		}
		return failure.Of(err, programCall)
	}
	text, err := s.memory.Of(who.UID, turn).Make(func() ([]byte, error) {
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		err := encoder.Encode(whole(c.head, answer))
		return text.Bytes(), err
	})
	if err != nil {
		return err
	}
	dialogue.TellCompacted(w.Header(), answer.Compacted)
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(text); err == nil { // else the client is gone
		turn.Delivered()
	}
	return nil
}

// read reads a request.
func (s *Service) read(r *http.Request, who actor.Actor) (creation, error) {
	var c creation
	digest, err := made.Body(r, "chat", &c.body)
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
	offered, err := s.offer(r, who, c.body) //nolint:contextcheck // the request has it
	if err != nil {
		return c, err
	}
	list, err := messages(c.body.Messages)
	if err != nil {
		return c, err
	}
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return c, err
	}
	goesOn, err := s.continues(r.Context(), who, list)
	if err != nil {
		return c, failure.Of(err, programCall)
	}
	c.head = Completion{
		ID: "chatcmpl-" + hex.EncodeToString(id[:]), Object: "chat.completion", Created: s.deps.Now().Unix(), Model: cmp.Or(c.body.Model, who.Model, s.deps.Settings.First),
	}
	c.request = dialogue.Request{
		Model: c.body.Model, Tools: offered.Tools, Programs: offered.Programs, Choice: offered.Choice, Options: options,
		OneByOne: c.body.Parallel != nil && !*c.body.Parallel, Continue: goesOn,
		Sent: made.Sent(r), Digest: digest,
	}
	if c.request.Continue == nil {
		var rest []message
		c.request.System, rest = leading(list)
		c.request.Items = items(rest)
	}
	return c, nil
}

// offer is what the request offers the model. With run_code all functions are called by
// programs, too, and the client is not shown programs.
func (s *Service) offer(r *http.Request, who actor.Actor, b ChatRequest) (offer.Offer, error) {
	tools, programs, err := b.tools()
	if err != nil {
		return offer.Offer{}, err
	}
	choice, err := b.choice(programs)
	if err != nil {
		return offer.Offer{}, err
	}
	out, err := offer.Read(offer.In{
		Tools: tools, Choice: choice, Portico: b.Portico, Most: s.deps.Settings.MaxTools, Within: ".function",
		Usable: func() ([]string, error) { return s.deps.Toolsets.Usable(r.Context(), who) },
	})
	if out.Programs != nil {
		out.Programs.Hidden, out.Programs.Asks = true, false
	}
	return out, err
}

// continues is what the newest results answer that waits; nil where nothing does. Calls
// of programs are known by their ids: where their program is gone, that is an error.
func (s *Service) continues(ctx context.Context, who actor.Actor, list []message) (*dialogue.Continue, error) {
	results, after := newest(list)
	ids := make([]string, len(results))
	waits := false
	for i, m := range results {
		var ofProgram bool
		ids[i], ofProgram = strings.CutPrefix(m.CallID, programCall)
		waits = waits || ofProgram
	}
	if len(ids) > 0 && !waits {
		var err error
		if waits, err = s.deps.Dialogues.Waits(ctx, who, ids); err != nil {
			return nil, err
		}
	}
	if !waits {
		return nil, nil //nolint:nilnil // nothing goes on, and nothing is wrong
	}
	c := &dialogue.Continue{More: items(after)}
	for i, m := range results {
		text := m.text()
		value, _ := json.Marshal(text) // texts always marshal
		c.Results = append(c.Results, dialogue.Result{CallID: ids[i], As: m.CallID, Value: valueOf(text, value), Text: text})
	}
	return c, nil
}

// valueOf is what a program gets of a result: the value that its JSON says, or else the
// text. Chat Completions has no word for which of them is meant.
func valueOf(text string, quoted json.RawMessage) json.RawMessage {
	if trimmed := strings.TrimSpace(text); json.Valid([]byte(trimmed)) {
		return json.RawMessage(trimmed)
	}
	return quoted
}
