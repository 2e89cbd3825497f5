package live_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/agenttest"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/agent/live"
	"github.com/portico-run/portico/modules/agent/loop"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
)

// working is a run of a whole server that a writer shows.
type working struct {
	*agenttest.Server

	run    run.Run
	writer *live.Writer
	calls  *live.Calls
	log    *bytes.Buffer // read it after the writer is closed
}

func begin(t *testing.T) working {
	t.Helper()
	s := agenttest.Serve(t, "")
	r, err := s.Runs.Service.Create(t.Context(), s.User, run.CreateParams{Title: "Test", Type: "skill", Toolsets: []string{"demo"}})
	require.NoError(t, err)
	log := &bytes.Buffer{}
	w := live.New(t.Context(), live.Deps{
		DB: s.DB, Runs: s.Runs.Service, Billing: s.Credits.Service, Flush: time.Millisecond, Price: func(string) price.Tokens { return price.Tokens{} }, NewCallID: func() string { return s.Records.Service.NewID(ids.Agent) },
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	}, r)
	calls := live.NewCalls(s.Tools.Service, w, s.User)
	offered, err := loop.NewTools(new(model.Client), weather())
	require.NoError(t, err)
	calls.Offer(offered)
	return working{s, r, w, calls, log}
}

// weather is a tool of a toolset as a model is shown it.
func weather() loop.Tool {
	return loop.Tool{
		Name: "demo_get_weather", Description: "Tells the weather.", Checks: true, Toolset: "demo", Method: "get_weather",
		Schema: json.RawMessage(`{"type":"object","required":["city","file_name_title"],"properties":{
			"city":{"type":"string"},"days":{"type":"integer","default":1},"file_name_title":{"type":"string"}}}`),
		Run: func(context.Context, loop.Call) (string, error) { return "", nil },
	}
}

