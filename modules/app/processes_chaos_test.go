// Slow under the race detector: make test runs it without.
//go:build !race

package app_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/objectstore/objectstoretest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app"
)

// fleet is some processes on one database and one S3 server, behind a load balancer.
type fleet struct {
	t       *testing.T
	envs    [][]string // where each listens stays the same
	listens []string
	front   *instance
	turn    atomic.Int64

	mu     sync.Mutex
	living []*process
}

func startFleet(t *testing.T, n int, more ...string) *fleet {
	t.Helper()
	f := &fleet{t: t}
	url := databasetest.URL(t, database.Postgres)
	c := objectstoretest.S3Config(t)
	more = append(more, "OBJECT_STORAGE_DRIVER=s3", "S3_ENDPOINT="+c.Endpoint, "S3_REGION="+c.Region, "S3_BUCKET="+c.Bucket, "S3_ACCESS_KEY="+c.AccessKey, "S3_SECRET_KEY="+c.SecretKey)
	var key string
	for range n {
		listen := testenv.FreeAddress(t)
		env := among(t, url, t.TempDir(), append(more, "PORTICO_LISTEN="+listen, "ENDPOINT=http://"+listen)...)
		f.envs, f.listens = append(f.envs, env), append(f.listens, listen)
		p := spawn(t, env)
		if p.key != "" {
			key = p.key
		}
		f.living = append(f.living, p)
	}
	// One more, in this process, whose clock is a minute ahead. It stays.
	listen := testenv.FreeAddress(t)
	env := among(t, url, t.TempDir(), append(more, "PORTICO_LISTEN="+listen, "ENDPOINT=http://"+listen)...)
	serveOptions(t, env, app.Options{Wall: func() time.Time { return time.Now().Add(time.Minute) }})
	f.listens = append(f.listens, listen)
	web := httptest.NewServer(http.HandlerFunc(f.balance))
	t.Cleanup(web.Close)
	f.front = &instance{t: t, url: web.URL, key: key}
	return f
}

// answeredBy is the header with the address of the process that answered.
const answeredBy = "X-Answered-By"

// balance sends each request to the next process, and to the one after it where nobody
// listens, as load balancers do.
func (f *fleet) balance(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	for range f.listens {
		at := f.listens[int(f.turn.Add(1))%len(f.listens)]
		out, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+at+r.URL.RequestURI(), strings.NewReader(string(body)))
		if err != nil {
			break
		}
		out.Header = r.Header.Clone()
		got, err := http.DefaultTransport.RoundTrip(out)
		if err != nil {
			if strings.Contains(err.Error(), "connection refused") {
				continue
			}
			break
		}
		defer func() { _ = got.Body.Close() }()
		for name := range got.Header {
			w.Header().Set(name, got.Header.Get(name))
		}
		w.Header().Set(answeredBy, at)
		w.WriteHeader(got.StatusCode)
		if _, err := io.Copy(&flushed{w, http.NewResponseController(w)}, got.Body); err != nil {
			panic(http.ErrAbortHandler) // the client sees that this is not the whole
		}
		return
	}
	w.WriteHeader(http.StatusBadGateway)
}

// flushed sends what is written at once, as streams need.
type flushed struct {
	w    io.Writer
	send *http.ResponseController
}

func (f *flushed) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if err == nil {
		err = f.send.Flush()
	}
	return n, err
}

func (f *fleet) process(i int) *process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.living[i]
}

// again starts a process where one has ended.
func (f *fleet) again(i int) {
	_, _ = f.process(i).cmd.Process.Wait()
	p := spawn(f.t, f.envs[i])
	f.mu.Lock()
	defer f.mu.Unlock()
	f.living[i] = p
}

// patient sends a request until it is answered by somebody who is not about to end, or
// gone: what a client with retries does.
func (f *fleet) patient(path string, body any) (status int, raw string) {
	status, raw, _ = f.asked(path, body)
	return status, raw
}

