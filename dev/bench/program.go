package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/portico-run/portico/dev/instance"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/sdkgen/definition"
	"github.com/portico-run/portico/sdkgen/python"
)

const threads = 8

// threadedProgram calls from several threads for so many seconds and prints how
// many calls a second that were.
const threadedProgram = `
import time
from concurrent.futures import ThreadPoolExecutor
from refly_tools.demo import Demo

def calls(until):
    n = 0
    while time.perf_counter() < until:
        answer = Demo.list_cities(min_population=13000000, file_name_title="x")
        assert answer["status"] == "success", answer
        n += 1
    return n

with ThreadPoolExecutor(max_workers=%[1]d) as pool:
    for seconds in (0.3, %[2]g):
        begin = time.perf_counter()
        done = sum(pool.map(calls, [begin + seconds] * %[1]d))
    print(done / (time.perf_counter() - begin))
`

// benchProgram measures a program of several threads end to end: from the
// sandbox over the SDK to the records. The same program calls the floor as the
// gateway of its sandbox.
func benchProgram(ctx context.Context, o options) (rows []result, err error) {
	files, err := demoSDK()
	if err != nil {
		return nil, err
	}
	one := func(p *portico) ([]instance.Caller, error) { return p.inRuns(ctx) }
	err = besideFloor(ctx, 1, one, func(p *portico, f *floor, _ string, who []instance.Caller) error {
		return withEngine(ctx, drivers()[0], 1, func(e *sandbox.Engine) error {
			gateway := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				who[0].Header(r.Header)
				f.ServeHTTP(w, r)
			})
			s, err := takeTurns(ctx, o, p.programRate, func(ctx context.Context, d time.Duration) (float64, error) {
				r, err := e.Run(ctx, sandbox.Job{
					Code: fmt.Sprintf(threadedProgram, threads, d.Seconds()), Files: files, Gateway: gateway, Timeout: d + time.Minute,
					Env: map[string]string{"REFLY_TOOL_SERVICE_API_URL": "unix://" + sandbox.ToolSocket, "REFLY_TOOL_SERVICE_API_KEY": "rf_x", "REFLY_PTC_CALL_ID": "x"},
				})
				if err != nil {
					return 0, err
				}
				return printed(r.Stdout, r.Stderr)
			})
			if err == nil {
				rows = append(rows, compared(fmt.Sprintf("calls of a program of %d threads, from the sandbox (lean floor as its gateway)", threads), s[0], s[1], 0.8))
			}
			return err
		})
	})
	return rows, err
}

// demoSDK is the SDK of the only tool that is called.
func demoSDK() (files []sandbox.File, err error) {
	bundle, err := python.Generate([]definition.Toolset{{Key: "demo", Name: "Demo", Tools: []definition.Tool{{
		Name: "list_cities", InputSchema: json.RawMessage(`{"type":"object","properties":{"min_population":{"type":"integer"},"file_name_title":{"type":"string"}}}`),
	}}}})
	for _, f := range bundle.Files {
		files = append(files, sandbox.File{Path: f.Path, Content: f.Content})
	}
	return files, err
}

// programRate runs the program in the server's own sandbox.
func (p *portico) programRate(ctx context.Context, d time.Duration) (float64, error) {
	body, err := json.Marshal(map[string]any{"language": "python", "code": fmt.Sprintf(threadedProgram, threads, d.Seconds())})
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/v1/sandbox/execute", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	instance.Caller{Key: p.keys[0]}.Header(r.Header)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var answer struct {
		Data struct{ Stdout, Stderr string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return 0, fmt.Errorf("%s: %w", resp.Status, err)
	}
	return printed(answer.Data.Stdout, answer.Data.Stderr)
}

func printed(stdout, stderr string) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(stdout), 64)
	if err != nil {
		return 0, fmt.Errorf("the program printed %q: %s", stdout, stderr)
	}
	return v, nil
}
