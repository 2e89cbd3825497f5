package answer_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/agent/anthropic/answer"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/codeapi/session"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/sandbox"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func view() answer.View { return answer.View{ID: "ID", Model: "m", Caller: "code_execution_20260120"} }

// everything is an answer with each part that there is.
func everything() dialogue.Answer {
	id := strings.Repeat("s", 21)
	a := dialogue.Answer{
		Model: "one", Stop: dialogue.StopCalls, Session: id, Expires: time.Date(2026, 11, 22, 10, 5, 0, 0, time.UTC), Credits: 20_000,
		Parts: []dialogue.Part{
			dialogue.Thought{Text: "Hm.", Token: "token1"},
			dialogue.Thought{Token: "token2"},
			dialogue.Text{Text: "Let me see."},
			dialogue.OwnCall{ID: "S", Name: "tool_search_tool_regex", Arguments: json.RawMessage(`{"pattern":"a"}`)},
			dialogue.OwnOutput{ID: "S", Name: "tool_search_tool_regex", Result: dialogue.OwnResult{Loads: []string{"later"}}},
			dialogue.OwnOutput{ID: "S2", Name: "tool_search_tool_regex", Failed: "Invalid regular expression pattern: missing closing ]: `[`"},
			dialogue.Program{ID: "P0", Code: "print(1)"},
			dialogue.Output{Program: "P0", Stdout: "1\n", Files: []session.File{{ID: strings.Repeat("f", 21), SessionID: id, Name: "a.txt"}}},
			dialogue.Output{Program: "P1", Stderr: "Traceback", ExitCode: 1, Failure: sandbox.FailedItself, Why: "It failed."},
			dialogue.Output{Program: "P2", Stdout: "so far", Failure: sandbox.FailedTimeout, Why: "It took too long."},
			dialogue.Output{Program: "P3", Failure: sandbox.FailedUnavailable, Why: "There is no room.", Busy: true},
			dialogue.Output{Program: "P4", Failure: sandbox.FailedMemory, Why: "It had no memory left."},
			dialogue.Program{ID: "P", Code: "get_order(id=1)"},
			dialogue.Call{ID: "c1", Name: "get_order", Arguments: json.RawMessage(`{"id":1}`), Program: "P"},
			dialogue.Approval{CallID: "c2", Program: "P", Toolset: "mail", Tool: "send", Arguments: json.RawMessage(`{"to":"a"}`), Reason: "It writes."},
			dialogue.Call{ID: "call_1", Name: "both", Arguments: json.RawMessage(`{"a":1}`)},
		},
	}
	a.Usage = model.Usage{Input: 900, Output: 120}
	a.Usage.InputDetails.Cached, a.Usage.InputDetails.Written, a.Usage.OutputDetails.Reasoning = 300, 100, 20
	return a
}

func indented(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, json.Indent(&b, text, "", " "))
	return b.String() + "\n"
}

func TestEveryPartHasItsBlock(t *testing.T) {
	t.Parallel()
	golden(t, "answer.json", indented(t, view().Reply(everything())))
}

func TestWhyAnAnswerEnds(t *testing.T) {
	t.Parallel()
	for stop, want := range map[dialogue.Stop]string{
		dialogue.StopEnd: "end_turn", dialogue.StopCalls: "tool_use", dialogue.StopLength: "max_tokens", dialogue.StopContext: "model_context_window_exceeded",
		dialogue.StopSequence: "stop_sequence", dialogue.StopRefusal: "refusal", dialogue.StopPause: "pause_turn",
	} {
		got := view().Reply(dialogue.Answer{Stop: stop, StopText: "END"})
		require.Equal(t, want, *got.StopReason)
		require.Equal(t, stop == dialogue.StopSequence, got.StopSequence != nil)
		require.Equal(t, stop == dialogue.StopRefusal, got.StopDetails.Value != nil)
		require.Nil(t, got.Container.Value)
		require.Equal(t, "m", got.Model)
	}
}

// lines writes events one after the other.
type lines struct{ strings.Builder }

// Event implements answer.Sink.
func (l *lines) Event(name string, data []byte) error {
	_, err := fmt.Fprintf(l, "%s %s\n", name, data)
	return err
}

func stream(t *testing.T, events []dialogue.Event, a dialogue.Answer) string {
	t.Helper()
	var out lines
	s := answer.NewStream(view(), &out)
	require.NoError(t, s.Begin(events[:1]))
	for _, e := range events[1:] {
		require.NoError(t, s.Step(e))
	}
	require.NoError(t, s.End(a))
	return out.String()
}

func TestEveryPartStreams(t *testing.T) {
	t.Parallel()
	a := everything()
	events := []dialogue.Event{{Asked: &dialogue.Asked{Model: "one"}}}
	for _, p := range a.Parts {
		events = append(events, dialogue.Event{Part: p})
	}
	golden(t, "stream_parts.txt", stream(t, events, a))
}

// Words stream as they come, and are not told twice. The token of what was thought comes
// after them.
func TestWordsStream(t *testing.T) {
	t.Parallel()
	delta := func(thought bool, text string) dialogue.Event {
		return dialogue.Event{Delta: &dialogue.Delta{Thought: thought, Text: text}}
	}
	golden(t, "stream_words.txt", stream(t, []dialogue.Event{
		{Asked: &dialogue.Asked{Model: "one"}},
		delta(true, "H"), delta(true, "m."), delta(false, "He"), delta(false, "llo"),
		{Part: dialogue.Thought{Text: "Hm.", Token: "token1"}},
		{Part: dialogue.Text{Text: "Hello"}},
		{Part: dialogue.Program{ID: "P", Code: "1"}},
		{Part: dialogue.Output{Program: "P"}},
		{Asked: &dialogue.Asked{Model: "one"}},
		delta(false, "Bro"),
		{Restart: true},
		delta(false, "Again"),
		{Part: dialogue.Text{Text: "Again and more"}},
	}, dialogue.Answer{Model: "one", Stop: dialogue.StopEnd}))
}

// A stream that went wrong says so, without what is not for clients.
func TestAStreamEndsWithAnError(t *testing.T) {
	t.Parallel()
	var out lines
	s := answer.NewStream(view(), &out)
	require.NoError(t, s.Begin(nil))
	require.NoError(t, s.Fail(errs.New(errs.Unavailable, "The model does not answer."), "req_1"))
	require.Contains(t, out.String(), `"error":{"type":"overloaded_error","message":"The model does not answer."}`)
	require.NoError(t, s.Fail(os.ErrDeadlineExceeded, "req_1"))
	require.NotContains(t, out.String(), "i/o timeout")
	require.Contains(t, out.String(), `"type":"api_error"`)
}
