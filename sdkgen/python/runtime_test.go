package python_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/sdkgen/definition"
	"github.com/portico-run/portico/sdkgen/python"
)

// both runs a test over TCP and over a unix socket.
func both(t *testing.T, test func(t *testing.T, unix bool)) {
	t.Helper()
	for name, unix := range map[string]bool{"tcp": false, "unix": true} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, unix) })
	}
}

func TestCallOnTheWire(t *testing.T) {
	testenv.Slow(t, "a Python for each case")
	t.Parallel()
	both(t, func(t *testing.T, unix bool) {
		s := newService(t, unix, alwaysGood)
		out, stderr := program(t, `show(FalImage.text_to_image("a cat é", file_name_title="title", size="wide", seed=None))`, s.env(
			"REFLY_PTC_CALL_ID=agent:1", "REFLY_RESULT_ID=ar-1", "REFLY_RESULT_VERSION=2", "REFLY_CANVAS_ID=c-1", "REFLY_PTC_DEBUG=true"))
		require.JSONEq(t, `{"status":"success","data":{"url":"x"}}`, out)
		got := s.requests()
		require.Len(t, got, 1)
		require.Equal(t, "POST /v1/tool/execute", got[0].Method+" "+got[0].Path)
		require.JSONEq(t, `{"toolsetKey":"fal_image","toolName":"text-to-image","arguments":
			{"prompt":"a cat é","file_name_title":"title","size":"wide","count":1,"guidance":7.5}}`, got[0].Body)
		for header, want := range map[string]string{
			"Authorization": "Bearer rf_secret", "Content-Type": "application/json", "x-ptc-call-id": "agent:1",
			"x-refly-result-id": "ar-1", "x-refly-result-version": "2", "x-refly-canvas-id": "c-1",
		} {
			require.Equal(t, want, got[0].Header.Get(header), header)
		}
		require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, got[0].Key)
		require.Regexp(t, `^\[refly_tools\] fal_image\.text-to-image success \d+ms attempts=200\n$`, stderr)
	})
}

func TestAbsentContextIsNotSent(t *testing.T) {
	t.Parallel()
	s := newService(t, false, alwaysGood)
	_, stderr := program(t, `draw()`, []string{"REFLY_TOOL_SERVICE_API_URL=" + s.baseURL + "/", "REFLY_RESULT_ID= "})
	require.Empty(t, stderr)
	h := s.requests()[0].Header
	for _, name := range []string{"Authorization", "x-ptc-call-id", "x-refly-result-id", "x-refly-result-version", "x-refly-canvas-id"} {
		require.Empty(t, h.Values(name), name)
	}
}

func TestDebugWithoutStderr(t *testing.T) {
	t.Parallel()
	s := newService(t, false, alwaysGood)
	out, _ := program(t, "import sys; sys.stderr.close()\nshow(draw())", s.env("REFLY_PTC_DEBUG=true"))
	require.Equal(t, "success", result(t, out)["status"])
}

func TestNullsAndDefaults(t *testing.T) {
	t.Parallel()
	s := newService(t, false, alwaysGood)
	program(t, `
Kinds.nulls(must=None)
Kinds.nulls(None, typed=None, open_api=None, variant=None, counted=None, choice=None)
Kinds.scalars(s="x", i=1, n=2, b=True, nothing=None, anything=None, always=0)
Kinds.open("x", other=1, extra__=None)
Kinds.open_only(a="b")
`, s.env())
	var got []string
	for _, r := range s.requests() {
		var body struct{ Arguments map[string]any }
		require.NoError(t, json.Unmarshal([]byte(r.Body), &body))
		b, err := json.Marshal(body.Arguments)
		require.NoError(t, err)
		got = append(got, string(b))
	}
	require.Equal(t, []string{
		`{"counted":5,"must":null}`,
		`{"choice":null,"counted":null,"must":null,"open_api":null,"typed":null}`,
		`{"always":0,"anything":null,"b":true,"i":1,"n":2,"nothing":null,"s":"x"}`,
		`{"extra":"x","other":1}`,
		`{"a":"b"}`,
	}, got)
}