// asked does that, and says which process answered.
func (f *fleet) asked(path string, body any) (status int, raw, by string) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, err.Error(), ""
	}
	for until := time.Now().Add(2 * time.Minute); time.Now().Before(until); {
		r, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.front.url+path, strings.NewReader(string(text)))
		if err != nil {
			return 0, err.Error(), ""
		}
		r.Header.Set("X-API-Key", f.front.key)
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err.Error(), ""
		}
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		status, raw, by = resp.StatusCode, string(got), resp.Header.Get(answeredBy)
		switch {
		case err == nil && strings.Contains(raw, "lost the program"):
			return status, raw, by
		case err != nil, status == http.StatusBadGateway, status == http.StatusServiceUnavailable, status == http.StatusTooManyRequests, status == http.StatusConflict:
			<-time.After(200 * time.Millisecond)
		default:
			return status, raw, by
		}
	}
	return status, raw, by
}

// follow reads the stream of a run to the run's end, and goes on where it broke off. It
// returns the numbers of its events.
func (f *fleet) follow(id string) (numbers []string) {
	for until := time.Now().Add(3 * time.Minute); time.Now().Before(until); {
		r, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, f.front.url+"/v1/action/"+id+"/events", nil)
		if err != nil {
			return nil
		}
		r.Header.Set("X-API-Key", f.front.key)
		if len(numbers) > 0 {
			r.Header.Set("Last-Event-ID", numbers[len(numbers)-1])
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			continue
		}
		if resp.StatusCode == http.StatusOK {
			for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
				if number, is := strings.CutPrefix(lines.Text(), "id: "); is {
					numbers = append(numbers, number)
				}
			}
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusNoContent {
			return numbers
		}
		<-time.After(100 * time.Millisecond)
	}
	return nil
}

// talk says the same to an agent again and again in one canvas, whose interpreter counts.
func (f *fleet) talk(n, times int) {
	_, raw := f.patient("/v1/canvas/create", map[string]string{"title": "Counting"})
	var made struct{ Data struct{ CanvasID string } }
	if json.Unmarshal([]byte(raw), &made) != nil || made.Data.CanvasID == "" {
		f.t.Errorf("there is no canvas: %s", raw)
		return
	}
	for i := range times {
		id := fmt.Sprintf("ar-talk-%d-%d", n, i)
		f.patient("/v1/skill/invoke", map[string]any{"query": "Count", "resultId": id, "canvasId": made.Data.CanvasID})
		if !contiguous(f.follow(id)) {
			f.t.Errorf("events of %s are missing, or came twice", id)
		}
	}
}

// contiguous reports whether numbers are 1, 2, 3 and so on.
func contiguous(numbers []string) bool {
	for i, n := range numbers {
		if n != strconv.Itoa(i+1) {
			return false
		}
	}
	return len(numbers) > 0
}

// holder is the process that holds a paused program, by its continuation token.
func holder(e ended) string {
	payload, _, _ := strings.Cut(e.ContinuationToken, ".")
	text, err := base64.RawURLEncoding.DecodeString(payload)
	var ticket struct {
		Node string `json:"n"`
	}
	if err != nil || json.Unmarshal(text, &ticket) != nil {
		return ""
	}
	return ticket.Node
}

// fateOfPrograms is what became of them.
type fateOfPrograms struct {
	mu       sync.Mutex
	finished int
	lost     map[string]int // by the process that held them, or its address
	wrong    []string
}

// rounds runs a program of five rounds.
func (f *fleet) rounds(n int, fates *fateOfPrograms) {
	var e ended
	node := ""
	read := func(status int, raw, by string) {
		if node == "" {
			node = by // no token says it
		}
		e = ended{}
		if json.Unmarshal([]byte(raw), &e) != nil {
			e.Error = raw
		}
		e.code = status
	}
	read(f.asked("/exec/programmatic", map[string]any{"code": fmt.Sprintf(fiveRounds, n), "tools": tools("ask")}))
	for e.Status == "tool_call_required" {
		node = holder(e)
		read(f.asked("/exec/programmatic", continuing(e)))
	}
	fates.mu.Lock()
	defer fates.mu.Unlock()
	switch {
	case e.Stdout == fmt.Sprintf("%d 10\n", n):
		fates.finished++
	case strings.Contains(e.Error+e.Message, "lost"):
		fates.lost[node]++
	default:
		fates.wrong = append(fates.wrong, fmt.Sprintf("%+v", e))
	}
}

// counts is what one of the two agents of TestProcessesComeAndGo calls.
const counts = "count = globals().get('count', 0) + 1; print('count is', count)"

