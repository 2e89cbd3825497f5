package dialogue

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/model/content"
)

// ErrTooLong is a conversation that the model cannot read, with all that can be left
// out left out.
var ErrTooLong = errs.New(errs.Invalid, "The prompt is too long.")

// Window is how much a model reads and writes in one request, in tokens.
type Window struct {
	Context int64 // both; 0 is not known
	Answer  int64 // of it, what an answer may have where the request does not say; 0 is not known
}

const (
	// bytesPerToken is what a token is taken for that nobody has counted: few, so that
	// the conversation rather seems too long.
	bytesPerToken = 3
	// imageTokens is what an image is taken for.
	imageTokens = 1600
	// worthRemoving is the length of an output that makes room when it is left out.
	worthRemoving = 500
	// answerShare is what is kept of the context for an answer of unknown length, and
	// mostAnswer what is kept for one that may be long.
	answerShare, mostAnswer = 8, 2
)

// sent is the conversation as the model is told it.
type sent struct {
	items   []model.Item
	left    int   // outputs that are left out
	tokens  int64 // about, with the system text and the tools
	room    int64 // for them; 0 for any
	counted bool  // tokens can be told: there are no files in it
}

// fit leaves out of a conversation what the model has no room for: the oldest outputs
// first, which programs can read again. It does so step by step, as the conversation
// grew, so that what is left out of its beginning stays the same from request to request
// and the provider's cache holds.
func (c *conversation) fit() (sent, error) {
	s := sent{items: c.items, counted: true}
	window := c.service.deps.Settings.Window(c.model)
	if window.Context == 0 {
		return s, nil
	}
	s.room = window.room(c.req.Options.MaxOutput)
	definitions, err := json.Marshal(c.definitions())
	if err != nil {
		return s, err
	}
	s.tokens = int64(len(c.programs.text)+len(c.req.System)+len(definitions)) / bytesPerToken
	outputs := c.outputs()
	oldest := 0
	for i, raw := range c.items {
		tokens, files := about(raw)
		s.tokens += tokens
		s.counted = s.counted && !files
		if s.tokens <= s.room {
			continue
		}
		for ; oldest <= i && s.tokens > s.room*3/4; oldest++ {
			o, ok := outputs[oldest]
			if !ok {
				continue
			}
			if s.left == 0 {
				s.items = slices.Clone(s.items)
			}
			shorter := c.handle(o)
			s.tokens -= int64(len(s.items[oldest])-len(shorter)) / bytesPerToken
			s.items[oldest] = shorter
			s.left++
		}
	}
	return s, nil
}

// room is what a window has beside the answer.
func (w Window) room(asked int64) int64 {
	answer := w.Answer
	if asked > 0 {
		answer = asked
	}
	if answer == 0 {
		answer = w.Context / answerShare
	}
	return w.Context - min(answer, w.Context/mostAnswer)
}

// about is how many tokens an item has, and whether there are files in it, of which
// nobody knows that.
func about(raw model.Item) (tokens int64, files bool) {
	size := int64(len(raw))
	parts, _, err := model.PartsOf(raw)
	if err != nil {
		return size / bytesPerToken, false // a model wrote it
	}
	for _, p := range parts {
		switch p.Type {
		case content.Image:
			size += imageTokens*bytesPerToken - int64(len(p.URL))
		case content.File:
			files = true
		}
	}
	return max(size, 0) / bytesPerToken, files
}

// output is one of a tool or a program, in texts alone.
type output struct {
	call, text string
	failed     bool
}

// outputs are those that can be left out, by their place among the items. Programs must
// be able to name them, so that the calls of a provider that names two alike are not among
// them.
func (c *conversation) outputs() map[int]output {
	all, places := map[int]output{}, map[string]int{}
	if c.req.Programs == nil {
		return all
	}
	for i, raw := range c.items {
		o, ok := readOutput(raw)
		if !ok {
			continue
		}
		if first, twice := places[o.call]; twice {
			delete(all, first)
			continue
		}
		places[o.call] = i
		if len(o.text) >= worthRemoving {
			all[i] = o
		}
	}
	return all
}

func readOutput(raw model.Item) (output, bool) {
	call, text, ok := model.ReadOutput(raw)
	if !ok || call == "" {
		return output{}, false
	}
	parts, failed, err := model.PartsOf(raw)
	if err != nil {
		return output{}, false
	}
	_, plain := content.Words(parts)
	return output{call, text, failed}, plain
}

// handle stands for an output that is left out.
func (c *conversation) handle(o output) model.Item {
	text := fmt.Sprintf("[This output of %d bytes is left out to make room. In a program, %s(%q) returns it as a text", len(o.text), c.programs.reader, o.call)
	if len(o.text) > mostRead {
		text += fmt.Sprintf(", %d characters at most; %s(%[3]q, %[1]d) goes on after those", mostRead, c.programs.reader, o.call)
	}
	text += ".]"
	if o.failed {
		return model.FailedOutput(o.call, text)
	}
	return model.Output(o.call, text)
}

// question is what the model is asked with next. It fails with ErrTooLong on what the
// model cannot read.
func (w *work) question(ctx context.Context) (model.Request, error) {
	s, err := w.fit()
	if err != nil {
		return model.Request{}, err
	}
	w.left = max(w.left, s.left)
	w.said.Compacted = w.left
	req := w.asking(s)
	if s.room == 0 || s.tokens <= s.room || !s.counted {
		return req, nil
	}
	// It is an estimate until now, and a careful one.
	counted, err := w.service.deps.Model.CountTokens(ctx, req)
	limit := w.service.deps.Settings.Window(w.model).Context
	if err != nil || counted.Tokens <= limit {
		return req, nil //nolint:nilerr // the answer will say what is wrong, if there is none
	}
	return req, ErrTooLong.Do(fmt.Sprintf("%d tokens > %d maximum. Send less, or begin a new conversation.", counted.Tokens, limit))
}

// asking is a request with a conversation.
func (c *conversation) asking(s sent) model.Request {
	return model.Request{
		Model: c.model, Input: slices.Concat(c.system(), s.items), Tools: c.definitions(), Choice: c.req.Choice, Parallel: !c.req.OneByOne, Options: c.req.Options,
	}
}
