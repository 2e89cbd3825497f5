package dialogue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/model/named"
)

// work is the work on one request of a conversation.
type work struct {
	*conversation

	said     Answer
	requests int
	final    bool // the model has no calls
}

// run works until the answer is there.
func (c *conversation) run(ctx context.Context, with *Continue) (Answer, error) {
	w := work{conversation: c, said: Answer{Model: c.model, Compacted: c.left}}
	err := w.loop(ctx, with)
	if w.ran {
		w.said.Session, w.said.Expires = c.session, c.until
		if len(c.calls) > 0 {
			w.said.Expires = c.service.deps.DB.Now().Add(c.service.deps.Settings.Idle)
		}
	}
	return w.said, ended(ctx, err)
}

func (w *work) loop(ctx context.Context, with *Continue) error {
	if with != nil {
		if err := w.take(ctx, with); err != nil {
			w.rejected = true
			return err
		}
	}
	for {
		if err := w.drive(ctx); err != nil {
			return err
		}
		if len(w.calls) > 0 {
			w.said.Stop = StopCalls
			w.settleDirect()
			return nil
		}
		if w.final {
			return nil
		}
		w.items = append(append(w.items, w.answer.outputs...), w.more...)
		w.answer, w.more, w.moreBefore = answered{}, nil, 0
		if w.requests == w.service.deps.Settings.Requests {
			w.said.Stop = StopPause
			return nil
		}
		if err := w.ask(ctx); err != nil {
			return err
		}
	}
}

// settleDirect lets go of a conversation in which nothing but the client is to go on
// with, and that it can send again as it is.
func (w *work) settleDirect() {
	if len(w.answer.queue) == 0 && !(w.ran && w.req.Programs.Hidden) {
		clear(w.calls)
	}
}

func (w *work) tell(p Part) {
	w.said.Parts = append(w.said.Parts, p)
	w.turn.tell(Event{Part: p})
}

// ask sends one request to the model and shows its answer.
func (w *work) ask(ctx context.Context) error {
	s := w.service.deps
	if err := w.admit(ctx, w.model); err != nil {
		return err
	}
	asked, err := w.question(ctx)
	if err != nil {
		return err
	}
	asked.Admit = w.admit
	w.turn.tell(Event{Asked: &Asked{Model: w.model}})
	if asked.Choice.Demands() { // of the first answer only
		w.req.Choice = model.Choice{}
	}
	got, err := s.Model.Respond(ctx, asked, w.heard)
	w.requests++
	if err != nil && got.Ended != model.Refused {
		return refusedBy(err)
	}
	if err := w.charge(ctx, got); err != nil {
		return err
	}
	w.said.Model = got.Name
	w.items = append(w.items, got.Output...)
	return w.show(ctx, got)
}

// admit refuses a model that is not free when nothing is left of what may be spent.
func (w *work) admit(ctx context.Context, name string) error {
	s := w.service.deps
	if s.Settings.Price(name).Free() {
		return nil
	}
	return s.Billing.AdmitModel(ctx, w.who.UID, "", 0)
}

// heard passes a piece of an answer on.
func (w *work) heard(d model.Delta) {
	switch d.Kind {
	case model.Text, model.Reasoning:
		w.turn.tell(Event{Delta: &Delta{Thought: d.Kind == model.Reasoning, Text: d.Text}})
	case model.Restart:
		w.turn.tell(Event{Restart: true})
	}
}

// refusedBy is the error for a client of a model that gave no answer.
func refusedBy(err error) error {
	refused, ok := errors.AsType[*model.Error](err)
	if !ok {
		return err
	}
	code := errs.Unavailable
	switch {
	case refused.Status == 429:
		code = errs.RateLimited
	case refused.Status == 400 || refused.Status == 413 || refused.Status == 422:
		code = errs.Invalid
	}
	message := refused.Message
	if message == "" {
		message = "It gives no reason."
	}
	return errs.New(code, "The model does not answer.").Do(message).With(err)
}

// charge has the user pay for an answer.
func (w *work) charge(ctx context.Context, got model.Response) error {
	w.said.Usage.Add(got.Usage)
	used := price.Used{Input: got.Usage.Input, Cached: got.Usage.InputDetails.Cached, Written: got.Usage.InputDetails.Written, Output: got.Usage.Output}
	cost := w.service.deps.Settings.Price(got.Name).Of(used)
	if cost <= 0 {
		return nil
	}
	w.said.Credits += min(cost, money.Max-w.said.Credits)
	ctx = context.WithoutCancel(ctx) // it was used, whoever has gone
	return w.service.deps.DB.InTx(ctx, func(tx database.Tx) error {
		return w.service.deps.Billing.ChargeModel(ctx, tx, billing.ModelCharge{
			UID: w.who.UID, Model: got.Model, Input: used.Input, Cached: used.Cached, Written: used.Written, Output: used.Output, Price: cost,
		})
	})
}

