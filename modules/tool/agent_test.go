package tool_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool"
)

// What a model calls is recorded as its own, shown in its run, and free where
// the server is the tool itself; a panic costs that call only.
func TestCallsOfAModel(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		r := f.startRun(anna)
		c, answer, err := f.Service.Perform(t.Context(), anna, r, tool.ModelCall{Tool: "get_time", Arguments: json.RawMessage(`{"zone":"UTC"}`)}, func(context.Context) record.Answer {
			return record.Answer{Status: record.Success, Data: json.RawMessage(`"noon"`)}
		})
		require.NoError(t, err)
		require.Equal(t, record.Success, answer.Status)
		_, answer, err = f.Service.Perform(t.Context(), anna, r, tool.ModelCall{Tool: "broken", Arguments: json.RawMessage(`{}`)}, func(context.Context) record.Answer { panic("inside") })
		require.NoError(t, err)
		require.Equal(t, tool.CodeInternal, answer.ErrorCode)
		require.NotContains(t, answer.Error, "inside")

		req := request(`{"city":"Rome"}`)
		executed, answer, err := f.Service.ExecuteForModel(t.Context(), anna, r, tool.ModelCall{Toolset: req.Toolset, Tool: req.Tool, Arguments: req.Arguments})
		require.NoError(t, err)
		require.Equal(t, record.Success, answer.Status)

		calls := f.calls(anna)
		require.Len(t, calls, 3)
		require.Equal(t, c.CallID, calls[0].CallID)
		require.Equal(t, executed.CallID, calls[2].CallID)
		require.JSONEq(t, `{"input":{"zone":"UTC"}}`, string(calls[0].Input))
		for _, made := range calls {
			require.Equal(t, ids.Agent, made.Origin)
			require.Empty(t, made.ParentID)
		}
		require.Equal(t, record.Completed, calls[0].Status)
		require.Equal(t, record.Failed, calls[1].Status)
		require.Equal(t, record.Builtin, calls[0].Toolset)
		require.Len(t, f.events(anna, r), 1+6)
	})
}

// The arguments of a model are checked against what the model was shown, which
// asks for the title of a file as well. The record has them with their defaults,
// the upstream without the title.
func TestArgumentsOfAModelFitWhatItWasShown(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		r := f.startRun(anna)
		m := tool.ModelCall{Toolset: "weather", Tool: "forecast", Name: "weather_forecast", Schema: json.RawMessage(`{"type":"object","additionalProperties":false,
			"required":["city","file_name_title"],"properties":{"city":{"type":"string"},"days":{"type":"integer","default":3},"file_name_title":{"type":"string"}}}`)}
		for written, why := range map[string]string{
			`{"city":"Rome"}`: "the arguments do not fit: file_name_title: is required",
			`{"city":7,"file_name_title":"Rome","sky":1}`: "the arguments do not fit: city: must be string; sky: is not a known parameter; known are city, days, file_name_title",
			`null`:       "the arguments must be a JSON object",
			`{"city":`:   "the arguments are not valid JSON (unexpected EOF); send one JSON object",
			`{} {"a":1}`: "the arguments are not valid JSON (more than one value); send one JSON object",
		} {
			m.Arguments = json.RawMessage(written)
			_, _, err := f.Service.ExecuteForModel(t.Context(), anna, r, m)
			require.Equal(t, &tool.Failure{Code: tool.CodeInvalidArguments, Message: "weather_forecast was not executed: " + why + "."}, err)
		}
		require.Empty(t, f.calls(anna))

		m.Arguments = json.RawMessage(`{"file_name_title":"Rome","city":"Rome"}`)
		_, answer, err := f.Service.ExecuteForModel(t.Context(), anna, r, m)
		require.NoError(t, err)
		require.Equal(t, record.Success, answer.Status)
		require.Equal(t, `{"input":{"city":"Rome","days":3,"file_name_title":"Rome"}}`, string(f.calls(anna)[0].Input))
		require.Equal(t, map[string]any{"city": "Rome", "days": json.Number("3")}, f.upstream.seen()[0].Arguments)
		require.Equal(t, "Rome", f.upstream.seen()[0].FileNameTitle)
	})
}
