package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/connector/mcp/hubtest"
	"github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/tool/approval"
)

// realServers are MCP servers that others wrote, by their names here.
func realServers(t *testing.T) []server.Server {
	t.Helper()
	root := testenv.Need(t, "PORTICO_MCP", "tools/mcp.sh installs the servers")
	files := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(files, "x"), []byte("hello"), 0o600))
	script, err := filepath.Abs("testdata/mcp_server.py")
	require.NoError(t, err)
	node := func(name string, args ...string) server.Server {
		return server.Server{Command: "node", Args: append([]string{filepath.Join(root, "node_modules/@modelcontextprotocol/server-"+name, "dist/index.js")}, args...)}
	}
	examples := func(name string, args ...string) server.Server {
		return server.Server{Command: filepath.Join(root, "go", name), Args: args}
	}
	python := func(venv string) string { return filepath.Join(root, venv, "bin/python") }
	servers := map[string]server.Server{
		"everything":   node("everything", "stdio"),
		"filesystem":   node("filesystem", files),
		"memory":       node("memory"),
		"thinking":     node("sequential-thinking"),
		"goeverything": examples("everything"),
		"gohello":      examples("hello"),
		"gomemory":     examples("memory"),
		"gothinking":   examples("sequentialthinking"),
		"goschemas":    examples("toolschemas"),
		"py":           {Command: python("python"), Args: []string{script}},
		"pylegacy":     {Command: python("python-legacy"), Args: []string{script}},
		"pyhttp":       overHTTP(t, python("python"), script),
		"pyhttpold":    overHTTP(t, python("python-legacy"), script),
	}
	var out []server.Server
	for name, s := range servers {
		s.Name, s.Version = name, "1"
		if s.Transport == "" {
			s.Transport = server.Stdio
		}
		out = append(out, s)
	}
	return out
}

// overHTTP starts a server that is reachable by HTTP, until the test ends.
func overHTTP(t *testing.T, python, script string) server.Server {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	cmd := exec.CommandContext(t.Context(), python, script, port)
	var said bytes.Buffer
	cmd.Stderr = &said
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	require.Eventually(t, func() bool {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", "127.0.0.1:"+port)
		if err != nil {
			return false
		}
		return c.Close() == nil
	}, 30*time.Second, 50*time.Millisecond, "%s", &said)
	return server.Server{Transport: server.HTTP, URL: "http://127.0.0.1:" + port + "/mcp", Egress: hubtest.Loopback()}
}

