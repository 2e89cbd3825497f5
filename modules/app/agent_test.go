package app_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/scripted"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app"
)

// script starts a scripted model and returns it with what configures a server
// to use it.
func script(t *testing.T, text string) (*scripted.Server, []string) {
	t.Helper()
	parsed, err := scripted.Parse([]byte("name: test\nturns:\n" + text))
	require.NoError(t, err)
	s := scripted.New(parsed)
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	return s, []string{"MODEL_NAME=scripted", "MODEL_BASE_URL=" + web.URL, "MODEL_API_KEY=sk-model-secret", "MODEL_HEADERS=X-Team: header-secret"}
}

// eventsOf reads a stream to its end.
func eventsOf(t *testing.T, body *bufio.Scanner) []map[string]any {
	t.Helper()
	var list []map[string]any
	body.Buffer(nil, 8<<20)
	for body.Scan() {
		data, ok := strings.CutPrefix(body.Text(), "data: ")
		if !ok {
			continue
		}
		var e map[string]any
		require.NoError(t, json.Unmarshal([]byte(data), &e))
		list = append(list, e)
	}
	return list
}

func (s *instance) stream(t *testing.T, key string, body map[string]any) (*http.Response, *bufio.Scanner) {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/skill/streamInvoke", strings.NewReader(string(text)))
	require.NoError(t, err)
	r.Header.Set("X-API-Key", key)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { answer.Body.Close() })
	return answer, bufio.NewScanner(answer.Body)
}

type result struct {
	Status     string
	ModelName  string
	PTCEnabled bool
	Errors     []string
	Messages   []struct {
		Type, Content, ToolCallID string
		ToolCallMeta              map[string]any
		UsageMeta                 map[string]int
	}
}

func (s *instance) result(t *testing.T, key, id string) result {
	t.Helper()
	a := s.send(key, "GET", "/v1/action/result?resultId="+id, nil)
	require.Equal(t, 200, a.status, a.raw)
	var r result
	require.NoError(t, json.Unmarshal(a.body.Data, &r))
	return r
}

// finished waits for the end of a run through its stream.
func (s *instance) finished(t *testing.T, key, id string) result {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/action/"+id+"/events", nil)
	require.NoError(t, err)
	r.Header.Set("X-API-Key", key)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	eventsOf(t, bufio.NewScanner(answer.Body))
	return s.result(t, key, id)
}

