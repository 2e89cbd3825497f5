package app_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
)

// weather is a call of a tool that answers at once.
func (s *instance) weather() answer {
	return s.send(s.key, http.MethodPost, "/v1/tool/execute", map[string]any{"toolsetKey": "demo", "toolName": "get_weather", "arguments": map[string]any{"city": "Rome"}})
}

// know waits until every process knows of all.
func know(t *testing.T, all []*instance) {
	t.Helper()
	for _, s := range all {
		require.Eventually(t, func() bool { return s.app.Nodes.Count() == len(all) }, time.Minute, 10*time.Millisecond)
	}
}

// Three processes behind a load balancer let one user begin as much as one does, within
// the error that the documents state; a process that is used alone gives all of it.
func TestARateHoldsOverAllProcesses(t *testing.T) {
	testenv.Slow(t, "three whole servers at work")
	t.Parallel()
	const rate = 16
	all := together(t, 3, "TOOL_RATE_PER_KEY=16")
	know(t, all)
	let := func(front *instance, callers int, during time.Duration) (n int, took time.Duration) {
		var passed, refused atomic.Int64
		var working sync.WaitGroup
		begin := time.Now()
		for range callers {
			working.Go(func() {
				pace := time.NewTicker(20 * time.Millisecond) // all ask for twenty times as much as may
				defer pace.Stop()
				// A machine that is busy takes longer to ask for more than may.
				for ; time.Since(begin) < during || refused.Load() == 0 && time.Since(begin) < time.Minute; <-pace.C {
					switch got := front.weather(); got.status {
					case http.StatusOK:
						passed.Add(1)
					case http.StatusTooManyRequests:
						refused.Add(1)
						if got.header.Get("Retry-After") != "1" {
							t.Errorf("Retry-After is %q", got.header.Get("Retry-After"))
						}
					default:
						t.Errorf("%d %s", got.status, got.raw)
						return
					}
				}
			})
		}
		working.Wait()
		require.Positive(t, refused.Load(), "it is asked for more than may")
		return int(passed.Load()), time.Since(begin)
	}
	n, took := let(balanced(t, all), 9, 4*time.Second)
	may := rate * (2 + took.Seconds()) // two seconds' worth at once
	t.Logf("%d of %.0f in %v", n, may, took)
	require.LessOrEqual(t, float64(n), may*9/8+3)
	require.GreaterOrEqual(t, float64(n), may/2)
	// A share goes to who is asked within seconds, on a busy machine later.
	for round := 1; float64(n) < may*3/4 || round == 1; round++ {
		require.LessOrEqual(t, round, 5, "a process that is used alone does not get all of it")
		n, took = let(all[1], 6, 4*time.Second)
		may = rate * took.Seconds()
		t.Logf("alone: %d of %.0f in %v", n, may, took)
		require.LessOrEqual(t, float64(n), (may+2*rate)*9/8+3)
	}
}

// A user has no more programs in all processes than in one, and others are not kept
// waiting by it.
func TestProgramsOfAUserAreBoundedOverAllProcesses(t *testing.T) {
	testenv.Slow(t, "two whole servers at work")
	t.Parallel()
	all := together(t, 2, "SANDBOX_MAX_PER_USER=1", "SANDBOX_MAX_QUEUE_PER_USER=1", "SANDBOX_MAX_PAUSED_PER_USER=4", "TOOL_LEASE=10s")
	know(t, all)
	front := balanced(t, all)
	var paused []ended
	for range 9 {
		e := front.code("/exec/programmatic", map[string]any{"code": "await ask()\nprint('ran')", "tools": tools("ask")})
		if e.Status == "tool_call_required" {
			paused = append(paused, e)
			continue
		}
		require.Equal(t, http.StatusTooManyRequests, e.code, "%+v", e)
	}
	require.Len(t, paused, 6, "1 that runs, 1 that waits and 4 that are paused: in all processes")
	ben := all[0].another("ben")
	require.Equal(t, "ben\n", all[0].codeAs(ben, "/exec", map[string]any{"lang": "py", "code": "print('ben')"}).Stdout)
	for _, e := range paused {
		require.Equal(t, "ran\n", front.code("/exec/programmatic", continuing(e)).Stdout)
	}
	require.Eventually(t, func() bool {
		return front.code("/exec/programmatic", map[string]any{"code": "print('again')"}).code == http.StatusOK
	}, time.Minute, 50*time.Millisecond)
}