// show shows an answer, and begins with its calls.
func (w *work) show(ctx context.Context, got model.Response) error {
	writer := got.Name
	w.answer = answered{}
	for _, raw := range got.Output {
		if by := named.MarkedBy(raw); by != "" {
			writer = by
			continue
		}
		shown, calls, err := parts(writer, raw)
		if err != nil {
			return err
		}
		for _, p := range shown {
			w.tell(p)
		}
		for _, c := range calls {
			w.answer.calls = append(w.answer.calls, c)
			w.answer.outputs = append(w.answer.outputs, nil)
		}
	}
	w.said.Stop, w.said.StopText = stopOf(got)
	if w.said.Stop != StopEnd { // calls of an answer that is cut are not executed
		if len(w.answer.calls) > 0 {
			w.items = w.items[:len(w.items)-len(got.Output)]
		}
		w.answer, w.final = answered{}, true
		return nil
	}
	for i, c := range w.answer.calls {
		w.begin(ctx, i, c)
	}
	w.final = len(w.answer.calls) == 0
	return nil
}

// begin begins with one call of the model's.
func (w *work) begin(ctx context.Context, i int, c model.Call) {
	output := func(text string) { w.answer.outputs[i] = model.FailedOutput(c.ID, text) }
	fitted := w.fitted[c.Name]
	own, ours := w.ownTool(c.Name)
	_, theirs := w.tool(c.Name)
	runs := c.Name == RunCode && w.req.Programs != nil
	switch {
	case !ours && !theirs && !runs:
		output(w.unknown(c.Name))
		return
	case w.calls[c.ID] != nil:
		output("Error: not executed, because another call has the same id. Call it again.")
		return
	case w.req.OneByOne && i > 0:
		output("Error: not executed, because tools are called one at a time here. Call it again alone.")
		return
	}
	arguments, err := fitted.Arguments(c.Arguments)
	if err != nil {
		output(fmt.Sprintf("Error: %s was not executed: its arguments are not a JSON object.", c.Name))
		return
	}
	switch {
	case runs:
		w.queue(i, c, arguments)
	case ours:
		w.execute(ctx, i, c, own, arguments)
	default:
		w.calls[c.ID] = &asked{index: i}
		w.tell(Call{ID: c.ID, Name: c.Name, Arguments: arguments})
	}
}

// queue takes a program in. Programs of one answer run one after the other.
func (w *work) queue(i int, c model.Call, arguments json.RawMessage) {
	var in struct{ Code string }
	if json.Unmarshal(arguments, &in) != nil || in.Code == "" {
		w.answer.outputs[i] = model.FailedOutput(c.ID, "Error: code must be a text with a program.")
		return
	}
	p := &running{Program: Program{ID: c.ID, Code: in.Code}, index: i}
	w.answer.queue = append(w.answer.queue, p)
	w.tell(p.Program)
}

// execute executes a call of a tool of the server's own.
func (w *work) execute(ctx context.Context, i int, c model.Call, t OwnTool, arguments json.RawMessage) {
	w.tell(OwnCall{ID: c.ID, Name: c.Name, Arguments: arguments})
	got, err := t.Run(ctx, arguments)
	out := OwnOutput{ID: c.ID, Name: c.Name, Result: got}
	if err != nil {
		out.Failed = errs.Message(err)
		w.answer.outputs[i] = model.FailedOutput(c.ID, "Error: "+out.Failed)
	} else {
		w.answer.outputs[i] = model.Output(c.ID, got.Text)
	}
	for _, name := range got.Loads {
		w.loaded[name] = true
	}
	w.tell(out)
}

// stopOf is why an answer of the model's ends.
func stopOf(got model.Response) (stop Stop, text string) {
	switch got.Ended {
	case model.Stopped:
		return StopSequence, got.Stop
	case model.Length, model.Cut:
		return StopLength, ""
	case model.ContextFull:
		return StopContext, ""
	case model.Filtered, model.Refused:
		return StopRefusal, ""
	case model.Paused:
		return StopPause, ""
	}
	return StopEnd, ""
}
