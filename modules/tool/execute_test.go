package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/toolset"
)

func TestExecuteRecordsBillsAndTells(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		f.grant(anna, 100)
		r := f.startRun(anna)
		p := f.open(anna, r)
		req := request(`{"city":"Rome","file_name_title":"rome","days":12345678901234567890}`)
		req.Context.ParentID = p.CallID
		answer, err := f.execute(t.Context(), anna, req)
		require.NoError(t, err)
		require.Equal(t, "INVALID_ARGUMENTS", answer.ErrorCode)

		req.Arguments = json.RawMessage(`{"city":"Rome","file_name_title":"rome"}`)
		answer, err = f.execute(t.Context(), anna, req)
		require.NoError(t, err)
		require.Equal(t, record.Answer{Status: "success", Data: json.RawMessage(`{"sky":"clear"}`)}, answer)
		f.close(p)

		in := f.upstream.seen()
		require.Len(t, in, 1)
		require.Equal(t, map[string]any{"city": "Rome", "days": json.Number("3")}, in[0].Arguments)
		require.Equal(t, "rome", in[0].FileNameTitle)
		require.Equal(t, "sk-upstream", in[0].Credential.Value.Reveal())
		require.Equal(t, anna.UID, in[0].UID)

		calls := f.calls(anna)
		require.Len(t, calls, 3)
		c := calls[2]
		require.Equal(t, ids.PTC, c.Origin)
		require.Equal(t, p.CallID, c.ParentID)
		require.Equal(t, r.ResultID, c.ResultID)
		require.Equal(t, record.Completed, c.Status)
		require.JSONEq(t, `{"input":{"city":"Rome","file_name_title":"rome"}}`, string(c.Input))
		require.JSONEq(t, `{"status":"success","data":{"sky":"clear"}}`, string(c.Output))
		require.Equal(t, "execute_code", c.StepName)
		require.Equal(t, []string{
			"start", "tool_call_start agent", "tool_call_start ptc", "tool_call_error ptc",
			"tool_call_start ptc", "tool_call_end ptc", "tool_call_end agent",
		}, f.events(anna, r))
		require.Equal(t, "98", f.balance(anna))
		require.Equal(t, 1, tool.Count(t, f.db, `SELECT count(*) FROM credit_usages WHERE tool_call_id = ? AND action_result_id = ?`, c.CallID, r.ResultID))
		require.Equal(t, 1, tool.Count(t, f.db, `SELECT count(*) FROM credit_usages`))
	})
}

// What an executor says about a call that takes long is an event of its run,
// between the start and the end.
func TestProgressIsShown(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		f.upstream.will(func(ctx context.Context, in tool.Invocation) (tool.Outcome, error) {
			in.Report(ctx, "forecast: queued")
			return tool.Outcome{Data: json.RawMessage(`1`)}, nil
		})
		r, err := f.runs.Create(t.Context(), anna, run.CreateParams{Title: "run"})
		require.NoError(t, err)
		req := request(`{"city":"Rome"}`)
		req.Context.ResultID = r.ResultID
		_, err = f.execute(t.Context(), anna, req)
		require.NoError(t, err)
		require.Equal(t, []string{"start", "tool_call_start standalone", "log standalone", "tool_call_end standalone"}, f.events(anna, r))
		_, err = f.execute(t.Context(), anna, request(`{"city":"Rome"}`))
		require.NoError(t, err, "outside a run nobody watches")
	})
}

func TestExecuteOutsideARun(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		answer, err := f.execute(t.Context(), anna, request(`{"city":"Rome"}`))
		require.NoError(t, err)
		require.Equal(t, record.Success, answer.Status)
		c := f.calls(anna)[0]
		require.Equal(t, run.NoResult, c.ResultID)
		require.Equal(t, ids.Standalone, c.Origin)
		require.Equal(t, "-2", f.balance(anna), "a call without credits becomes a debt")

		_, err = f.execute(t.Context(), anna, tool.Request{Toolset: "weather", Tool: "free", Arguments: json.RawMessage("null")})
		require.NoError(t, err)
		require.Equal(t, "-2", f.balance(anna))
	})
}

