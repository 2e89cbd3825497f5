package sandboxtest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/sandbox"
)

// echoes says what it was sent.
func echoes(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s %s", r.Method, r.URL.Path, r.Header.Get("Authorization"), body)
}

// Clients of plain HTTP reach the gateway at an address of the sandbox's own
// loopback, from every language.
func (s Suite) testLoopback(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	job := sandbox.Job{Gateway: http.HandlerFunc(echoes), Loopback: true, Env: map[string]string{"URL": sandbox.LoopbackURL}}
	for name, c := range map[string]struct {
		language sandbox.Language
		code     string
	}{
		"urllib": {sandbox.Python, `
import os, urllib.request
r = urllib.request.Request(os.environ["URL"] + "/v1/x", b"body", {"Authorization": "Bearer k"}, method="POST")
print(urllib.request.urlopen(r).read().decode())`},
		"http.client": {sandbox.Python, `
import http.client
c = http.client.HTTPConnection("127.0.0.1", 5800)
for _ in range(3):
    c.request("POST", "/v1/x", b"body", {"Authorization": "Bearer k"})
    text = c.getresponse().read().decode()
print(text)`},
		"a child process": {sandbox.Python, `
import subprocess, sys
print(subprocess.run([sys.executable, "-c", """
import urllib.request
print(urllib.request.urlopen(urllib.request.Request("http://127.0.0.1:5800/v1/x", b"body", {"Authorization": "Bearer k"})).read().decode())"""], capture_output=True, text=True).stdout, end="")`},
		"bash": {sandbox.Bash, `exec 5<>/dev/tcp/127.0.0.1/5800
printf 'POST /v1/x HTTP/1.0\r\nHost: x\r\nAuthorization: Bearer k\r\nContent-Length: 4\r\n\r\nbody' >&5
sed '1,/^\r*$/d' <&5; echo`},
		"node": {sandbox.JavaScript, `fetch(process.env.URL + "/v1/x", {method: "POST", body: "body", headers: {Authorization: "Bearer k"}}).then(r => r.text()).then(console.log)`},
	} {
		job.Language, job.Code = c.language, c.code
		r := run(t, d, job)
		require.Equal(t, "POST /v1/x Bearer k body\n", r.Stdout, "%s: %s", name, r.Stderr)
	}
	// Bodies of some size, both ways, over several connections at once.
	job.Language, job.Code = sandbox.Python, `
import urllib.request
from concurrent.futures import ThreadPoolExecutor
def call(n): return urllib.request.urlopen("http://127.0.0.1:5800/v1/%d" % n, b"x" * 300000).read()
with ThreadPoolExecutor(16) as pool: print(sum(len(b) for b in pool.map(call, range(64))))`
	r := run(t, d, job)
	require.Equal(t, fmt.Sprintln(10*len("POST /v1/0  ")+54*len("POST /v1/10  ")+64*300000), r.Stdout, r.Stderr)
}

// The loopback leads to the program's own gateway, where it has one, and
// nowhere else.
func (s Suite) testLoopbackLeadsNowhereElse(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	const probe = `
import socket
reached = []
for port in [*range(1, 1024), 3306, 5432, 5800, 5801, 6379, 8000, 8080, 9000]:
    with socket.socket() as s:
        s.settimeout(1)
        if s.connect_ex(("127.0.0.1", port)) == 0: reached.append(port)
print(reached)`
	address, reached := listen(t)
	for name, job := range map[string]sandbox.Job{
		"no gateway":     {Loopback: true},
		"not asked":      {Gateway: http.HandlerFunc(echoes)},
		"with a gateway": {Gateway: http.HandlerFunc(echoes), Loopback: true},
	} {
		want := "[]\n"
		if job.Gateway != nil && job.Loopback {
			want = "[5800]\n"
		}
		job.Code = probe
		r := run(t, d, job)
		require.Equal(t, want, r.Stdout, "%s: %s", name, r.Stderr)
	}
	host := strings.TrimPrefix(address, "127.0.0.1:")
	r := run(t, d, sandbox.Job{Gateway: http.HandlerFunc(echoes), Loopback: true, Code: "import socket\nprint(socket.socket().connect_ex(('127.0.0.1', " + host + ")) != 0)\n" +
		"import os\nprint([f for f in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + f) and 'socket' in os.readlink('/proc/self/fd/' + f)])"})
	require.Equal(t, "True\n['3']\n", r.Stdout, r.Stderr)
	require.False(t, reached.Load())
}

// Whatever a program does with its port, it costs nobody else anything, and it
// is closed when the program has ended.
func (s Suite) testLoopbackFlood(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	var most, running atomic.Int64
	gateway := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		echoes(w, r)
	})
	begin := time.Now()
	r := run(t, d, sandbox.Job{Gateway: gateway, Loopback: true, Timeout: 10 * time.Second, Code: `
import socket, os
kept = []
for n in range(200):
    s = socket.socket(); s.settimeout(0.01)
    try: s.connect(("127.0.0.1", 5800)); s.send(os.urandom(1000) if n % 2 else b"POST / HTTP/1.1\r\n")
    except OSError: pass
    kept.append(s)
for s in kept: s.close()
import urllib.request
print(urllib.request.urlopen("http://127.0.0.1:5800/y", b"", timeout=5).read().decode().strip())`})
	require.Equal(t, "POST /y\n", r.Stdout, r.Stderr)
	require.LessOrEqual(t, most.Load(), int64(64))
	require.Less(t, time.Since(begin), 15*time.Second)
}