// Every tool of thirteen real servers, of three SDKs, both eras and both transports,
// is listed, has a line, is called from that line in the sandbox, and recorded.
func TestRealMCPServers(t *testing.T) {
	testenv.Slow(t, "thirteen servers")
	t.Parallel()
	d := &hubtest.Directory{}
	servers := realServers(t)
	var keys []string
	for _, s := range servers {
		d.Put(s)
		keys = append(keys, s.Name)
	}
	s := serveOptions(t, environ(t, databasetest.URL(t, database.SQLite)), app.Options{Servers: d})
	declined := s.declines()
	search := func() outcome {
		return s.run(map[string]any{"toolsets": keys, "code": `print(search_tools(""))`})
	}
	require.Equal(t, "completed", search().Status, "whether all have started or not")
	for _, one := range servers { // one that did not answer in time, on a busy machine, is asked again
		var h server.Health
		require.Eventually(t, func() bool {
			if h = s.app.MCP.Health(s.first(), one); h.State != server.Ready {
				_, _ = s.app.MCP.Tools(t.Context(), s.first(), one) // its health says what is wrong
			}
			return h.State == server.Ready
		}, 2*time.Minute, 20*time.Millisecond, "%s: %s\n%s", one.Name, &h.Reason, &h.Stderr)
	}
	o := search()
	require.Equal(t, "completed", o.Status, o.Stderr)

	listed := map[string]bool{}
	for _, one := range servers {
		list, err := s.app.MCP.Tools(t.Context(), s.first(), one)
		require.NoError(t, err)
		if one.Name == "everything" {
			require.Equal(t, map[string]string{"simulate-research-query": "it runs as a task only"}, list.Left)
		} else {
			require.Empty(t, list.Left, one.Name)
		}
		t.Logf("%s: %d tools, %s", one.Name, len(list.Tools), list.Protocol)
		for _, tool := range list.Tools {
			listed[one.Name+" "+tool.Name] = true
		}
	}
	lines := regexp.MustCompile(`(?m)^\w+\.\w+\(.* -> .*$`).FindAllString(o.Stdout, -1) // the server's own functions have no dot
	require.Len(t, lines, len(listed), o.Stdout)

	write := exec.CommandContext(t.Context(), "/usr/bin/python3", "-B", "testdata/lines/servers.py")
	write.Stdin, write.Stderr = strings.NewReader(strings.Join(lines, "\n")), t.Output()
	program, err := write.Output()
	require.NoError(t, err)
	o = s.run(map[string]any{"toolsets": keys, "code": string(program), "timeout": 240_000})
	require.Equal(t, "completed", o.Status, o.Stderr)
	var invalid []string
	for line := range strings.Lines(o.Stdout) {
		var pair [2]string
		require.NoError(t, json.Unmarshal([]byte(line), &pair), line)
		if strings.Contains(pair[1], "Invalid arguments") {
			invalid = append(invalid, pair[0])
		}
		if pair[1] != "" {
			t.Logf("%s: %s", pair[0], pair[1])
		}
	}
	require.LessOrEqual(t, len(invalid), 2, "rules that no line shows: %v", invalid)
	recorded := s.count("SELECT count(DISTINCT toolset_id || ' ' || tool_name) FROM tool_call_results WHERE ptc_call_id = ?", o.CallID)
	require.Equal(t, len(listed), recorded)
	failed := s.count("SELECT count(*) FROM tool_call_results WHERE ptc_call_id = ? AND status <> 'completed'", o.CallID)
	require.LessOrEqual(t, failed, mayFail, "calls with made-up arguments")

	for _, question := range declined() {
		t.Logf("asked: %s", question)
	}
	require.NotEmpty(t, declined(), "servers that ask are asked for by their lines, too")

	// What each SDK makes of a value arrives as that value.
	o = s.run(map[string]any{"toolsets": keys, "code": `
print(py__add(a=2, b=40), pylegacy__add(a=2, b=40), pyhttp__add(a=2), pyhttpold__add(a=2))
print(py__describe(name="x", tags=["a"]), pylegacy__describe(name="x"))
print(everything__echo(message="hi"))
print(filesystem__read_text_file(path="` + servers[index(keys, "filesystem")].Args[1] + `/x"))
for f in (pylegacy__refuse, pyhttpold__refuse):
    try:
        f(reason="not today")
    except ToolExecutionError as e:
        print("not today" in str(e))
image = everything__get_tiny_image()
print([f["type"] for f in image["files"]])
`})
	require.Equal(t, "completed", o.Status, o.Stderr)
	require.Equal(t, strings.Join([]string{
		"{'result': 42} {'result': 42} {'result': 3} {'result': 3}",
		"{'name': 'x', 'tags': ['a']} {'name': 'x', 'tags': []}",
		"Echo: hi",
		"{'content': 'x'}",
		"True", "True",
		"['image/png']", "",
	}, "\n"), o.Stdout)
}

// declines answers every question of a server with no, until the test ends, and
// returns which there were.
func (s *instance) declines() (questions func() []string) {
	var mu sync.Mutex
	var asked []string
	ctx, cancel := context.WithCancel(s.t.Context())
	who := s.first()
	done := make(chan struct{})
	s.t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			page, err := s.app.Approvals.Service.List(ctx, who, false, httpapi.PageQuery{Limit: 100})
			if err != nil {
				continue // it is asked again
			}
			for _, a := range page.Items {
				if _, err := s.app.Approvals.Service.Decide(ctx, who, approval.Ruling{CallID: a.CallID, Decision: approval.Refuse}); err == nil && a.Question != nil {
					mu.Lock()
					asked = append(asked, a.Question.From+": "+a.Question.Message)
					mu.Unlock()
				}
			}
		}
	}()
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(asked)
	}
}

// mayFail is how many of the calls with made-up arguments the servers refuse
// themselves: files that are not there, entities that nobody created.
const mayFail = 30

func index(list []string, one string) int {
	for i, s := range list {
		if s == one {
			return i
		}
	}
	return -1
}