func TestExecuteAnswersForEverythingThatGoesWrong(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		for key, auth := range map[string]string{"gmail": "oauth", "exa": "external_apikey", "jina": "credentials"} {
			tool.Exec(t, f.db, `INSERT INTO toolsets (toolset_id, is_global, name, key, auth_type) VALUES (?, true, ?, ?, ?)`, "ts-"+key, key, key, auth)
		}
		tool.Exec(t, f.db, `INSERT INTO mcp_servers (name, type, uid) VALUES ('mine', 'sse', 'u-anna')`)
		for _, c := range []struct{ toolset, tool, arguments, code, message string }{
			{"ghost", "x", `{}`, "TOOLSET_NOT_FOUND", "Toolset not found: ghost."},
			{"weather", "x", `{}`, "METHOD_NOT_FOUND", "Method 'x' not found in toolset 'weather'. Available methods: forecast, free"},
			{
				"weather", "forecast", `{"cty":"x"}`, "INVALID_ARGUMENTS",
				"Invalid arguments: city: is required; cty: is not a known parameter; did you mean city?",
			},
			{"weather", "forecast", `{"city":"x","days":15}`, "INVALID_ARGUMENTS", "Invalid arguments: days: must be at most 14"},
			{"web_search", "x", `{}`, "TOOLSET_TYPE_UNSUPPORTED", "Toolset web_search not supported: builtin tool execution is not supported."},
			{"mine", "x", `{}`, "TOOLSET_TYPE_UNSUPPORTED", "Toolset mine not supported: MCP tool execution is not supported."},
			{"gmail", "x", `{}`, "NOT_AUTHORIZED", "OAuth connection not authorized for toolset: gmail."},
			{"exa", "x", `{}`, "TOOLSET_TYPE_UNSUPPORTED", "Toolset exa is of type composio_apikey, which this server cannot execute."},
			{"jina", "x", `{}`, "TOOLSET_TYPE_UNSUPPORTED", "Toolset jina is of type legacy_sdk, which this server cannot execute."},
		} {
			answer, err := f.execute(t.Context(), anna, tool.Request{Toolset: c.toolset, Tool: c.tool, Arguments: json.RawMessage(c.arguments)})
			require.NoError(t, err)
			require.Equal(t, c.code, answer.ErrorCode, c.toolset)
			require.True(t, strings.HasPrefix(answer.Error, c.message), answer.Error)
			calls := f.calls(anna)
			last := calls[len(calls)-1]
			require.Equal(t, record.Failed, last.Status)
			require.Equal(t, answer.Error, last.Error)
		}
		require.Empty(t, f.upstream.seen())
		require.Zero(t, tool.Count(t, f.db, `SELECT count(*) FROM credit_usages`))
	})
}

func TestExecuteSurvivesItsExecutor(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		for name, c := range map[string]struct {
			do   func(ctx context.Context, in tool.Invocation) (tool.Outcome, error)
			want record.Answer
		}{
			"failure": {
				func(context.Context, tool.Invocation) (tool.Outcome, error) {
					return tool.Outcome{Failure: &tool.Failure{Message: "no such city", Code: "NOT_FOUND", Data: json.RawMessage(`{"a":1}`)}}, nil
				},
				record.Answer{Status: "error", Error: "no such city", ErrorCode: "NOT_FOUND", Data: json.RawMessage(`{"a":1}`)},
			},
			"failure in bad text": {
				func(context.Context, tool.Invocation) (tool.Outcome, error) {
					return tool.Outcome{Failure: &tool.Failure{Message: "a\x00b\xff", Code: "X", Data: json.RawMessage(`{"cut`)}}, nil
				},
				record.Answer{Status: "error", Error: "a\uFFFDb\uFFFD", ErrorCode: "X"},
			},
			"fault": {
				func(context.Context, tool.Invocation) (tool.Outcome, error) {
					return tool.Outcome{}, errors.New("private detail 4711")
				},
				record.Answer{Status: "error", Error: "The tool could not be executed because of a fault of the server.", ErrorCode: "INTERNAL"},
			},
			"panic": {
				func(context.Context, tool.Invocation) (tool.Outcome, error) { panic("private detail 4711") },
				record.Answer{Status: "error", Error: "The tool could not be executed because of a fault of the server.", ErrorCode: "INTERNAL"},
			},
			"invalid output": {
				func(context.Context, tool.Invocation) (tool.Outcome, error) {
					return tool.Outcome{Data: json.RawMessage(`{"cut`)}, nil
				},
				record.Answer{Status: "error", Error: "The tool could not be executed because of a fault of the server.", ErrorCode: "INTERNAL"},
			},
		} {
			f.upstream.will(c.do)
			answer, err := f.execute(t.Context(), anna, request(`{"city":"Rome"}`))
			require.NoError(t, err, name)
			require.Equal(t, c.want, answer, name)
		}
		require.Contains(t, f.log.String(), "private detail 4711")
		require.Zero(t, tool.Count(t, f.db, `SELECT count(*) FROM tool_call_results WHERE status <> 'failed'`))
		require.Equal(t, "0", f.balance(anna))
	})
}