// A model writes a program; the program calls tools; the model sees what it
// printed and answers. What the tools returned is in no request to the model,
// and everything is shown live and written down.
func TestAgentWritesCode(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	model, env := script(t, `
- expect: [execute_code, search_tools, "Classes: import them as the toolset says, from refly_tools.", "get_weather", "What is the weather"]
  reject: ["demo_get_weather"]
  output:
    - reasoning: "I need the weather."
    - text: "I look it up. "
    - call:
        name: exec_code
        arguments:
          code: |
            from refly_tools.demo import Demo
            r = [Demo.get_weather(city=c, file_name_title=c) for c in ("Oslo", "Rome", "Cairo", "Oslo", "Rome")]
            print("calls", len(r), "failed", sum(x["status"] != "success" for x in r))
          timeout: null
- expect: ["calls 5 failed 0"]
  reject: [cloudy]
  output: [{text: "All five "}, {text: "are fine."}]
  usage: {input: 900, output: 40}
`)
	each(t, func(t *testing.T, s *instance) {
		answer, body := s.stream(t, s.key, map[string]any{"query": "What is the weather?", "toolsets": []string{"demo"}, "title": "Weather"})
		require.Equal(t, 200, answer.StatusCode)
		list := eventsOf(t, body)
		var names []string
		var text strings.Builder
		for _, e := range list {
			names = append(names, fmt.Sprint(e["event"]))
			if e["event"] == "stream" {
				text.WriteString(fmt.Sprint(e["content"]))
			}
		}
		require.Equal(t, "start", names[0])
		require.Equal(t, "end", names[len(names)-1])
		require.Equal(t, 6, count(names, "tool_call_start"), "%v", names)
		require.Equal(t, 6, count(names, "tool_call_end"), "%v %v", names, s.result(t, s.key, fmt.Sprint(list[0]["resultId"])))
		require.Equal(t, 2, count(names, "token_usage"))
		require.Equal(t, "I look it up. All five are fine.", text.String())
		var written strings.Builder
		for _, e := range list {
			if e["event"] == "tool_call_stream" {
				require.Equal(t, "exec_code", e["toolCallMeta"].(map[string]any)["toolName"])
				written.WriteString(fmt.Sprint(e["content"]))
			}
		}
		var arguments struct{ Code string }
		require.NoError(t, json.Unmarshal([]byte(written.String()), &arguments), "the call, as the model wrote it")
		require.Contains(t, arguments.Code, "from refly_tools.demo import Demo")

		r := s.result(t, s.key, fmt.Sprint(list[0]["resultId"]))
		require.Equal(t, "finish", r.Status)
		require.True(t, r.PTCEnabled)
		require.Equal(t, "scripted:test", r.ModelName)
		require.Len(t, r.Messages, 4+5, "one for each call of the program, too")
		for _, m := range r.Messages[3:8] {
			require.Equal(t, "get_weather", m.ToolCallMeta["toolName"])
			require.True(t, strings.HasPrefix(m.ToolCallID, "ptc:"))
			require.Empty(t, m.Content, "the model did not see it")
		}
		require.Equal(t, "human", r.Messages[0].Type)
		require.Equal(t, "ai", r.Messages[1].Type)
		require.Equal(t, "tool", r.Messages[2].Type)
		require.Equal(t, "calls 5 failed 0\n", r.Messages[2].Content)
		require.Equal(t, "execute_code", r.Messages[2].ToolCallMeta["toolName"])
		require.True(t, strings.HasPrefix(r.Messages[2].ToolCallID, "agent:"))
		require.Equal(t, "All five are fine.", r.Messages[8].Content)
		require.Equal(t, map[string]int{"inputTokens": 900, "outputTokens": 40}, r.Messages[8].UsageMeta)
		require.NotContains(t, s.log.String(), "secret")
		// 900 tokens in and 40 out of the second answer; the first by length.
		usage := s.send(s.key, "GET", "/v1/credit/usage", nil)
		require.Equal(t, 2, strings.Count(usage.raw, `"usageType":"model_call"`), usage.raw)
		require.Contains(t, usage.raw, `"amount":0.094`)
		require.Contains(t, usage.raw, `"modelName":"scripted:test"`)
		for _, raw := range model.Requests() {
			require.Equal(t, 10, strings.Count(string(raw), `"type":"function"`), "builtins, and no other schema")
		}
	}, append(env, "MODEL_INPUT_PRICE=100", "MODEL_OUTPUT_PRICE=100")...)
}

func count(list []string, want string) (n int) {
	for _, v := range list {
		if v == want {
			n++
		}
	}
	return n
}

// With PTC off, a model gets the tools themselves, with their whole schemas,
// and no way to run code; it is billed the same.
func TestAgentWithoutCode(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	_, env := script(t, `
- expect: [demo_get_weather, get_time]
  reject: [execute_code, search_tools, refly_tools]
  output: [{call: {name: demo_get_weather, arguments: {city: Oslo, file_name_title: x}}}, {call: {name: get_time, arguments: {zone: Mars/Base}}}]
- expect: [celsius, "there is no time zone"]
  output: [{text: "Cold."}]
`)
	each(t, func(t *testing.T, s *instance) {
		a := s.send(s.key, "POST", "/v1/skill/invoke", map[string]any{"input": map[string]any{"query": "Weather in Oslo?"}, "toolsets": []string{"demo"}, "resultId": "ar-plain"})
		require.Equal(t, 200, a.status, a.raw)
		r := s.finished(t, s.key, "ar-plain")
		require.Equal(t, "finish", r.Status, "%v", r.Errors)
		require.False(t, r.PTCEnabled)
		require.Equal(t, 1, s.count("SELECT COUNT(*) FROM credit_usages WHERE action_result_id = 'ar-plain'"))
		require.Equal(t, 2, s.count("SELECT COUNT(*) FROM tool_call_results WHERE result_id = 'ar-plain' AND type = 'agent'"))
		// The same id again is its next version.
		again := s.send(s.key, "POST", "/v1/skill/invoke", map[string]any{"query": "Weather in Oslo?", "toolsets": []string{"demo"}, "resultId": "ar-plain"})
		require.Contains(t, again.raw, `"version":1`)
		require.Equal(t, "finish", s.finished(t, s.key, "ar-plain").Status)
	}, append(env, "PTC_MODE=off")...)
}

