package loop

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/portico-run/portico/modules/model"
)

// counted is how many tokens the provider counted, and how many items of the history
// these are. The system text and the tools are among them.
type counted struct {
	tokens int64
	items  int
}

const (
	// bytesPerToken is what a token is taken for that nobody has counted: few, so that
	// the conversation rather seems too long.
	bytesPerToken = 3
	// worthRemoving is the length of a result that makes room when it is removed.
	worthRemoving = 500
	// answerShare is what is kept of the context for an answer of unknown length.
	answerShare = 8
)

// remember keeps under which id the result of a call can be read again.
func (t *turn) remember(c Call) {
	if *c.record == "" {
		return
	}
	t.lookup.Lock()
	defer t.lookup.Unlock()
	for _, m := range []*map[string]string{&t.records, &t.fresh} {
		if *m == nil {
			*m = map[string]string{}
		}
		if known, twice := (*m)[c.ID]; twice && known != *c.record {
			(*m)[c.ID] = "" // a provider that names two calls alike: neither can be told
			continue
		}
		(*m)[c.ID] = *c.record
	}
}

// fit makes the conversation short enough for the model: the oldest results give way
// first, and the model is told how to read them again. Where that is not enough, the
// turn ends with ErrLimit.
func (t *turn) fit(ctx context.Context) error {
	if t.limits.Context == 0 {
		return nil
	}
	room := t.limits.Context - t.limits.Answer
	if t.limits.Answer == 0 {
		room -= t.limits.Context / answerShare
	}
	size, err := t.size()
	if err != nil || size <= room {
		return err
	}
	removed := 0
	// More than is needed, so that the provider's cache holds for some requests.
	for i := 0; i < len(t.History) && size > room*3/4; i++ {
		saved := t.remove(i)
		if size -= saved; saved > 0 {
			removed++
		}
	}
	if removed > 0 && t.loop.Removed != nil {
		t.loop.Removed(ctx, removed)
	}
	if size > room {
		return fmt.Errorf("%w: the conversation has about %d tokens, and the model reads %d (%s)", ErrLimit, size, room, t.numbers())
	}
	return nil
}

// size is about how many tokens the next request has.
func (t *turn) size() (int64, error) {
	tokens, from := t.counted.tokens, t.counted.items
	if from == 0 {
		definitions, err := json.Marshal(t.tools.Definitions())
		if err != nil {
			return 0, err
		}
		tokens = int64(len(t.system)+len(definitions)) / bytesPerToken
	}
	for _, raw := range t.History[from:] {
		tokens += int64(len(raw)) / bytesPerToken
	}
	return tokens, nil
}

// remove removes the result that is an item of the history, if that makes room and it
// can be read again. It returns about how many tokens it saved.
func (t *turn) remove(i int) (saved int64) {
	callID, text, ok := model.ReadOutput(t.History[i])
	record := t.records[callID]
	if !ok || record == "" || len(text) < worthRemoving {
		return 0
	}
	shorter := model.Output(callID, fmt.Sprintf("[This result of %d bytes was removed to make room. %s with call_id %q reads it again.]", len(text), ReadToolResult, record))
	saved = int64(len(t.History[i])-len(shorter)) / bytesPerToken
	t.History[i] = shorter
	if i < t.counted.items {
		t.counted.tokens -= saved
	}
	return saved
}