func TestOutputInBadTextIsRepaired(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		f.upstream.will(func(context.Context, tool.Invocation) (tool.Outcome, error) {
			return tool.Outcome{Data: json.RawMessage("[\"a\xff\\u0000\"]")}, nil
		})
		answer, err := f.execute(t.Context(), anna, request(`{"city":"Rome"}`))
		require.NoError(t, err)
		require.Equal(t, "[\"a\uFFFD\\u0000\"]", string(answer.Data))
		require.Equal(t, record.Completed, f.calls(anna)[0].Status)
	})
}

func TestExecuteEndsAtItsTimeout(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		tool.Adjust(f.Service, func(s *tool.Settings) { s.Timeout = 20 * time.Millisecond })
		f.upstream.will(func(ctx context.Context, _ tool.Invocation) (tool.Outcome, error) {
			<-ctx.Done()
			return tool.Outcome{}, ctx.Err()
		})
		answer, err := f.execute(t.Context(), anna, request(`{"city":"Rome"}`))
		require.NoError(t, err)
		require.Equal(t, "TIMEOUT", answer.ErrorCode)
		require.Equal(t, "The call did not finish within 20ms.", answer.Error)
	})
}

// Whatever the call is at when its time ends, it was too late.
func TestExecuteIsLateAnywhere(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		f.upstream.will(func(ctx context.Context, _ tool.Invocation) (tool.Outcome, error) {
			<-ctx.Done()
			return tool.Outcome{}, ctx.Err()
		})
		for n := range 150 {
			tool.Adjust(f.Service, func(s *tool.Settings) { s.Timeout = time.Duration(n) * 20 * time.Microsecond })
			answer, err := f.execute(t.Context(), anna, request(fmt.Sprintf(`{"city":"city-%d"}`, n)))
			require.NoError(t, err)
			require.Equal(t, "TIMEOUT", answer.ErrorCode, "%d: %s", n, answer.Error)
		}
	})
}

func TestExecuteIsLateInItsFirstQueryToo(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		tool.Adjust(f.Service, func(s *tool.Settings) { s.Timeout = time.Nanosecond })
		answer, err := f.execute(t.Context(), anna, request(`{"city":"Rome"}`))
		require.NoError(t, err)
		require.Equal(t, "TIMEOUT", answer.ErrorCode)
		require.Equal(t, record.Failed, f.calls(anna)[0].Status)
	})
}

func TestExecuteIsRecordedWhenTheCallerIsGone(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		ctx, leave := context.WithCancel(t.Context())
		f.upstream.will(func(context.Context, tool.Invocation) (tool.Outcome, error) {
			leave()
			return tool.Outcome{Data: json.RawMessage(`1`)}, nil
		})
		answer, err := f.execute(ctx, anna, request(`{"city":"Rome"}`))
		require.NoError(t, err)
		require.Equal(t, record.Success, answer.Status)
		require.Equal(t, record.Completed, f.calls(anna)[0].Status)
		require.Equal(t, "-2", f.balance(anna))
	})
}

func TestExecuteRefusesBadRequestsWithoutARecord(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		long := strings.Repeat("x", 300)
		for name, change := range map[string]func(*tool.Request){
			"no toolset":       func(r *tool.Request) { r.Toolset = "" },
			"no tool":          func(r *tool.Request) { r.Tool = "" },
			"long toolset":     func(r *tool.Request) { r.Toolset = long },
			"NUL in tool":      func(r *tool.Request) { r.Tool = "a\x00b" },
			"invalid UTF-8":    func(r *tool.Request) { r.Arguments = json.RawMessage("{\"city\":\"\xff\"}") },
			"arguments a list": func(r *tool.Request) { r.Arguments = json.RawMessage(`[1]`) },
			"arguments text":   func(r *tool.Request) { r.Arguments = json.RawMessage(`"x"`) },
			"arguments cut":    func(r *tool.Request) { r.Arguments = json.RawMessage(`{"a":`) },
			"two arguments":    func(r *tool.Request) { r.Arguments = json.RawMessage(`{} {}`) },
			"deep arguments": func(r *tool.Request) {
				r.Arguments = json.RawMessage(strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000))
			},
			"parent not an id":   func(r *tool.Request) { r.Context.ParentID = "a b" },
			"result not an id":   func(r *tool.Request) { r.Context.ResultID = "a\nb" },
			"canvas not an id":   func(r *tool.Request) { r.Context.CanvasID = long },
			"idempotency spaces": func(r *tool.Request) { r.IdempotencyKey = "a b" },
		} {
			req := request(`{"city":"Rome"}`)
			change(&req)
			_, err := f.execute(t.Context(), anna, req)
			require.Equal(t, errs.Invalid, errs.CodeOf(err), "%s: %v", name, err)
		}
		require.Empty(t, f.calls(anna))
	})
}