// messages are those of the run, each as its type, its tool and what it says.
func (w working) messages(t *testing.T) []string {
	t.Helper()
	_, answer := w.Send("GET", "/v1/action/result?resultId="+w.run.ResultID, nil)
	var of struct {
		Data struct {
			Messages []struct {
				Type, Content string
				ToolCallMeta  struct{ ToolName, ToolsetKey, Status string }
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(answer), &of), answer)
	var list []string
	for _, m := range of.Data.Messages {
		list = append(list, strings.Join([]string{m.Type, m.ToolCallMeta.ToolName, m.ToolCallMeta.Status, m.Content}, "|"))
	}
	return list
}

func wrote(id, name, arguments string) loop.Call {
	return loop.CallOf(model.Call{ID: id, Name: name, Arguments: arguments})
}

// Every call of a model is recorded with what the model was given of it: one
// that works, one that fails, one of the server's own, and one that was never
// executed. Each keeps the id at which it was shown while the model wrote it.
func TestCallsAreRecordedWithWhatTheModelWasGiven(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.writer.Delta(model.Delta{Kind: model.Reasoning, Text: "Hm."})
	w.writer.Delta(model.Delta{Kind: model.Arguments, CallID: "c1", Name: "demo_get_weather", Text: `{"city":"Oslo"}`})
	require.NoError(t, w.writer.Answered(t.Context(), model.Response{Model: "m", Output: []model.Item{
		[]byte(`{"type":"function_call","call_id":"c1","name":"demo_get_weather","arguments":"{\"city\":\"Oslo\"}"}`),
	}}))
	shown := w.writer.ShownAs("c1")
	require.Positive(t, shown.Event)

	first := wrote("c1", "demo_get_weather", `{"city":"Oslo","file_name_title":"x"}`)
	text, err := w.calls.Execute(t.Context(), first, weather())
	require.NoError(t, err)
	require.Contains(t, text, "celsius")
	require.Equal(t, shown.CallID, first.Record())
	second := wrote("c2", "demo_get_weather", `{"city":"Nowhere","file_name_title":"x"}`)
	_, err = w.calls.Execute(t.Context(), second, weather())
	require.Error(t, err)
	require.NotEmpty(t, second.Record())
	wrong := wrote("c9", "demo_get_weather", `{"city":"Oslo"}`)
	_, err = w.calls.Execute(t.Context(), wrong, weather())
	require.Equal(t, loop.Refusal{
		Kind: loop.WrongArguments, Reason: "demo_get_weather was not executed: the arguments do not fit: file_name_title: is required.",
	}, err)
	require.Empty(t, wrong.Record(), "the loop has it recorded as it was written")
	third := wrote("c3", "get_time", `{}`)
	text, err = w.calls.Perform(t.Context(), third, "", "get_time", func(context.Context) record.Answer {
		return record.Answer{Status: record.Success, Data: json.RawMessage(`"noon"`)}
	})
	require.NoError(t, err)
	require.Equal(t, "noon", text, "a text without its quotes")
	text, err = w.calls.Perform(t.Context(), wrote("c4", "list_files", `{}`), "", "list_files", func(context.Context) record.Answer {
		return record.Answer{Status: record.Success, Data: json.RawMessage(`{"files":[]}`)}
	})
	require.NoError(t, err)
	require.JSONEq(t, `{"files":[]}`, text)
	_, err = w.calls.Perform(t.Context(), wrote("c5", "get_time", `{}`), "", "get_time", func(context.Context) record.Answer { return record.Refuse("FAILED", "no clock") })
	require.EqualError(t, err, "no clock")

	w.calls.Refused(t.Context(), wrote("c6", "demo_get_weather", `{"city":`), loop.Refusal{Kind: loop.WrongArguments, Reason: "no JSON"})
	w.calls.Refused(t.Context(), wrote("c7", "made\x00up"+strings.Repeat("ä", 64), `{}`), loop.Refusal{Kind: loop.UnknownTool, Reason: "there is no such tool"})
	require.NoError(t, w.writer.Conclude(t.Context(), "It is noon."))
	w.writer.Close()

	list := w.messages(t)
	require.Len(t, list, 9)
	require.Equal(t, "ai|||", list[0], "an answer that only calls tools")
	require.Contains(t, list[1], "tool|get_weather|completed|{")
	require.Contains(t, list[2], "tool|get_weather|failed|")
	require.Equal(t, []string{
		"tool|get_time|completed|noon", `tool|list_files|completed|{"files":[]}`, "tool|get_time|failed|no clock", "tool|get_weather|failed|no JSON",
		"tool|made\uFFFDup" + strings.Repeat("ä", 27) + "|failed|there is no such tool", "ai|||It is noon.",
	}, list[3:])
	output, err := w.Records.Service.Output(t.Context(), w.User, first.Record())
	require.NoError(t, err)
	require.Contains(t, string(output), "celsius", "the whole of it, under the id that the model can name")
}

// A call whose answer breaks off is recorded as one that was not executed, and
// the log says of calls what happened, but not what they hold.
func TestWhatTheLogSaysOfCalls(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.writer.Delta(model.Delta{Kind: model.Arguments, CallID: "c1", Name: "demo_get_weather", Text: `{"city":"Oslo`})
	require.Eventually(t, func() bool {
		events, err := w.Runs.Service.Events(t.Context(), w.User, run.EventFilter{ResultID: w.run.ResultID, Version: w.run.Version, Limit: 10})
		return err == nil && slices.ContainsFunc(events, func(e run.Event) bool { return e.Type == run.ToolCallStream })
	}, time.Minute, time.Millisecond)
	w.writer.Delta(model.Delta{Kind: model.Restart})
	c := wrote("c2", "get_time", `{"zone":"secret"}`)
	w.writer.Called(t.Context(), c)
	w.writer.Returned(t.Context(), c, "secret", errors.New("secret"))
	tool := loop.Tool{
		Name: "panics", Description: "Panics.", Schema: json.RawMessage(`{"type":"object","properties":{}}`),
		Run: func(context.Context, loop.Call) (string, error) { panic("broken inside") },
	}
	list, err := loop.NewTools(new(model.Client), tool)
	require.NoError(t, err)
	l := loop.Loop{Model: once{}, Tools: list, Observer: w.writer}
	_, err = l.Turn(t.Context(), nil, "Go")
	require.NoError(t, err)
	w.writer.Close()
	require.Contains(t, w.messages(t)[0], "tool|get_weather|failed|not executed: the model's answer broke off")
	require.Contains(t, w.log.String(), "a model calls a tool")
	require.Contains(t, w.log.String(), "a tool panicked")
	require.NotContains(t, w.log.String(), "secret")
}

// once is a model that calls a tool and ends.
type once struct{}

func (once) Respond(_ context.Context, req model.Request, _ func(model.Delta)) (model.Response, error) {
	if len(req.Input) == 1 {
		return model.Response{Output: []model.Item{[]byte(`{"type":"function_call","call_id":"c3","name":"panics","arguments":"{}"}`)}}, nil
	}
	return model.Response{Output: []model.Item{model.Assistant("End.")}}, nil
}
