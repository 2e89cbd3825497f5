package app_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
)

// resultCap is the largest result in the shipped configuration.
const resultCap = 16 << 20

// largeResults is the folder of a toolset whose results are large.
func largeResults(t *testing.T) (dir, sum string) {
	t.Helper()
	pattern := make([]byte, 0, resultCap)
	for i := 0; len(pattern) < resultCap; i++ {
		pattern = fmt.Appendf(pattern, "%x.", sha256.Sum256([]byte{byte(i), byte(i >> 8), byte(i >> 16)}))
	}
	text := pattern[:resultCap-2]
	hash := sha256.Sum256(text)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/rows":
			rows := make([]map[string]any, 30_000)
			for i := range rows {
				rows[i] = map[string]any{"id": i, "name": fmt.Sprintf("a person whose name is number %d", i)}
			}
			_ = json.NewEncoder(w).Encode(rows)
		case "/most", "/more":
			_, _ = fmt.Fprintf(w, `"%s`, text)
			if r.URL.Path == "/more" {
				_, _ = w.Write([]byte("x"))
			}
			_, _ = w.Write([]byte(`"`))
		case "/endless":
			for {
				if _, err := w.Write(text[:1<<20]); err != nil {
					return
				}
			}
		}
	}))
	t.Cleanup(upstream.Close)
	dir = t.TempDir()
	file := fmt.Sprintf("{key: large, name: Large, domain: %q, egress: {allow: [127.0.0.0/8]}, billing: {rows: 0, most: 0, more: 0, endless: 0}, methods: [", upstream.URL)
	for _, name := range []string{"rows", "most", "more", "endless"} {
		file += fmt.Sprintf("{name: %s, method: GET, endpoint: /%s, adapter: {timeout: 120000}, request: {type: object}},", name, name)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "large.yaml"), []byte(file+"]}\n"), 0o600))
	return dir, hex.EncodeToString(hash[:])
}

// What a tool returns reaches a program whole; what is over the cap is an
// exception, and never a part of the value.
func TestProgramsGetWholeResults(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	dir, sum := largeResults(t)
	each(t, func(t *testing.T, s *instance) {
		o := s.run(map[string]any{"toolsets": []string{"large"}, "code": `
import hashlib
got = rows(file_name_title="x")
print(len(got), sum(1 for r in got if r["id"] % 2), got[-1]["id"])
print(hashlib.sha256(most(file_name_title="x").encode()).hexdigest())
for tool in (more, endless):
    try:
        print("a part", len(tool(file_name_title="x")))
    except Exception as e:
        print(str(e).split(chr(10))[0])
`})
		require.Equal(t, "completed", o.Status, o.Stderr)
		lines := strings.Split(strings.TrimSpace(o.Stdout), "\n")
		require.Len(t, lines, 4, o.Stdout)
		require.Equal(t, "30000 15000 29999", lines[0])
		require.Equal(t, sum, lines[1])
		for _, line := range lines[2:] {
			require.Contains(t, line, "more than 16777216 bytes")
			require.Contains(t, line, "Ask for less")
		}
		// What is shown of them is short.
		rows := o.ToolCalls[0].CallID
		record := s.send(s.key, "GET", "/v1/tool/call/result?toolCallId="+rows, nil)
		require.Less(t, len(record.raw), 1200<<10)
		require.Contains(t, record.raw, "items omitted")
		whole := s.send(s.key, "GET", "/v1/tool/call/output?toolCallId="+rows, nil)
		var list []struct{ ID int }
		require.NoError(t, json.Unmarshal(whole.body.Data, &list))
		require.Len(t, list, 30_000)
		require.Equal(t, http.StatusNotFound, s.send(s.another("ben"), "GET", "/v1/tool/call/output?toolCallId="+rows, nil).status)
	}, "TOOLSETS_DIR="+dir)
}

// memory reads a line of /proc/PID/status, in MiB.
func memory(t *testing.T, pid int, name string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
			require.NoError(t, err)
			return kib >> 10
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

// Ten programs that each fetch the largest result at once get all of it, and
// the server stays small.
func TestLargeResultsStayWithinTheMemory(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	dir, sum := largeResults(t)
	listen := testenv.FreeAddress(t)
	p := spawn(t, environ(t, databasetest.URL(t, database.SQLite), "PORTICO_LISTEN="+listen, "ENDPOINT=http://"+listen,
		"TOOLSETS_DIR="+dir, "SANDBOX_MAX_CONCURRENT=10", "SANDBOX_MAX_PER_USER=10", "LOG_LEVEL=error"))
	s := &instance{t: t, url: "http://" + listen, key: p.key}
	code := "import hashlib\nprint(hashlib.sha256(most(file_name_title=\"x\").encode()).hexdigest())"
	fetch := func() string {
		a := s.send(s.key, "POST", "/v1/sandbox/execute", map[string]any{"language": "python", "toolsets": []string{"large"}, "code": code})
		var o outcome
		if json.Unmarshal(a.body.Data, &o) != nil {
			return a.raw
		}
		return strings.TrimSpace(o.Stdout + o.Stderr)
	}
	s.run(map[string]any{"code": "print(1)"})
	before := memory(t, p.cmd.Process.Pid, "VmRSS")
	got := make([]string, 10)
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() { got[i] = fetch() })
	}
	all.Wait()
	most := memory(t, p.cmd.Process.Pid, "VmHWM")
	for _, one := range got {
		require.Equal(t, sum, one)
	}
	t.Logf("%d MiB before, %d MiB at most", before, most)
	require.Less(t, most-before, growth*300)
}
