package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/portico-run/portico/dev/instance"
)

// job is one piece of work, of one user. It reports calls that it timed.
type job struct {
	name string
	do   func(ctx context.Context, w *world, key string, r *recorder) error
}

const (
	callsOfProgram = 20
	callsInRun     = 10
	uploadSize     = 200 << 10
)

// mix is the work in the order in which it comes, again and again.
func mix() []job {
	calls, program := job{"calls", doCalls}, job{"program", doProgram}
	stream, pause, upload, agent := job{"stream", doStream}, job{"pause", doPause}, job{"upload", doUpload}, job{"agent", doAgent}
	return []job{calls, program, stream, pause, calls, upload, program, stream, calls, agent, pause, upload}
}

// inRun begins a run of which somebody else executes the program, and ends it
// after the work.
func inRun(ctx context.Context, w *world, key string, work func(who instance.Caller) error) error {
	var begun struct {
		Data struct{ ResultID, ToolCallID string }
	}
	if err := w.post(ctx, "/v1/action/register", instance.Caller{Key: key}, map[string]any{"title": "load", "code": "pass"}, &begun); err != nil {
		return err
	}
	who := instance.Caller{Key: key, Run: begun.Data.ResultID, Program: begun.Data.ToolCallID}
	worked := work(who)
	finished := w.post(ctx, "/v1/action/finish", instance.Caller{Key: key}, map[string]any{"resultId": who.Run, "status": "finish"}, nil)
	if worked != nil && !errors.Is(worked, errRefused) {
		return worked // which a refusal of the end does not change
	}
	return cmp.Or(finished, worked)
}

// doCalls makes calls in a run, one after the other.
func doCalls(ctx context.Context, w *world, key string, r *recorder) error {
	return inRun(ctx, w, key, func(who instance.Caller) error {
		for range callsInRun {
			took, err := w.call(ctx, who, "demo", "list_cities")
			if err != nil {
				return err
			}
			r.call(direct, took)
		}
		return nil
	})
}

// timedProgram times its own calls.
const timedProgram = `
import json, time
from refly_tools.demo import Demo
took, problems = [], []
for _ in range(%d):
    begin = time.perf_counter()
    answer = Demo.list_cities(min_population=0)
    took.append(time.perf_counter() - begin)
    if answer["status"] != "success":
        problems.append(answer.get("error"))
print(json.dumps({"took": took, "problems": problems}))
`

// doProgram runs a program that calls tools.
func doProgram(ctx context.Context, w *world, key string, r *recorder) error {
	var answer struct {
		Data struct{ Status, Stdout, Stderr string }
	}
	err := w.post(ctx, "/v1/sandbox/execute", instance.Caller{Key: key}, map[string]any{"language": "python", "code": fmt.Sprintf(timedProgram, callsOfProgram), "toolsets": []string{"demo"}}, &answer)
	if err != nil {
		return err
	}
	var printed struct {
		Took     []float64
		Problems []string
	}
	if err := json.Unmarshal([]byte(answer.Data.Stdout), &printed); err != nil {
		return fmt.Errorf("a program ended %s: %.300s", answer.Data.Status, answer.Data.Stderr)
	}
	if len(printed.Problems) > 0 || len(printed.Took) != callsOfProgram {
		return fmt.Errorf("%d calls of a program failed: %.300s", len(printed.Problems), strings.Join(printed.Problems, "; "))
	}
	for _, seconds := range printed.Took {
		r.call(inProgram, time.Duration(seconds*float64(time.Second)))
	}
	return nil
}

// doStream watches a run, makes calls in it and leaves when it saw them.
func doStream(ctx context.Context, w *world, key string, _ *recorder) error {
	const calls = 3
	return inRun(ctx, w, key, func(who instance.Caller) error {
		ctx, leave := context.WithCancel(ctx)
		defer leave() // in the middle, as clients do
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.server.URL+"/v1/action/"+who.Run+"/events", nil)
		if err != nil {
			return err
		}
		request.Header.Set("X-API-Key", key)
		resp, err := w.client.Do(request)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if err := accepted(resp, nil); err != nil {
			return fmt.Errorf("watch a run: %w", err)
		}
		made := make(chan error, 1)
		go func() {
			for range calls {
				if _, err := w.call(ctx, who, "demo", "list_cities"); err != nil {
					made <- err
					leave()
					return
				}
			}
			made <- nil
		}()
		seen := 0
		for lines := bufio.NewScanner(resp.Body); seen < calls && lines.Scan(); {
			if strings.HasPrefix(lines.Text(), `data: {"event":"tool_call_end"`) {
				seen++
			}
		}
		if err := <-made; err != nil {
			return err
		}
		if seen < calls {
			return fmt.Errorf("a stream showed %d of %d calls", seen, calls)
		}
		return nil
	})
}

// doPause runs a program that calls a tool of its caller's twice.
func doPause(ctx context.Context, w *world, key string, _ *recorder) error {
	type answer struct {
		Status            string
		Error             any
		ContinuationToken string `json:"continuation_token"`
		ToolCalls         []struct {
			ID string
		} `json:"tool_calls"`
	}
	var a answer
	body := map[string]any{"code": "print(await ask(n=1) + await ask(n=2))", "tools": []map[string]string{{"name": "ask"}}}
	for round := range 3 {
		a = answer{}
		if err := w.post(ctx, "/exec/programmatic", instance.Caller{Key: key}, body, &a); err != nil {
			if round > 0 && errors.Is(err, errRefused) {
				return fmt.Errorf("a program that had begun was refused: %s", err.Error())
			}
			return err
		}
		if a.Status != "tool_call_required" {
			break
		}
		results := make([]map[string]any, len(a.ToolCalls))
		for n, c := range a.ToolCalls {
			results[n] = map[string]any{"call_id": c.ID, "result": 1}
		}
		body = map[string]any{"continuation_token": a.ContinuationToken, "tool_results": results}
	}
	if a.Status != "completed" {
		return fmt.Errorf("a program that paused ended %s: %v", a.Status, a.Error)
	}
	return nil
}

// doUpload stores a file.
func doUpload(ctx context.Context, w *world, key string, _ *recorder) error {
	return w.upload(ctx, key, bytes.Repeat([]byte("x"), uploadSize))
}

// doAgent lets an agent work and watches it to its end.
func doAgent(ctx context.Context, w *world, key string, _ *recorder) error {
	body, err := json.Marshal(map[string]any{"query": "Call the demo's tool three times.", "toolsets": []string{"demo"}})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.server.URL+"/v1/skill/streamInvoke", bytes.NewReader(body))
	if err != nil {
		return err
	}
	instance.Caller{Key: key}.Header(r.Header)
	resp, err := w.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := accepted(resp, nil); err != nil {
		return fmt.Errorf("start an agent: %w", err)
	}
	var last string
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			last = data
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("watch an agent: %w", err)
	}
	if !strings.Contains(last, `"event":"end"`) || !strings.Contains(last, `"status":"finish"`) {
		return fmt.Errorf("an agent ended: %.300s", last)
	}
	return nil
}
