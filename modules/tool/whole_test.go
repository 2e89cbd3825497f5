package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/budget"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool"
)

// rows is a list that is far over the output cap and under the result cap.
func rows(n int) json.RawMessage {
	list := make([]map[string]int, n)
	for i := range list {
		list[i] = map[string]int{"id": i}
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic(err) // numbers always have a JSON form
	}
	return text
}

func (f *fixture) answers(data json.RawMessage) {
	f.upstream.will(func(context.Context, tool.Invocation) (tool.Outcome, error) { return tool.Outcome{Data: data}, nil })
}

const forecast = `{"toolsetKey":"weather","toolName":"forecast","arguments":{"city":"Rome"}}`

// Code gets all of a result, at once and when it repeats the request; the
// record has a shortened one.
func TestCodeGetsTheWholeResult(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		send := serve(t, f)
		f.answers(rows(3000))
		for range 2 { // the second is answered from the record
			got := send("POST", tool.ExecutePath, forecast, "Idempotency-Key", "k")
			require.Equal(t, http.StatusOK, got.status, got.body)
			require.Equal(t, fmt.Sprint(got.length), got.header.Get("Content-Length"))
			data := got.body["data"].(map[string]any)
			require.Equal(t, "success", data["status"])
			require.NotContains(t, data, "truncated")
			list := data["data"].([]any)
			require.Len(t, list, 3000)
			require.Equal(t, map[string]any{"id": 2999.0}, list[2999])
		}
		require.Len(t, f.upstream.seen(), 1)
		calls := f.calls(anna)
		require.Len(t, calls, 1)
		require.Less(t, len(calls[0].Output), 2*outputCap)
		require.Contains(t, string(calls[0].Output), "items omitted")

		got := send("GET", record.OutputPath+"?toolCallId="+calls[0].CallID, "")
		require.Len(t, got.body["data"], 3000)
		require.Equal(t, 404, send("GET", record.OutputPath+"?toolCallId="+calls[0].CallID, "", "X-API-Key", "rf_u-ben").status)
	})
}

func TestFailedCallsAreAnsweredWholeToo(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		send := serve(t, f)
		f.upstream.will(func(context.Context, tool.Invocation) (tool.Outcome, error) {
			return tool.Outcome{Failure: &tool.Failure{Code: "BAD_REQUEST", Message: "no", Data: rows(500)}}, nil
		})
		data := send("POST", tool.ExecutePath, forecast).body["data"].(map[string]any)
		require.Equal(t, "error", data["status"])
		require.Equal(t, "no", data["error"])
		require.Len(t, data["data"], 500)
	})
}

// What a model gets stays short.
func TestModelsGetShortenedResults(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		f.answers(rows(3000))
		_, answer, err := f.Service.ExecuteForModel(t.Context(), anna, f.startRun(anna), tool.ModelCall{Toolset: "weather", Tool: "forecast", Arguments: json.RawMessage(`{"city":"Rome"}`)})
		require.NoError(t, err)
		require.LessOrEqual(t, len(answer.Data), outputCap)
		require.NotNil(t, answer.Truncated)
	})
}

// A result over the cap is a failure that says both sizes, is not charged, and
// has no part of the result.
func TestResultsOverTheCapFail(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		f.grant(anna, 10)
		f.answers(json.RawMessage(`"` + strings.Repeat("x", resultCap) + `"`))
		answer, whole, err := f.Service.Execute(t.Context(), anna, request(`{"city":"Rome"}`))
		require.NoError(t, err)
		require.Nil(t, whole)
		require.Equal(t, "RESPONSE_TOO_LARGE", answer.ErrorCode)
		require.Contains(t, answer.Error, fmt.Sprintf("has %d bytes, more than %d", resultCap+2, resultCap))
		require.Contains(t, answer.Error, "Ask for less")
		require.Empty(t, answer.Data)
		require.Equal(t, "10", f.balance(anna))

		f.answers(json.RawMessage(`"` + strings.Repeat("x", resultCap-2) + `"`))
		answer, whole, err = f.Service.Execute(t.Context(), anna, request(`{"city":"Rome"}`))
		require.NoError(t, err)
		require.Equal(t, record.Success, answer.Status)
		require.Equal(t, int64(resultCap), whole.Bytes)
		require.NoError(t, whole.Close())
	})
}

// An object that is lost is an error, never a shortened value.
func TestLostOutputsAreNotAnsweredShortened(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		send := serve(t, f)
		f.answers(rows(3000))
		require.Equal(t, 200, send("POST", tool.ExecutePath, forecast, "Idempotency-Key", "k").status)
		objects := f.objects
		keys, err := objects.List(t.Context(), "tool-output/")
		require.NoError(t, err)
		require.Len(t, keys, 1)
		require.NoError(t, objects.Put(t.Context(), keys[0], strings.NewReader("[1,2"), "application/json"))
		_, err = f.records.Output(t.Context(), anna, f.calls(anna)[0].CallID)
		require.Error(t, err, "a part was taken for the whole")
		require.NoError(t, objects.Delete(t.Context(), keys[0]))
		got := send("POST", tool.ExecutePath, forecast, "Idempotency-Key", "k")
		require.Equal(t, 404, got.status, got.body)
		require.Contains(t, got.body["errMsg"], "not kept any more")
	})
}

// Two requests that differ in the version of their run are two.
func TestIdempotencyCoversTheVersion(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		r := f.startRun(anna)
		req := request(`{"city":"Rome"}`)
		req.IdempotencyKey, req.Context.ResultID, req.Context.Version = "k", r.ResultID, new(0)
		_, err := f.execute(t.Context(), anna, req)
		require.NoError(t, err)
		req.Context.Version = nil
		_, err = f.execute(t.Context(), anna, req)
		require.ErrorIs(t, err, record.ErrKeyReused)
	})
}

// A call that has all the memory that its user may have keeps another large
// result of that user waiting, and nobody else's.
func TestLargeResultsShareTheMemoryOfTheirUser(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		const all = 1 << 40 // more than there is: the whole share
		var nested record.Answer
		f.upstream.will(func(ctx context.Context, _ tool.Invocation) (tool.Outcome, error) {
			if err := budget.Take(ctx, all); err != nil {
				return tool.Outcome{}, err
			}
			f.upstream.will(func(ctx context.Context, in tool.Invocation) (tool.Outcome, error) {
				late, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
				said := fmt.Sprintf("%q", in.UID+" waits")
				if budget.Take(late, all) == nil {
					said = fmt.Sprintf("%q", in.UID+" goes on")
				}
				return tool.Outcome{Data: json.RawMessage(said)}, nil
			})
			for _, who := range []actor.Actor{anna, ben} {
				var err error
				if nested, err = f.execute(ctx, who, tool.Request{Toolset: "weather", Tool: "forecast", Arguments: json.RawMessage(`{"city":"Oslo"}`)}); err != nil {
					return tool.Outcome{}, err
				}
				if want := map[actor.Actor]string{anna: `"u-anna waits"`, ben: `"u-ben goes on"`}[who]; string(nested.Data) != want {
					return tool.Outcome{}, fmt.Errorf("%s, not %s", nested.Data, want)
				}
			}
			return tool.Outcome{Data: json.RawMessage(`"both were right"`)}, nil
		})
		a, err := f.execute(t.Context(), anna, tool.Request{Toolset: "weather", Tool: "forecast", Arguments: json.RawMessage(`{"city":"Rome"}`)})
		require.NoError(t, err)
		require.JSONEq(t, `"both were right"`, string(a.Data), "%s; %s", a.Error, f.log)
	})
}