// The record of a run says what it was and what was asked.
func TestWhatARunRecords(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	_, env := script(t, "- output: [{text: Hello.}]")
	s := serve(t, databasetest.URL(t, database.SQLite), env...)
	require.Equal(t, "finish", s.invoke(t, map[string]any{"query": "Who?", "title": "Mine", "resultId": "ar-asked"}).Status)
	a := s.send(s.key, "GET", "/v1/action/result?resultId=ar-asked", nil)
	var asked struct {
		Type, Title string
		Input       map[string]any
	}
	require.NoError(t, json.Unmarshal(a.body.Data, &asked))
	require.Equal(t, "skill", asked.Type)
	require.Equal(t, "Mine", asked.Title)
	require.Equal(t, "Who?", asked.Input["query"])
	o := s.run(map[string]any{"code": "pass"})
	require.Contains(t, s.send(s.key, "GET", "/v1/action/result?resultId="+o.ResultID, nil).raw, `"type":"execute_code"`)
}

// An abort ends the model's tools, from any server; a run of somebody else's
// cannot be seen, watched or ended.
func TestAgentAborted(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	_, env := script(t, `
- output: [{call: {name: execute_code, arguments: {code: "print('on', flush=True)\nimport time; time.sleep(100)", timeout: null}}}]
`)
	url := databasetest.URL(t, database.Postgres)
	here, there := serve(t, url, env...), serve(t, url, env...)
	answer, body := here.stream(t, here.key, map[string]any{"query": "Wait", "resultId": "ar-long"})
	require.Equal(t, 200, answer.StatusCode)
	for body.Scan() {
		if strings.Contains(body.Text(), `"content":"on"`) {
			break
		}
	}
	ben := here.another("ben")
	require.Equal(t, 404, here.send(ben, "POST", "/v1/action/abort", map[string]any{"resultId": "ar-long"}).status)
	require.Equal(t, 404, here.send(ben, "GET", "/v1/action/result?resultId=ar-long", nil).status)
	begin := time.Now()
	a := there.send(here.key, "POST", "/v1/action/abort", map[string]any{"resultId": "ar-long"})
	require.Equal(t, 200, a.status, a.raw)
	require.Contains(t, a.raw, `"aborted":true`)
	r := here.finished(t, here.key, "ar-long")
	require.Equal(t, "aborted", r.Status)
	// The program is ended as well, and recorded.
	require.Eventually(t, func() bool {
		return here.count("SELECT COUNT(*) FROM tool_call_results WHERE result_id = 'ar-long' AND status = 'failed'") == 1
	}, 20*time.Second, 20*time.Millisecond)
	require.Less(t, time.Since(begin), 20*time.Second)
	require.Contains(t, there.send(here.key, "POST", "/v1/action/abort", map[string]any{"resultId": "ar-long"}).raw, `"aborted":false`)
}

func TestAgentFailures(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	_, env := script(t, "- fail: [{status: 400, code: model_not_found, message: no such model}]\n  output: [{text: Fine now.}]\n")
	s := serve(t, databasetest.URL(t, database.SQLite), env...)
	answer, body := s.stream(t, s.key, map[string]any{"query": "Hi"})
	require.Equal(t, 200, answer.StatusCode)
	list := eventsOf(t, body)
	require.Equal(t, "error", list[1]["event"])
	require.Contains(t, list[1]["originError"], "no such model")
	id := fmt.Sprint(list[0]["resultId"])
	r := s.result(t, s.key, id)
	require.Equal(t, "error", r.Status)
	require.Contains(t, r.Errors[0], "status 400 (model_not_found): no such model")
	// It can be run again.
	s.send(s.key, "POST", "/v1/skill/invoke", map[string]any{"query": "Hi", "resultId": id})
	require.Equal(t, "finish", s.finished(t, s.key, id).Status)

	for want, body := range map[string]map[string]any{
		"query is empty":          {"query": " "},
		"toolChoice is not":       {"query": "x", "toolChoice": "maybe"},
		"There is no such canvas": {"query": "x", "canvasId": "c-none"},
		"resultId must be":        {"query": "x", "resultId": "a b"},
		"toolsets":                {"query": "x", "tolsets": []string{"demo"}},
	} {
		for _, path := range []string{"/v1/skill/invoke", "/v1/skill/streamInvoke"} {
			a := s.send(s.key, "POST", path, body)
			require.GreaterOrEqual(t, a.status, 400, path)
			require.Contains(t, a.raw, want, path)
		}
	}
	none := serve(t, databasetest.URL(t, database.SQLite))
	a := none.send(none.key, "POST", "/v1/skill/invoke", map[string]any{"query": "x"})
	require.Equal(t, 503, a.status)
	require.Contains(t, a.raw, "MODEL_NAME")
}