func TestExecuteRefusesForeignIDs(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		r := f.startRun(anna)
		p := f.open(anna, r)
		mine := f.startRun(ben)
		canvas, err := f.runs.CreateCanvas(t.Context(), anna, "hers")
		require.NoError(t, err)
		own, err := f.execute(t.Context(), ben, request(`{"city":"Rome"}`))
		require.NoError(t, err)
		require.Equal(t, record.Success, own.Status)
		notAProgram := f.calls(ben)[0].CallID
		seven := 7
		for name, c := range map[string]struct {
			at   tool.Context
			want error
		}{
			"program":         {tool.Context{ParentID: p.CallID}, record.ErrParentForeign},
			"no such program": {tool.Context{ParentID: "agent:none"}, record.ErrParentForeign},
			"not a program":   {tool.Context{ParentID: notAProgram}, record.ErrParentForeign},
			"run":             {tool.Context{ResultID: r.ResultID}, record.ErrResultForeign},
			"no such run":     {tool.Context{ResultID: "ar-none"}, record.ErrResultForeign},
			"no such version": {tool.Context{ResultID: mine.ResultID, Version: &seven}, record.ErrResultForeign},
			"no run, by name": {tool.Context{ResultID: run.NoResult}, record.ErrResultForeign},
			"canvas":          {tool.Context{CanvasID: canvas.CanvasID}, record.ErrCanvasForeign},
		} {
			req := request(`{"city":"Rome"}`)
			req.Context = c.at
			_, err := f.execute(t.Context(), ben, req)
			require.ErrorIs(t, err, c.want, name)
			require.Equal(t, 403, errs.CodeOf(err).Status())
		}
		require.Len(t, f.calls(ben), 1)

		// Even the owner cannot mix one run's program with another run.
		other := f.startRun(anna)
		req := request(`{"city":"Rome"}`)
		req.Context = tool.Context{ParentID: p.CallID, ResultID: other.ResultID}
		_, err = f.execute(t.Context(), anna, req)
		require.ErrorIs(t, err, record.ErrResultForeign)
	})
}

func TestExecuteRefusesCallsOfAnEndedProgram(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		r := f.startRun(anna)
		p := f.open(anna, r)
		f.close(p)
		req := request(`{"city":"Rome"}`)
		req.Context.ParentID = p.CallID
		_, err := f.execute(t.Context(), anna, req)
		require.ErrorIs(t, err, record.ErrParentEnded)
		require.Len(t, f.calls(anna), 1)
	})
}

func TestCloseProgramWaitsForItsCalls(t *testing.T) {
	testenv.Slow(t, "it waits for calls")
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		r := f.startRun(anna)
		p := f.open(anna, r)
		began, finish := make(chan struct{}), make(chan struct{})
		f.upstream.will(func(context.Context, tool.Invocation) (tool.Outcome, error) {
			close(began)
			<-finish
			return tool.Outcome{Data: json.RawMessage(`1`)}, nil
		})
		req := request(`{"city":"Rome"}`)
		req.Context.ParentID = p.CallID
		var both sync.WaitGroup
		both.Go(func() {
			if _, err := f.execute(t.Context(), anna, req); err != nil {
				t.Error(err)
			}
		})
		<-began
		soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := f.records.CloseProgram(soon, p, record.Answer{Status: record.Success}, func(database.Tx) error { return nil })
		require.Error(t, err, "the program ended before its call")
		still, err := f.records.Call(t.Context(), anna, p.CallID)
		require.NoError(t, err)
		require.Equal(t, record.Executing, still.Status)
		both.Go(func() { f.close(p) })
		close(finish)
		both.Wait()
		require.Equal(t, []string{
			"start", "tool_call_start agent", "tool_call_start ptc", "tool_call_end ptc", "tool_call_end agent",
		}, f.events(anna, r))
	})
}

