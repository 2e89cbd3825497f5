package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/sdkgen/definition"
	"github.com/portico-run/portico/sdkgen/python"
)

const toolCalls = 2000

// benchToolCall measures a call of the SDK to a gateway that answers at once;
// the baseline is a plain http.client on the same socket.
func benchToolCall(ctx context.Context, _ options) ([]result, error) {
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
	err = withEngine(ctx, drivers()[0], 1, func(e *sandbox.Engine) error {
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