// Fifty runs on two processes over one database: one process is killed. The runs of
// the other finish untouched; those of the dead one go on in the survivor, on its
// streams. What was being executed is told to the model as interrupted.
func TestAgentsOfAKilledProcess(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	model, env := script(t, `
- output: [{call: {name: execute_code, arguments: {code: "import time; time.sleep(0.7); print('mark')", timeout: null}}}]
- output: [{text: "Done."}]
`)
	env = append(env, "TOOL_LEASE=10s", "LOG_LEVEL=error", "SANDBOX_MAX_CONCURRENT=30", "SANDBOX_MAX_PER_USER=30")
	url := databasetest.URL(t, database.Postgres)
	survivor := serve(t, url, env...)
	listen := testenv.FreeAddress(t)
	dies := spawn(t, environ(t, url, append(env, "PORTICO_LISTEN="+listen, "ENDPOINT=http://"+listen)...))
	const each = 25
	start := func(at, name string) {
		a := (&instance{t: t, url: at}).send(survivor.key, "POST", "/v1/skill/invoke", map[string]any{"query": "Go", "resultId": name})
		require.Equal(t, 200, a.status, a.raw)
		require.Equal(t, 1, survivor.count("SELECT COUNT(*) FROM agent_turns WHERE step = 0 AND result_id = '"+name+"'"), "what was accepted, another process can go on with")
	}
	for n := range each {
		start(survivor.url, fmt.Sprintf("ar-lives-%d", n))
		start("http://"+listen, fmt.Sprintf("ar-dies-%d", n))
	}
	ended := make(chan string, 2*each)
	for n := range each {
		for _, name := range []string{fmt.Sprintf("ar-lives-%d", n), fmt.Sprintf("ar-dies-%d", n)} {
			go func() {
				r := survivor.finished(t, survivor.key, name)
				ended <- strings.Join(append([]string{r.Status}, r.Errors...), ": ")
			}()
		}
	}
	require.Eventually(t, func() bool {
		return survivor.count("SELECT COUNT(*) FROM tool_call_results WHERE result_id LIKE 'ar-dies-%' AND status = 'completed'") > 0
	}, time.Minute, 20*time.Millisecond)
	require.NoError(t, dies.cmd.Process.Kill())
	statuses := map[string]int{}
	for range 2 * each {
		statuses[<-ended]++
	}
	require.Equal(t, 2*each, statuses["finish"], "%v", statuses)
	require.Equal(t, each, survivor.count("SELECT COUNT(*) FROM action_results WHERE result_id LIKE 'ar-lives-%' AND status = 'finish'"))
	require.Zero(t, survivor.count("SELECT COUNT(*) FROM tool_call_results WHERE status = 'executing'"))
	require.Zero(t, survivor.count("SELECT COUNT(*) FROM action_results WHERE status = 'running'"))
	interrupted := survivor.count("SELECT COUNT(*) FROM tool_call_results WHERE result_id LIKE 'ar-dies-%' AND status = 'failed'")
	require.Positive(t, interrupted)
	for n := range each {
		raw := survivor.send(survivor.key, "GET", fmt.Sprintf("/v1/action/result?resultId=ar-dies-%d", n), nil).raw
		require.Contains(t, raw, `"name":"answer","content":"Done."`)
	}
	told := 0
	for _, asked := range model.Requests() {
		told += strings.Count(string(asked), "was interrupted")
	}
	require.Equal(t, interrupted, told, "the model is told of each once")
}