func TestExecuteRespectsWhatCodeMayCall(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		r := f.startRun(anna)
		p := f.open(anna, r, "weather")
		for key, want := range map[string]string{"blocked": "administrator's lists", "other": "it may call: weather"} {
			req := tool.Request{Toolset: key, Tool: "go", Arguments: json.RawMessage(`{}`), Context: tool.Context{ParentID: p.CallID}}
			answer, err := f.execute(t.Context(), anna, req)
			require.NoError(t, err)
			require.Equal(t, "TOOLSET_NOT_ALLOWED", answer.ErrorCode)
			require.Contains(t, answer.Error, want)
			// The lists are for code; a direct call is not.
			req.Context = tool.Context{}
			answer, err = f.execute(t.Context(), anna, req)
			require.NoError(t, err)
			require.Equal(t, record.Success, answer.Status)
		}
	})
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		req := request(`{"city":"Rome"}`)
		req.IdempotencyKey = "key-1"
		first, err := f.execute(t.Context(), anna, req)
		require.NoError(t, err)
		f.upstream.will(func(context.Context, tool.Invocation) (tool.Outcome, error) {
			return tool.Outcome{}, errors.New("called twice")
		})
		second, err := f.execute(t.Context(), anna, req)
		require.NoError(t, err)
		require.Equal(t, first, second)
		require.Len(t, f.upstream.seen(), 1)
		require.Equal(t, "-2", f.balance(anna))

		other := req
		other.Arguments = json.RawMessage(`{"city":"Oslo"}`)
		_, err = f.execute(t.Context(), anna, other)
		require.ErrorIs(t, err, record.ErrKeyReused)

		f.upstream.will(nil)
		_, err = f.execute(t.Context(), ben, req) // Ben's key-1 is another key
		require.NoError(t, err)
		require.Len(t, f.upstream.seen(), 2)
	})
}

func TestIdempotencyKeyOfManyAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		hold := make(chan struct{})
		f.upstream.will(func(context.Context, tool.Invocation) (tool.Outcome, error) {
			<-hold
			return tool.Outcome{Data: json.RawMessage(`7`)}, nil
		})
		req := request(`{"city":"Rome"}`)
		req.IdempotencyKey = "once"
		const senders = 8
		results := make(chan error, senders)
		for range senders {
			go func() {
				_, err := f.execute(t.Context(), anna, req)
				results <- err
			}()
		}
		for range senders - 1 {
			err := <-results
			require.ErrorIs(t, err, record.ErrInProgress)
			e, ok := errors.AsType[*errs.Error](err)
			require.True(t, ok)
			require.Equal(t, time.Second, e.RetryAfter)
		}
		close(hold)
		require.NoError(t, <-results)
		require.Len(t, f.upstream.seen(), 1)
		require.Equal(t, "-2", f.balance(anna))
	})
}

func TestParallelCallsBillExactly(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		f.grant(anna, 50)
		f.grant(anna, 50)
		const calls = 64
		r := f.startRun(anna)
		p := f.open(anna, r)
		var all sync.WaitGroup
		for i := range calls {
			all.Go(func() {
				req := request(fmt.Sprintf(`{"city":"c%d"}`, i))
				req.Context.ParentID = p.CallID
				if answer, err := f.execute(t.Context(), anna, req); err != nil || answer.Status != record.Success {
					t.Errorf("call %d: %v %v", i, answer, err)
				}
			})
		}
		all.Wait()
		f.close(p)
		require.Equal(t, "-28", f.balance(anna))
		require.Equal(t, calls, tool.Count(t, f.db, `SELECT count(*) FROM credit_usages`))
		events := f.events(anna, r)
		require.Equal(t, calls, count(events, "tool_call_end ptc"))
		require.Equal(t, "tool_call_end agent", events[len(events)-1])
	})
}

func count(list []string, item string) (n int) {
	for _, s := range list {
		if s == item {
			n++
		}
	}
	return n
}

func TestLargeOutputIsShortenedAndKeptWhole(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		whole, err := json.Marshal(map[string]any{"rows": slices.Repeat([]string{"a row of some length"}, 500), "note": "kept"})
		require.NoError(t, err)
		f.upstream.will(func(context.Context, tool.Invocation) (tool.Outcome, error) { return tool.Outcome{Data: whole}, nil })
		answer, err := f.execute(t.Context(), anna, request(`{"city":"Rome"}`))
		require.NoError(t, err)
		c := f.calls(anna)[0]
		require.LessOrEqual(t, len(answer.Data), outputCap)
		require.True(t, json.Valid(answer.Data))
		require.Contains(t, string(answer.Data), "kept")
		require.Equal(t, &record.Truncated{Bytes: len(whole), Ref: "/v1/tool/call/output?toolCallId=" + strings.ReplaceAll(c.CallID, ":", "%3A")}, answer.Truncated)
		var recorded record.Answer
		require.NoError(t, json.Unmarshal(c.Output, &recorded))
		require.Equal(t, answer, recorded)
		back, err := f.records.Output(t.Context(), anna, c.CallID)
		require.NoError(t, err)
		require.JSONEq(t, string(whole), string(back))
	})
}