// Processes behind a balancer that knows nothing are asked to end, killed, and stopped by
// their machine; one has a clock that is a minute ahead; notifications get lost, and the
// database stands still for a while. Meanwhile programs pause and go on, agents call
// tools, conversations count in an interpreter, their streams are read, and programs call
// tools that cost something. What was not on a process that was killed, or stopped for
// longer than its lease, is not lost; what was says so; nothing is executed or charged
// twice.
func TestProcessesComeAndGo(t *testing.T) {
	testenv.Slow(t, "four whole servers at work")
	t.Parallel()
	programs := 100
	if n, err := strconv.Atoi(os.Getenv("PORTICO_TEST_PROGRAMS")); err == nil {
		programs = n
	}
	const payers, times = 15, 3
	agents, talks := max(15, programs/10), max(20, programs/5)
	_, env := script(t, `
- output: [{call: {name: execute_code, arguments: {code: "import time; time.sleep(0.3); print('mark')", timeout: null}}}]
- output: [{text: "Done."}]
- on: Count
  output: [{call: {name: python_repl, arguments: {code: "`+counts+`", timeout: null, reset: null}}}]
- output: [{text: "Counted."}]
`)
	f := startFleet(t, 3, append(env, "TOOL_LEASE=10s", "LOG_LEVEL=error", "DRAIN_DELAY=1s", "DRAIN_TIMEOUT=60s", "DEMO_ENABLED=true",
		"SANDBOX_MAX_PAUSED_PER_USER=500", "SANDBOX_MAX_PAUSED=500", "AGENT_MAX_RUNS=300")...)
	db := databasetest.OpenURL(t, databaseOf(f.envs[0]), nil)
	count := func(sql string, args ...any) int { return app.Count(t, db, sql, args...) }
	nodeAt := func(i int) (id string) {
		require.Eventually(t, func() bool {
			address := variable(f.envs[i], "PORTICO_PEER_LISTEN")
			return database.Unscoped(db.Read(t.Context())).Raw("SELECT node_id FROM nodes WHERE address = ? AND expires_at > now() ORDER BY started_at DESC LIMIT 1", address).Scan(&id).Error == nil && id != ""
		}, time.Minute, 50*time.Millisecond)
		return id
	}

	fates := &fateOfPrograms{lost: map[string]int{}}
	var work sync.WaitGroup
	slots := make(chan struct{}, 25)
	talking := make(chan struct{}, 10)
	talk := func(from, to int) {
		for n := from; n < to; n++ {
			work.Go(func() {
				talking <- struct{}{}
				defer func() { <-talking }()
				f.talk(n, times)
			})
		}
	}
	talk(0, talks/2)
	for n := range programs {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			f.rounds(n, fates)
		})
		switch n {
		case programs / 6: // agents and programs that pay, in the middle of it
			for i := range agents {
				work.Go(func() {
					id := fmt.Sprintf("ar-agent-%d", i)
					status, raw := f.patient("/v1/skill/invoke", map[string]any{"query": "Go", "resultId": id})
					if status != http.StatusOK && !strings.Contains(raw, "ar-agent") {
						t.Errorf("an agent did not begin: %d %s", status, raw)
					}
					if !contiguous(f.follow(id)) {
						t.Errorf("events of %s are missing, or came twice", id)
					}
				})
			}
			for i := range payers {
				work.Go(func() {
					f.patient("/v1/sandbox/execute", map[string]any{
						"language": "python", "resultId": fmt.Sprintf("ar-payer-%d", i),
						"code": "for i in range(20): get_weather(city='Oslo')\nprint('paid')", "toolsets": []string{"demo"},
					})
				})
			}
		case programs / 5:
			require.NoError(t, f.process(0).cmd.Process.Signal(syscall.SIGTERM)) // it finishes its work
		case programs / 3:
			require.NotZero(t, count("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"))
		case programs / 2:
			app.Exec(t, db, "LOCK TABLE tool_call_results, run_events IN EXCLUSIVE MODE; SELECT pg_sleep(3)")
		}
	}
	f.again(0)
	// More of them, while one is killed, and another one is stopped for longer than its lease.
	gone := map[string]bool{nodeAt(1): true, nodeAt(2): true, f.listens[1]: true, f.listens[2]: true}
	talk(talks/2, talks)
	for n := range programs {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			f.rounds(programs+n, fates)
		})
		switch n {
		case programs / 4:
			require.NoError(t, f.process(1).cmd.Process.Kill())
			f.again(1)
		case programs / 2:
			id := nodeAt(2)
			require.NoError(t, f.process(2).cmd.Process.Signal(syscall.SIGSTOP))
			require.Eventually(t, func() bool {
				return count("SELECT count(*) FROM nodes WHERE node_id = ? AND expires_at > now()", id) == 0
			}, time.Minute, 50*time.Millisecond)
			require.NoError(t, f.process(2).cmd.Process.Signal(syscall.SIGCONT))
		}
	}
	work.Wait()

	lost := 0
	for node, n := range fates.lost {
		require.True(t, gone[node], "%d programs of %s were lost, which was not killed", n, node)
		lost += n
	}
	t.Logf("%d programs finished, %d were lost with their process", fates.finished, lost)
	require.Empty(t, fates.wrong)
	require.Equal(t, 2*programs, fates.finished+lost)
	require.Eventually(t, func() bool {
		return count("SELECT count(*) FROM action_results WHERE status IN ('waiting', 'running')") == 0
	}, 2*time.Minute, 200*time.Millisecond, "everything ends")
	require.Equal(t, agents+talks*times, count("SELECT count(DISTINCT result_id) FROM action_results WHERE (result_id LIKE 'ar-agent-%' OR result_id LIKE 'ar-talk-%') AND status = 'finish'"),
		"no run of an agent is lost")
	require.Zero(t, count("SELECT count(*) FROM tool_call_results WHERE status IN ('executing', 'waiting')"))
	f.counted(db)
	paid := count("SELECT count(*) FROM tool_call_results WHERE type = 'ptc' AND status = 'completed' AND toolset_id = 'demo'")
	require.Positive(t, paid)
	require.Equal(t, paid, count("SELECT count(*) FROM credit_usages WHERE usage_type = 'tool_call'"))
	require.Equal(t, paid, count("SELECT count(DISTINCT tool_call_id) FROM credit_usages WHERE usage_type = 'tool_call'"))
	require.Equal(t, count("SELECT CAST(sum(amount) * 100 AS integer) FROM credit_usages"), count("SELECT CAST(sum(balance) * 100 AS integer) FROM credit_debts"),
		"nothing was granted, so that everything is owed")
}

