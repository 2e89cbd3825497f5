package live

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/modules/agent/loop"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/tool/approval"
)

// Tools execute and record calls.
type Tools interface {
	ExecuteForModel(ctx context.Context, a actor.Actor, r run.Run, m tool.ModelCall) (record.Call, record.Answer, error)
	ContinueForModel(ctx context.Context, a actor.Actor, callID string, leave error) (record.Answer, error)
	Perform(ctx context.Context, a actor.Actor, r run.Run, m tool.ModelCall, work func(ctx context.Context) record.Answer) (record.Call, record.Answer, error)
}

// Calls executes the calls of a run's model and records them, under the ids at
// which they were shown, with what the model was given of each.
type Calls struct {
	tools   Tools
	writer  *Writer
	actor   actor.Actor
	offered atomic.Pointer[loop.Tools]
	// Approval is when calls wait for a person, at least. It is set before the first
	// call.
	Approval approval.Level
	// Leave is why the run ends here and goes on in another process, which makes the
	// calls then that wait for a person. It is set before the first call.
	Leave error
}

// NewCalls records the calls of the run that a writer shows, also those whose
// answers break off.
func NewCalls(tools Tools, w *Writer, a actor.Actor) *Calls {
	c := &Calls{tools: tools, writer: w, actor: a}
	w.Abandoned = func(ctx context.Context, call loop.Call, shown record.Shown) {
		c.refuse(ctx, call, shown, loop.Refusal{Reason: "not executed: the model's answer broke off while it wrote the call."})
	}
	return c
}

// Offer says which tools the model has from now on.
func (c *Calls) Offer(tools *loop.Tools) { c.offered.Store(tools) }

// Shown is how a call was shown while the model wrote it.
func (c *Calls) Shown(call loop.Call) record.Shown { return c.writer.ShownAs(call.ID) }

// Given records what the model is given of a call, and under which id all of it
// is kept.
func (c *Calls) Given(ctx context.Context, call loop.Call, id, text string) {
	call.Recorded(id)
	c.writer.Given(ctx, id, text)
}

// Execute calls a tool of a toolset, as the model was shown it.
func (c *Calls) Execute(ctx context.Context, call loop.Call, t loop.Tool) (string, error) {
	made, answer, err := c.tools.ExecuteForModel(ctx, c.actor, c.writer.run, tool.ModelCall{
		Shown: c.Shown(call), Toolset: t.Toolset, Tool: t.Method, Arguments: call.Arguments, Name: call.Name, Schema: t.Schema, Approval: c.Approval, Leave: c.Leave,
	})
	if errors.Is(err, approval.ErrLeft) {
		return "", loop.ErrLeft
	}
	if f, ok := errors.AsType[*tool.Failure](err); ok && f.Code == tool.CodeInvalidArguments {
		return "", loop.Refusal{Kind: loop.WrongArguments, Reason: f.Message}
	}
	if err != nil {
		return "", err
	}
	return c.answered(ctx, call, made.CallID, answer)
}

// Continue makes a call of a toolset that another process made wait for a person.
func (c *Calls) Continue(ctx context.Context, call loop.Call, callID string) (string, error) {
	answer, err := c.tools.ContinueForModel(ctx, c.actor, callID, c.Leave)
	if errors.Is(err, approval.ErrLeft) {
		return "", loop.ErrLeft
	}
	if err != nil {
		return "", err
	}
	return c.answered(ctx, call, callID, answer)
}

// answered is what the model is given of a call of a toolset.
func (c *Calls) answered(ctx context.Context, call loop.Call, callID string, answer record.Answer) (string, error) {
	if answer.Status != record.Success {
		c.Given(ctx, call, callID, answer.Error)
		return string(answer.Data), errors.New(answer.Error)
	}
	c.Given(ctx, call, callID, string(answer.Data))
	return string(answer.Data), nil
}

// Perform does the work of a tool that the server is itself.
func (c *Calls) Perform(ctx context.Context, call loop.Call, toolset, name string, work func(ctx context.Context) record.Answer) (string, error) {
	made, answer, err := c.tools.Perform(ctx, c.actor, c.writer.run, tool.ModelCall{
		Shown: c.Shown(call), Toolset: toolset, Tool: name, Arguments: call.Arguments,
	}, work)
	if err != nil {
		return "", err
	}
	if answer.Status != record.Success {
		c.Given(ctx, call, made.CallID, answer.Error)
		return "", errors.New(answer.Error)
	}
	text := Words(answer.Data)
	c.Given(ctx, call, made.CallID, text)
	return text, nil
}

// Words is a text as it is, and anything else as JSON.
func Words(data json.RawMessage) string {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return text
	}
	return string(data)
}

// Refused records a call of an answer that was not executed.
func (c *Calls) Refused(ctx context.Context, call loop.Call, r loop.Refusal) {
	c.refuse(ctx, call, c.Shown(call), r)
}

// refuse records a call that was not executed, with the reason: it begins and
// fails, as the user saw it begin, also when the run is being ended.
func (c *Calls) refuse(ctx context.Context, call loop.Call, shown record.Shown, r loop.Refusal) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	m := tool.ModelCall{Shown: shown, Tool: nameable(call.Name), Arguments: call.Arguments}
	if t, known := c.offered.Load().Find(call.Name); known {
		m.Toolset, m.Tool = t.Toolset, t.Method
	}
	made, _, err := c.tools.Perform(ctx, c.actor, c.writer.run, m, func(context.Context) record.Answer {
		return record.Refuse(codeOf(r.Kind), r.Reason)
	})
	if err != nil {
		// The model is told all the same. One that was recorded before it failed
		// is here, too.
		c.writer.deps.Logger.WarnContext(ctx, "a refused call is not recorded", "resultId", c.writer.run.ResultID, "error", err)
		return
	}
	c.writer.Given(ctx, made.CallID, r.Reason)
}

func codeOf(kind loop.RefusalKind) string {
	switch kind {
	case loop.UnknownTool:
		return tool.CodeMethodNotFound
	case loop.WrongArguments:
		return tool.CodeInvalidArguments
	}
	return tool.CodeNotExecuted
}

// nameable is a name that a model made up as the record takes it.
func nameable(name string) string {
	name = strings.ReplaceAll(strings.ToValidUTF8(name, "\uFFFD"), "\x00", "\uFFFD")
	for len(name) > model.MaxToolName {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	return name
}