// A process dies between recording how code ended and writing down what the model is given
// of it: the process that goes on gives the model the same text, and writes it down.
func TestWhatAKilledProcessHadNotSaid(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	model, env := script(t, `
- on: Stay
  output: [{call: {name: python_repl, arguments: {code: "print('mark')", timeout: null, reset: null}}}]
- output: [{text: "Done."}]
- on: Fail
  output: [{call: {name: execute_code, arguments: {code: "print('mark'); raise SystemExit('no more')", timeout: null}}}]
- output: [{text: "Done."}]
- on: Reset
  output: [{call: {name: python_repl, arguments: {code: "", timeout: null, reset: true}}}]
- output: [{text: "Done."}]
`)
	env = append(env, "TOOL_LEASE=2s", "LOG_LEVEL=error")
	url := databasetest.URL(t, database.Postgres)
	survivor := serve(t, url, env...)
	listen := testenv.FreeAddress(t)
	dies := spawn(t, environ(t, url, append(env, "PORTICO_LISTEN="+listen, "ENDPOINT=http://"+listen)...))
	db := databasetest.OpenURL(t, url, nil)
	given := map[string][]string{}
	queries := []string{"Stay", "Fail", "Reset"}
	ask := func(at, id, query string) {
		a := (&instance{t: t, url: at}).send(survivor.key, "POST", "/v1/skill/invoke", map[string]any{"query": query, "resultId": id})
		require.Equal(t, 200, a.status, a.raw)
	}
	for _, q := range queries {
		ask(survivor.url, "ar-lives-"+q, q)
		survivor.finished(t, survivor.key, "ar-lives-"+q)
	}
	// What is written down of a call takes longer than its process lives.
	app.Exec(t, db, `CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(600); RETURN NEW; END $$;
		CREATE TRIGGER stall BEFORE UPDATE ON action_messages FOR EACH ROW WHEN (OLD.tool_call_id <> '' AND OLD.content IS DISTINCT FROM NEW.content) EXECUTE FUNCTION stall()`)
	for _, q := range queries {
		ask("http://"+listen, "ar-dies-"+q, q)
	}
	require.Eventually(t, func() bool {
		return survivor.count("SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'") == len(queries)
	}, time.Minute, 20*time.Millisecond)
	require.NoError(t, dies.cmd.Process.Kill())
	app.Exec(t, db, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'")
	app.Exec(t, db, "DROP TRIGGER stall ON action_messages")
	for _, q := range queries {
		survivor.finished(t, survivor.key, "ar-dies-"+q)
		for _, name := range []string{"ar-lives-", "ar-dies-"} {
			var content string
			require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw("SELECT content FROM action_messages WHERE result_id = ? AND tool_call_id <> ''", name+q).Scan(&content).Error)
			given[q] = append(given[q], content)
		}
		require.NotEmpty(t, given[q][0])
		require.Equal(t, given[q][0], given[q][1], q)
	}
	require.Contains(t, given["Stay"][1], "a new interpreter: nothing of earlier code is there")
	told, took := map[string]int{}, regexp.MustCompile(`after \d+ ms`)
	for _, asked := range model.Requests() {
		var request struct {
			Input []struct{ Type, Output string }
		}
		require.NoError(t, json.Unmarshal(asked, &request))
		for _, item := range request.Input {
			if item.Type == "function_call_output" {
				told[took.ReplaceAllString(item.Output, "")]++
			}
		}
	}
	require.Len(t, told, len(queries), "the model is told the same by both: %v", told)
}

// What a model can look up: the whole of an earlier result, and earlier runs;
// nobody else's.
func TestAgentReadsWhatWas(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	_, env := script(t, `
- output: [{call: {name: help, arguments: {name: demo.get_weather}}}, {call: {name: help, arguments: {name: nothing}}}, {call: {name: search_tools, arguments: {query: "weather city"}}}, {call: {name: search_tools, arguments: {query: zzz}}}]
- expect: ["get_weather(city: str", "Name of the city, such as Rome", "There is no tool \"nothing\"", "No tool matches"]
  output: [{text: "First answer."}]
`)
	url := databasetest.URL(t, database.Postgres)
	s := serve(t, url, env...)
	s.send(s.key, "POST", "/v1/skill/invoke", map[string]any{"query": "First?", "resultId": "ar-first", "toolsets": []string{"demo"}})
	r := s.finished(t, s.key, "ar-first")
	require.Equal(t, "finish", r.Status, "%v", r.Errors)

	for key, want := range map[string]string{s.key: "First answer.", s.another("ben"): "there is no run"} {
		_, second := script(t, `
- output: [{call: {name: read_agent_result, arguments: {result_id: ar-first}}}, {call: {name: read_tool_result, arguments: {call_id: "agent:none", offset: 0}}}, {call: {name: get_time, arguments: {zone: Europe/Oslo}}}]
- expect: ["`+want+`", "there is no result of a call", "+0"]
  output: [{text: ok}]
`)
		other := serve(t, url, second...)
		a := other.send(key, "POST", "/v1/skill/invoke", map[string]any{"query": "Second?"})
		var started struct{ ResultID string }
		require.NoError(t, json.Unmarshal(a.body.Data, &started))
		r := other.finished(t, key, started.ResultID)
		require.Equal(t, "finish", r.Status, "%v", r.Errors)
	}
}