func TestUserToolsetIsNotBilled(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		tool.Exec(t, f.db, `INSERT INTO toolsets (toolset_id, uid, name, key) VALUES ('ts-own', 'u-anna', 'w', 'weather')`)
		_, err := f.execute(t.Context(), anna, request(`{"city":"Rome"}`))
		require.NoError(t, err)
		require.Equal(t, "0", f.balance(anna))
	})
}

func TestUnpricedSuccessIsAnsweredAndLogged(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		g := wire(t, f.db, unpriced{f.toolsets}, "process-2", f.upstream)
		answer, err := g.execute(t.Context(), anna, request(`{"city":"Rome"}`))
		require.NoError(t, err)
		require.Equal(t, record.Success, answer.Status)
		require.Contains(t, g.log.String(), "call has no price and is not billed")
	})
}

// unpriced is a catalogue that lost its prices.
type unpriced struct{ tool.Catalogue }

func (u unpriced) Identify(ctx context.Context, a actor.Actor, key string) (toolset.Toolset, error) {
	t, err := u.Catalogue.Identify(ctx, a, key)
	t.Prices = price.List{}
	return t, err
}

// A method may have another name in the prices of its toolset than in calls.
func TestMethodsAreBilledAsTheirPricesCallThem(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		_, err := wire(t, f.db, renamed{f.toolsets}, "process-2", f.upstream).execute(t.Context(), anna, request(`{"city":"Rome"}`))
		require.NoError(t, err)
		require.Equal(t, "-7", f.balance(anna))
	})
}

// renamed is a catalogue whose prices know methods by another name.
type renamed struct{ tool.Catalogue }

func (r renamed) Identify(ctx context.Context, a actor.Actor, key string) (toolset.Toolset, error) {
	t, err := r.Catalogue.Identify(ctx, a, key)
	t.Prices = price.Flat(money.Credit, map[string]money.Amount{"renamed": 7 * money.Credit})
	return t, err
}

func (r renamed) Method(ctx context.Context, a actor.Actor, t toolset.Toolset, name string) (toolset.Method, toolset.Credential, error) {
	m, c, err := r.Catalogue.Method(ctx, a, t, name)
	m.Priced = "renamed"
	return m, c, err
}

func TestCallAfterTheRunEndedIsStillRecorded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		r := f.startRun(anna)
		require.NoError(t, f.db.InTx(t.Context(), func(tx database.Tx) error {
			return f.runs.Finish(t.Context(), tx, r.Ref(), run.Finish{Status: run.Done})
		}))
		req := request(`{"city":"Rome"}`)
		req.Context.ResultID = r.ResultID
		answer, err := f.execute(t.Context(), anna, req)
		require.NoError(t, err)
		require.Equal(t, record.Success, answer.Status)
		require.Equal(t, []string{"start", "end"}, f.events(anna, r))
	})
}

func TestCallsOfOneUserAreBounded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		tool.Adjust(f.Service, func(s *tool.Settings) { s.Bounds.User.AtOnce = 1 })
		began, finish := make(chan struct{}), make(chan struct{})
		f.upstream.will(func(context.Context, tool.Invocation) (tool.Outcome, error) {
			close(began)
			<-finish
			return tool.Outcome{}, nil
		})
		done := make(chan error, 1)
		go func() {
			_, err := f.execute(t.Context(), anna, request(`{"city":"Rome"}`))
			done <- err
		}()
		<-began
		_, err := f.execute(t.Context(), anna, request(`{"city":"Rome"}`))
		require.Equal(t, errs.RateLimited, errs.CodeOf(err))
		f.upstream.will(nil)
		_, err = f.execute(t.Context(), ben, request(`{"city":"Rome"}`))
		require.NoError(t, err)
		close(finish)
		require.NoError(t, <-done)
		_, err = f.execute(t.Context(), anna, request(`{"city":"Rome"}`))
		require.NoError(t, err)
	})
}
