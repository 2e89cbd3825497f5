package app_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
)

const headerRequest = "X-LibreChat-Code-Request-ID"

// afterAsk is a program that shows everywhere whether it went on after its
// call: in its output, and in the record of a call that the server executes.
const afterAsk = `
await ask()
get_weather(city="Oslo", file_name_title="x")
print("ran")`

// Once the cancelling request is answered, no line of the program runs, also
// when a continuation with its results comes at once.
func TestCancelWinsOverAContinuation(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	for i := range 20 {
		id := fmt.Sprint("r-", i)
		e := s.code("/exec/programmatic", map[string]any{"code": afterAsk, "tools": tools("ask"), "toolsets": []string{"demo"}}, headerRequest, id)
		require.Equal(t, "tool_call_required", e.Status, "%+v", e)
		require.Equal(t, 202, s.code("/exec/programmatic/cancel", map[string]any{"request_id": id}).code)
		stats := s.app.Engine.Stats()
		require.Zero(t, stats.Running+stats.Paused, "the process is gone before the answer")

		over := s.code("/exec/programmatic", map[string]any{"continuation_token": e.ContinuationToken, "tool_results": results(e)})
		require.Equal(t, "Execution was cancelled", over.Error, "%+v", over)
		require.Empty(t, over.Stdout)
	}
	require.Zero(t, s.count("SELECT count(*) FROM tool_call_results WHERE tool_name = 'get_weather'"))
}

// The same when both requests are on their way at once: what has not happened
// when the cancelling one is answered does not happen afterwards.
func TestCancelWinsOverAContinuationOnItsWay(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	const calls = "SELECT count(*) FROM tool_call_results WHERE tool_name = 'get_weather'"
	for i := range 20 {
		id := fmt.Sprint("r-", i)
		e := s.code("/exec/programmatic", map[string]any{
			"code": "await ask()\nfor _ in range(1000): get_weather(city='Oslo', file_name_title='x')", "tools": tools("ask"), "toolsets": []string{"demo"},
		}, headerRequest, id)
		var both sync.WaitGroup
		var over ended
		both.Go(func() {
			over = s.code("/exec/programmatic", map[string]any{"continuation_token": e.ContinuationToken, "tool_results": results(e)})
		})
		require.Equal(t, 202, s.code("/exec/programmatic/cancel", map[string]any{"request_id": id}).code)
		before := s.count(calls)
		both.Wait()
		require.NotEqual(t, "completed", over.Status)
		require.Equal(t, before, s.count(calls))
	}
}