func TestThreadsShareConnections(t *testing.T) {
	testenv.Slow(t, "a Python for each case")
	t.Parallel()
	both(t, func(t *testing.T, unix bool) {
		s := newService(t, unix, alwaysGood)
		out, _ := program(t, `
from concurrent.futures import ThreadPoolExecutor
results = []
for _ in range(4):
    with ThreadPoolExecutor(8) as pool:
        results += pool.map(lambda i: draw(seed=i), range(50))
show({"ok": sum(r["status"] == "success" for r in results)})
`, s.env())
		require.JSONEq(t, `{"ok":200}`, out)
		require.LessOrEqual(t, s.connections(), 8, "one connection per thread at most, kept over thread pools")
		keys, seeds := map[string]bool{}, map[string]bool{}
		for _, r := range s.requests() {
			keys[r.Key], seeds[r.Body] = true, true
		}
		require.Len(t, keys, 200, "every call has its own key")
		require.Len(t, seeds, 50)
	})
}

// TestRetries holds that what may be repeated is, with the same key, and that
// the last answer is what the caller sees.
func TestRetries(t *testing.T) {
	testenv.Slow(t, "a Python for each case")
	t.Parallel()
	for name, tc := range map[string]struct {
		answer   answers
		requests int
		want     string
	}{
		"503 twice": {func(w http.ResponseWriter, _ *http.Request, n int) {
			if n < 3 {
				reply(w, 503, `{"success":false,"errCode":"E0001","errMsg":"busy"}`)
				return
			}
			reply(w, 200, good)
		}, 3, `{"status":"success","data":{"url":"x"}}`},
		"502 for ever": {
			func(w http.ResponseWriter, _ *http.Request, _ int) { reply(w, 502, `<html>`) }, 4,
			`{"status":"error","errorCode":"E0001","error":"The tool service answered with status 502 and no explanation. Call again later."}`,
		},
		"dropped connection": {func(w http.ResponseWriter, _ *http.Request, n int) {
			if n < 3 {
				drop(w)
				return
			}
			reply(w, 200, good)
		}, 3, `{"status":"success","data":{"url":"x"}}`},
		"half an answer": {func(w http.ResponseWriter, _ *http.Request, n int) {
			if n < 2 {
				w.Header().Set("Content-Length", "1000")
				reply(w, 200, good)
				return
			}
			reply(w, 200, good)
		}, 2, `{"status":"success","data":{"url":"x"}}`},
		"500 is final": {func(w http.ResponseWriter, _ *http.Request, _ int) {
			reply(w, 500, `{"success":false,"errCode":"E0000","errMsg":"Broken.","traceId":"t-1"}`)
		}, 1, `{"status":"error","errorCode":"E0000","error":"Broken.","traceId":"t-1"}`},
		"409 without Retry-After is final": {func(w http.ResponseWriter, _ *http.Request, _ int) {
			reply(w, 409, `{"success":false,"errCode":"E0022","errMsg":"The run has ended","errDetail":"Start a new one."}`)
		}, 1, `{"status":"error","errorCode":"E0022","error":"The run has ended. Start a new one."}`},
		"409 in progress is waited for": {func(w http.ResponseWriter, _ *http.Request, n int) {
			if n < 7 {
				w.Header().Set("Retry-After", "0")
				reply(w, 409, `{"success":false,"errCode":"E0022","errMsg":"in progress"}`)
				return
			}
			reply(w, 200, good)
		}, 7, `{"status":"success","data":{"url":"x"}}`},
		"the tool failed": {func(w http.ResponseWriter, _ *http.Request, _ int) {
			reply(w, 201, `{"success":true,"data":{"status":"error","error":"no such model","errorCode":"BAD_REQUEST"}}`)
		}, 1, `{"status":"error","error":"no such model","errorCode":"BAD_REQUEST"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, false, tc.answer)
			out, _ := program(t, `show(draw())`, s.env())
			require.JSONEq(t, tc.want, out)
			got := s.requests()
			require.Len(t, got, tc.requests)
			for _, r := range got {
				require.Equal(t, got[0].Key, r.Key, "a retry has the key of its call")
				require.Equal(t, got[0].Body, r.Body)
			}
		})
	}
}

// drop ends the connection without an answer.
func drop(w http.ResponseWriter) {
	h, ok := w.(http.Hijacker)
	if !ok {
		panic("not a connection")
	}
	conn, _, err := h.Hijack()
	if err != nil {
		panic(err)
	}
	_ = conn.Close()
}

func TestRetryAfterIsHonoured(t *testing.T) {
	testenv.Slow(t, "a Python for each case")
	t.Parallel()
	for name, value := range map[string]func() string{
		"seconds": func() string { return "1" },
		"date":    func() string { return time.Now().Add(2 * time.Second).UTC().Format(http.TimeFormat) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var first, second time.Time
			s := newService(t, false, func(w http.ResponseWriter, _ *http.Request, n int) {
				if n == 1 {
					first = time.Now()
					w.Header().Set("Retry-After", value())
					reply(w, 429, `{"success":false,"errCode":"E0024","errMsg":"slow down"}`)
					return
				}
				second = time.Now()
				reply(w, 200, good)
			})
			out, _ := program(t, `show(draw())`, s.env())
			require.Equal(t, "success", result(t, out)["status"])
			require.GreaterOrEqual(t, second.Sub(first), 900*time.Millisecond)
		})
	}
	t.Run("longer than the timeout", func(t *testing.T) {
		t.Parallel()
		s := newService(t, false, func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Retry-After", "3600")
			reply(w, 429, `{"success":false,"errCode":"E0024","errMsg":"slow down"}`)
		})
		out, _ := program(t, `show(draw())`, s.env())
		require.JSONEq(t, `{"status":"error","errorCode":"E0024","error":"slow down. Call again later."}`, out)
		require.Len(t, s.requests(), 1)
	})
}

// TestStaleConnection: the server closes every connection after one answer
// without saying so; each call after the first meets a dead one.
func TestStaleConnection(t *testing.T) {
	testenv.Slow(t, "a Python for each case")
	t.Parallel()
	both(t, func(t *testing.T, unix bool) {
		s := newService(t, unix, func(w http.ResponseWriter, _ *http.Request, _ int) {
			h, ok := w.(http.Hijacker)
			if !ok {
				panic("not a connection")
			}
			conn, buf, err := h.Hijack()
			if err != nil {
				panic(err)
			}
			_, _ = fmt.Fprintf(buf, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(good), good)
			_ = buf.Flush()
			_ = conn.Close()
		})
		out, stderr := program(t, `show({"ok": [draw()["status"] for _ in range(5)]})`, s.env("REFLY_PTC_DEBUG=true"))
		require.JSONEq(t, `{"ok":["success","success","success","success","success"]}`, out)
		require.Len(t, s.requests(), 5, stderr)
	})
}

func TestForkedProcessOpensItsOwnConnection(t *testing.T) {
	t.Parallel()
	s := newService(t, false, alwaysGood)
	out, _ := program(t, `
import os
draw()
pid = os.fork()
if pid == 0:
    os._exit(0 if draw()["status"] == "success" else 1)
show({"child": os.waitpid(pid, 0)[1], "parent": draw()["status"]})
`, s.env())
	require.JSONEq(t, `{"child":0,"parent":"success"}`, out)
	require.Equal(t, 2, s.connections())
}

func TestTimeout(t *testing.T) {
	testenv.Slow(t, "a Python for each case")
	t.Parallel()
	release := make(chan struct{})
	s := newService(t, false, func(w http.ResponseWriter, r *http.Request, _ int) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(release) })
	out, _ := program(t, `show(draw())`, s.env("REFLY_TOOL_TIMEOUT=4.5"))
	got := result(t, out)
	require.Equal(t, "E0001", got["errorCode"])
	require.Contains(t, got["error"], "within 4.5 s")
	require.Len(t, s.requests(), 1, "a call that timed out is not repeated")
}

// TestHTTPS holds that certificates are checked: the call succeeds with the
// server's authority and fails without it, unsent.
func TestHTTPS(t *testing.T) {
	testenv.Slow(t, "a Python for each case")
	t.Parallel()
	var calls atomic.Int64
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		reply(w, 200, good)
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are part of the test
	t.Cleanup(srv.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	require.NoError(t, os.WriteFile(ca, block, 0o600))
	env := []string{"REFLY_TOOL_SERVICE_API_URL=" + srv.URL, "REFLY_TOOL_SERVICE_API_KEY=rf_secret"}

	out, _ := program(t, `show([draw()["status"], draw()["status"]])`, append(env, "SSL_CERT_FILE="+ca))
	require.JSONEq(t, `["success","success"]`, out)
	out, _ = program(t, `show(draw())`, env)
	require.Contains(t, result(t, out)["error"], "SSLCertVerificationError")
	require.EqualValues(t, 2, calls.Load())
}

// The result of a class method may be awaited, in every way that asyncio has,
// and is a dict for everything else.
func TestResultsMayBeAwaited(t *testing.T) {
	t.Parallel()
	s := newService(t, false, alwaysGood)
	out, stderr := program(t, `
import asyncio, copy, pickle
from refly_tools import ToolExecutionError
async def main():
    one = await draw()
    two, three = await asyncio.gather(draw(), draw())
    four = await asyncio.create_task(draw())
    five = await asyncio.wait_for(draw(), 5)
    six = [await t for t in asyncio.as_completed([draw(), draw()])][1]
    return [one, two, three, four, five, six]
results = asyncio.run(main())
want = {"status": "success", "data": {"url": "x"}}
assert all(type(r) is dict and r == want for r in results), results
plain = draw()
assert plain == want and isinstance(plain, dict) and json.loads(json.dumps(plain)) == want and repr(plain) == repr(want)
assert plain["data"]["url"] == "x" and plain.get("error") is None and {**plain} == want and plain | {} == want
for again in (copy.copy(plain), copy.deepcopy(plain), pickle.loads(pickle.dumps(plain))):
    assert type(again) is dict and again == want
error = ToolExecutionError("it\nfailed", "E0003", 400, "req-1", "Send n.", "draw")
assert str(error) == "it failed Send n." and error.code == "E0003" and error.tool == "draw"
print("ok")`, s.env())
	require.Equal(t, "ok\n", out)
	require.Empty(t, stderr)
	require.Len(t, s.requests(), 8, "each call once")
}

// The shorter road is taken where there is one.
func TestTheSocketComesFirst(t *testing.T) {
	t.Parallel()
	s := newService(t, true, alwaysGood)
	program(t, `draw()`, []string{"REFLY_TOOL_SERVICE_API_URL=http://127.0.0.1:1", "PORTICO_TOOL_SOCKET=" + s.baseURL})
	require.Len(t, s.requests(), 1)
}

// A parameter that has another name in Python is taken under the tool's own
// name as well, once; the name of a file has a default.
func TestOriginalNamesAndTitles(t *testing.T) {
	t.Parallel()
	s := newService(t, false, alwaysGood)
	dir := t.TempDir()
	b, err := python.Generate([]definition.Toolset{{Key: "bank", Tools: []definition.Tool{
		{Name: "convert", InputSchema: json.RawMessage(`{"type":"object","required":["amount","from","to","file_name_title"],"properties":{
			"amount":{"type":"number"},"from":{"type":"string"},"to":{"type":"string"},"a-b":{"type":"integer","default":7},"file_name_title":{"type":"string"}}}`)},
		{Name: "open", InputSchema: json.RawMessage(`{"type":"object","required":["class"],"properties":{"class":{"type":"string"}},"additionalProperties":true}`)},
		{Name: "list items", InputSchema: json.RawMessage(`{"type":"object","required":["file_name_title"],"properties":{"file_name_title":{"type":"string"}}}`)},
	}}})
	require.NoError(t, err)
	write(t, b, filepath.Join(dir, "refly_tools"))
	out, problems, err := run(t, dir, s.env(), interpreter(t), "-W", "error", "-c", `
from refly_tools.bank import Bank
Bank.convert(1, **{"from": "USD", "to": "NOK"})
Bank.convert(1, "USD", "NOK", a_b=8, file_name_title="mine")
Bank.convert(amount=1, from_="USD", to="NOK", **{"a-b": 9})
Bank.open(**{"class": "x", "more": 1})
Bank.list_items()
for wrong in (lambda: Bank.convert(1, "USD", "NOK", **{"from": "EUR"}), lambda: Bank.convert(1, "USD", "NOK", form="EUR"), lambda: Bank.convert(1, to="NOK")):
    try:
        wrong()
    except TypeError as error:
        print(error)
`)
	require.NoError(t, err, problems)
	require.Equal(t, `convert() was given 'from' twice; it takes amount, from, to, a-b
convert() has no parameter 'form'; it takes amount, from, to, a-b
convert() needs from; it takes amount, from, to, a-b
`, out)
	var got []string
	for _, r := range s.requests() {
		var body struct{ Arguments map[string]any }
		require.NoError(t, json.Unmarshal([]byte(r.Body), &body))
		arguments, err := json.Marshal(body.Arguments)
		require.NoError(t, err)
		got = append(got, string(arguments))
	}
	require.Equal(t, []string{
		`{"a-b":7,"amount":1,"file_name_title":"convert 1","from":"USD","to":"NOK"}`,
		`{"a-b":8,"amount":1,"file_name_title":"mine","from":"USD","to":"NOK"}`,
		`{"a-b":9,"amount":1,"file_name_title":"convert 1","from":"USD","to":"NOK"}`,
		`{"class":"x","more":1}`,
		`{"file_name_title":"list items"}`,
	}, got)
}
