package chat

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/sse"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/agent/openai/failure"
)

// chunks writes an answer in chunks.
type chunks struct {
	out    *sse.Writer
	head   Completion
	usage  bool // each chunk has a member for it
	failed error

	told  strings.Builder // text of the answer under way, in pieces
	said  string          // the same, in parts
	any   bool            // text came before
	apart bool            // a program came since
	calls int
}

// errAgain is an answer of which a part is out, and that came again.
var errAgain = errs.New(errs.Unavailable, "The model's answer broke off.").Do("Send the request again.")

// stream answers in chunks. What fails from here on is told in one of them.
func (s *Service) stream(w http.ResponseWriter, r *http.Request, c creation, turn dialogue.Turn) error {
	dialogue.TellCompacted(w.Header(), turn.Begun().Compacted)
	out, ctx, err := s.deps.Settings.Stream.Open(w, r, nil)
	if err != nil {
		return err
	}
	defer out.Close()
	c.head.Object = "chat.completion.chunk"
	k := &chunks{out: out, head: c.head, usage: c.body.StreamOptions != nil && c.body.StreamOptions.Usage}
	k.delta(map[string]any{"role": "assistant", "content": ""}, nil)
	for e := range turn.Events(ctx) {
		if err := k.take(e); err != nil {
			return k.end(err)
		}
	}
	answer, err := turn.Answer(ctx)
	if ctx.Err() != nil {
		panic(http.ErrAbortHandler) // a clean end would be taken for the end of the answer
	}
	if err != nil {
		return k.end(failure.Of(err, programCall))
	}
	finish := finishOf(answer)
	if answer.Compacted > 0 { // it must be said to clients that do not ask for usage, too
		k.head.Portico = extensionOf(answer)
	}
	k.delta(map[string]any{}, &finish)
	if k.usage {
		last := k.head
		last.Choices, last.Usage, last.Portico = []ChatChoice{}, usageOf(answer.Usage), extensionOf(answer)
		k.write(last)
	}
	if k.event([]byte("[DONE]")); k.failed == nil {
		turn.Delivered()
	}
	return k.failed
}

// end tells of an error, as the last of the stream.
func (k *chunks) end(err error) error {
	k.write(failure.OpenAIFailure{Error: failure.Describe(err)})
	return err // for the log
}

func (k *chunks) event(data []byte) {
	if k.failed == nil {
		k.failed = k.out.Event("", data)
	}
}

func (k *chunks) write(v any) {
	data, err := json.Marshal(v)
	if err != nil && k.failed == nil {
		k.failed = err
	}
	k.event(data)
}

func (k *chunks) delta(d map[string]any, finish *string) {
	chunk := k.head
	chunk.Choices = []ChatChoice{{Delta: d, Finish: finish}}
	if k.usage {
		chunk.Usage = json.RawMessage("null")
	}
	k.write(chunk)
}

// take takes an event of the work on the answer.
func (k *chunks) take(e dialogue.Event) error {
	switch {
	case e.Asked != nil:
		k.told.Reset()
		k.said = ""
	case e.Restart && k.told.Len() > 0:
		return errAgain
	case e.Delta != nil && !e.Delta.Thought:
		k.text(e.Delta.Text)
	}
	switch p := e.Part.(type) {
	case dialogue.Text:
		k.said += p.Text
		if rest, ok := strings.CutPrefix(k.said, k.told.String()); ok {
			k.text(rest)
		}
	case dialogue.Program, dialogue.Output:
		k.apart = true
	case dialogue.Call:
		call, index := callOf(p), k.calls
		call.Index = &index
		k.calls++
		k.delta(map[string]any{"tool_calls": []ChatCall{call}}, nil)
	}
	return k.failed
}

func (k *chunks) text(text string) {
	if text == "" {
		return
	}
	k.told.WriteString(text)
	if k.any && k.apart {
		text = between + text
	}
	k.any, k.apart = true, false
	k.delta(map[string]any{"content": text}, nil)
}