// counted judges what the conversations counted: each number follows from the one before,
// or is the first of an interpreter that the model was told is new.
func (f *fleet) counted(db *database.DB) {
	var calls []struct{ CanvasID, Status, Output, Content string }
	require.NoError(f.t, database.Unscoped(db.Read(f.t.Context())).Raw(`SELECT r.target_id AS canvas_id, c.status, c.output, m.content
		FROM tool_call_results c JOIN action_results r ON r.result_id = c.result_id AND r.version = c.version
		JOIN action_messages m ON m.tool_call_id = c.call_id
		WHERE c.tool_name = 'python_repl' ORDER BY r.target_id, c.pk`).Scan(&calls).Error)
	require.NotEmpty(f.t, calls)
	before, began, anew := 0, "", 0
	for _, c := range calls {
		if c.CanvasID != began {
			before, began = 0, c.CanvasID
		}
		if c.Status == "failed" {
			before++ // it may have counted before its process died
			continue
		}
		var got int
		_, text, _ := strings.Cut(c.Output, "count is ")
		_, err := fmt.Sscanf(text, "%d", &got)
		require.NoError(f.t, err, c.Output)
		fresh := strings.Contains(c.Content, "a new interpreter: nothing of earlier code is there")
		require.Equal(f.t, got == 1, fresh, "%s: %s", c.CanvasID, c.Content)
		if got != 1 {
			require.Contains(f.t, []int{before, before + 1}, got, c.CanvasID)
		} else if before > 0 {
			anew++
		}
		before = got
	}
	f.t.Logf("%d calls counted, %d of them in an interpreter that began anew", len(calls), anew)
}

// variable is one of an environment.
func variable(env []string, name string) (value string) {
	for _, pair := range env {
		if v, is := strings.CutPrefix(pair, name+"="); is {
			value = v
		}
	}
	return value
}

func databaseOf(env []string) string { return variable(env, "DATABASE_URL") }
