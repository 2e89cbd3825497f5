package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/bubblewrap"
	"github.com/portico-run/portico/sdkgen/definition"
	"github.com/portico-run/portico/sdkgen/python"
)

const (
	executions = 60
	coldStarts = 20
	toolCalls  = 2000
)

func newDriver() (*bubblewrap.Driver, error) {
	return bubblewrap.New(bubblewrap.Config{Root: bubblewrap.DefaultRoot(map[string]string{"HOME": os.Getenv("HOME")})})
}

// withEngine runs work on an engine with a pool.
func withEngine(ctx context.Context, pool int, work func(e *sandbox.Engine) error) (err error) {
	d, err := newDriver()
	if err != nil {
		return err
	}
	e := sandbox.New(sandbox.Deps{Driver: d, Pool: pool, MaxConcurrent: 4, QueueTimeout: time.Minute, Logger: slog.New(slog.DiscardHandler)})
	if err := e.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Stop(context.WithoutCancel(ctx))) }()
	return work(e)
}

// firstLine measures from the request to the first line of user code.
func firstLine(ctx context.Context, e *sandbox.Engine) (time.Duration, error) {
	var took time.Duration
	begin := time.Now()
	r, err := e.Run(ctx, sandbox.Job{
		Code: "print('first line')", Timeout: time.Minute,
		Output: func(sandbox.Stream, string) {
			if took == 0 {
				took = time.Since(begin)
			}
		},
	})
	if err == nil && r.Status != sandbox.Completed {
		err = fmt.Errorf("the program ended %s: %s", r.Status, r.Stderr)
	}
	return took, err
}

// benchSandbox measures how soon code runs; the baseline is a bare Python of
// the host, without any isolation.
func benchSandbox(ctx context.Context) ([]result, error) {
	var host, cold, warm, refill []time.Duration
	for range coldStarts {
		begin := time.Now()
		if out, err := exec.CommandContext(ctx, "/usr/bin/python3", "-I", "-c", "print('first line')").Output(); err != nil || len(out) == 0 {
			return nil, fmt.Errorf("python3: %w", err)
		}
		host = append(host, time.Since(begin))
	}
	err := withEngine(ctx, 0, func(e *sandbox.Engine) error {
		for range coldStarts {
			took, err := firstLine(ctx, e)
			if err != nil {
				return err
			}
			cold = append(cold, took)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = withEngine(ctx, 4, func(e *sandbox.Engine) error {
		for range executions {
			for e.Stats().Idle < 4 { // the pool's own speed is measured apart
				if err := pause(ctx, time.Millisecond); err != nil {
					return err
				}
			}
			took, err := firstLine(ctx, e)
			if err != nil {
				return err
			}
			warm = append(warm, took)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	d, err := newDriver()
	if err != nil {
		return nil, err
	}
	if err := d.Open(ctx); err != nil {
		return nil, err
	}
	for range coldStarts {
		begin := time.Now()
		c, err := d.Start(ctx)
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
		refill = append(refill, time.Since(begin))
		if err := c.Close(); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	line := func(what string, took []time.Duration, target time.Duration) result {
		p50 := percentile(took, 0.5)
		return result{
			what: what, measured: ms(p50), baseline: ms(percentile(host, 0.5)), ratio: times(p50, percentile(host, 0.5)),
			target: "≤ " + ms(target), holds: p50 <= target,
		}
	}
	return []result{
		line("request → first line of code, pooled, p50 (host python3)", warm, 2*time.Millisecond),
		line("one more interpreter for the pool, p50 (host python3)", refill, 300*time.Millisecond),
		line("request → first line of code, cold, p50 (host python3)", cold, 350*time.Millisecond),
	}, d.Close()
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// benchToolCall measures a call of the SDK to a gateway that answers at once;
// the baseline is a plain http.client on the same socket.
func benchToolCall(ctx context.Context) ([]result, error) {
	bundle, err := python.Generate([]definition.Toolset{{Key: "bench", Name: "Bench", Tools: []definition.Tool{{
		Name: "go", InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`),
	}}}})
	if err != nil {
		return nil, err
	}
	var files []sandbox.File
	for _, f := range bundle.Files {
		files = append(files, sandbox.File{Path: f.Path, Content: f.Content})
	}
	gateway := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a broken program shows in its output
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"success":true,"data":{"status":"success","data":{"n":1}}}`)
	})
	var took [2]float64
	err = withEngine(ctx, 1, func(e *sandbox.Engine) error {
		r, err := e.Run(ctx, sandbox.Job{
			Code: fmt.Sprintf(toolCallProgram, toolCalls), Files: files, Gateway: gateway, Timeout: time.Minute,
			Env: map[string]string{"REFLY_TOOL_SERVICE_API_URL": "unix://" + sandbox.ToolSocket, "REFLY_TOOL_SERVICE_API_KEY": "rf_x", "REFLY_PTC_CALL_ID": "x"},
		})
		if err != nil {
			return err
		}
		if _, err := fmt.Sscan(strings.TrimSpace(r.Stdout), &took[0], &took[1]); err != nil {
			return fmt.Errorf("%w: %s %s", err, r.Stdout, r.Stderr)
		}
		return nil
	})
	sdk, plain := time.Duration(took[0]*1e9), time.Duration(took[1]*1e9)
	return []result{{
		what: "sandbox → gateway → back through the SDK, p50 (http.client)", measured: ms(sdk), baseline: ms(plain),
		ratio: fmt.Sprintf("%.2f", took[0]/took[1]), target: "≤ 0.5 ms", holds: sdk <= 500*time.Microsecond,
	}}, err
}

const toolCallProgram = `
import http.client, json, socket, statistics, time
from refly_tools.bench import Bench

class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX); self.sock.connect("/run/portico/tool.sock")
plain = Connection("x")
body = json.dumps({"toolsetKey": "bench", "toolName": "go", "arguments": {"n": 1}})

def sdk_call():
    assert Bench.go(n=1)["status"] == "success"
def plain_call():
    plain.request("POST", "/v1/tool/execute", body, {"Content-Type": "application/json"})
    assert json.loads(plain.getresponse().read())["success"]

def measure(call):
    for _ in range(100): call()
    took = []
    for _ in range(%d):
        begin = time.perf_counter(); call(); took.append(time.perf_counter() - begin)
    return statistics.median(took)
print(measure(sdk_call), measure(plain_call))
`
