// Slow under the race detector: make test runs it without.
//go:build !race

package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/schema/jsontree"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/catalogue/cataloguetest"
	"github.com/portico-run/portico/modules/toolset"
)

// standIn is an upstream that keeps the arguments of every call, by its path.
type standIn struct {
	*httptest.Server

	mu  sync.Mutex
	got map[string][]json.RawMessage
}

func newStandIn(t *testing.T) *standIn {
	t.Helper()
	s := &standIn{got: map[string][]json.RawMessage{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if len(bytes.TrimSpace(body)) == 0 {
			body = []byte("{}")
		}
		s.mu.Lock()
		s.got[r.URL.Path] = append(s.got[r.URL.Path], body)
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"ok":true}`))
	}))
	t.Cleanup(s.Close)
	return s
}

// take returns what arrived at a path since the last time.
func (s *standIn) take(path string) []json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.got[path]
	delete(s.got, path)
	return got
}

// corpusFile is a server of the corpus as a toolset file; the endpoint of a
// tool is its place.
func corpusFile(t *testing.T, d toolset.Definition, upstream string) string {
	t.Helper()
	type method struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Endpoint    string          `json:"endpoint"`
		Method      string          `json:"method"`
		Request     json.RawMessage `json:"request"`
		Response    json.RawMessage `json:"response,omitempty"`
	}
	var methods []method
	for i, tool := range d.Tools {
		description := tool.Description
		if description == "" {
			description = tool.Name
		}
		// Toolset files take fewer characters in names than MCP does.
		name := strings.NewReplacer(" ", "-", "(", "", ")", "").Replace(tool.Name)
		methods = append(methods, method{name, description, fmt.Sprintf("/%s/%d", d.Key, i), "POST", withoutDefaults(t, tool.InputSchema), tool.OutputSchema})
	}
	text, err := json.Marshal(map[string]any{
		"key": d.Key, "name": d.Name, "domain": upstream, "egress": map[string]any{"allow": []string{"127.0.0.0/8"}}, "billing": 0, "methods": methods,
	})
	require.NoError(t, err)
	return string(text)
}

// withoutDefaults leaves defaults out of a schema: the server and the SDK would
// send them besides what a program gives.
func withoutDefaults(t *testing.T, schema json.RawMessage) json.RawMessage {
	t.Helper()
	tree, err := jsontree.Parse(schema)
	require.NoError(t, err)
	var strip func(v any, named bool)
	strip = func(v any, named bool) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				strip(item, false)
			}
		case *jsontree.Object:
			if !named {
				v.Delete("default")
			}
			for _, name := range v.Names() {
				strip(v.Get(name), name == "properties" && !named)
			}
		}
	}
	strip(tree, false)
	text, err := jsontree.Encode(tree)
	require.NoError(t, err)
	return text
}

// generated are programs and what their calls are meant to send.
type generated struct {
	Functions, Classes string
	Intended           []struct {
		Key, Toolset string
		Arguments    json.RawMessage
	}
}

// generate writes programs from what search_tools says, or from documentation.
func generate(t *testing.T, script, text string, said map[string]string) generated {
	t.Helper()
	in, err := json.Marshal(map[string]any{"text": text, "said": said})
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", "-IB", "testdata/lines/"+script)
	cmd.Stdin = bytes.NewReader(in)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	require.NoError(t, err, problems.String())
	var g generated
	require.NoError(t, json.Unmarshal(out, &g))
	return g
}

// refusals are what a program printed: the calls that were refused, and why.
func refusals(t *testing.T, o outcome) map[string]string {
	t.Helper()
	require.Equal(t, "completed", o.Status, o.Stderr)
	said := map[string]string{}
	for line := range strings.Lines(o.Stdout) {
		var pair [2]string
		require.NoError(t, json.Unmarshal([]byte(line), &pair), line)
		said[pair[0]] = pair[1]
	}
	return said
}

// mayRepair is how many of the calls may be refused once because of a rule that
// no line shows, such as a pattern; the message of the refusal must be enough.
const mayRepair = 30

// Of every tool of the corpus, programs are written from its line alone, in both
// styles, with all arguments and with those only that it needs. What arrives at
// the upstream is what was meant.
func TestLinesCanBeCalled(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	c := serveCorpus(t)
	tools, repairs := 0, 0
	for _, group := range groups() {
		o := c.run(map[string]any{"toolsets": group, "code": `print(search_tools(""))`})
		require.Equal(t, "completed", o.Status, o.Stderr)
		tools += strings.Count(o.Stdout, " -> ") - strings.Count(o.Stdout, "# [portico]")
		for _, style := range []string{"functions", "classes"} {
			repaired, missed := c.callAll(t, "generate.py", style, group, o.Stdout)
			require.Zero(t, missed)
			repairs += repaired
		}
	}
	require.Equal(t, 376, tools)
	t.Logf("%d of %d calls were repaired by their message", repairs, 4*tools)
	require.LessOrEqual(t, repairs, mayRepair)
}

// The same from the documentation of the SDK, which has classes only.
func TestDocsCanBeCalled(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	c := serveCorpus(t)
	tools, repairs := 0, 0
	for _, group := range groups() {
		o := c.run(map[string]any{"toolsets": group, "code": fmt.Sprintf(
			`print(json.dumps({key: open("/refly_tools/docs/%%s.md" %% key).read() for key in %s}))`, strings.ReplaceAll(fmt.Sprintf("%q", group), `" "`, `", "`))})
		require.Equal(t, "completed", o.Status, o.Stderr)
		tools += strings.Count(o.Stdout, "\\n## ")
		repaired, missed := c.callAll(t, "docs.py", "classes", group, o.Stdout)
		require.Zero(t, missed)
		repairs += repaired
	}
	require.Equal(t, 376, tools)
	t.Logf("%d of %d calls were repaired by their message", repairs, 2*tools)
	require.LessOrEqual(t, repairs, mayRepair)
}

// corpus is a server with the toolsets of the corpus.
type corpus struct {
	*instance

	upstream *standIn
	tools    map[string]int // how many each toolset has
}

func serveCorpus(t *testing.T) corpus {
	t.Helper()
	c := corpus{serve(t, databasetest.URL(t, database.SQLite)), newStandIn(t), map[string]int{}}
	sets, err := cataloguetest.Corpus("../catalogue/signature/testdata/corpus")
	require.NoError(t, err)
	files := map[string]string{}
	for _, d := range sets {
		files[d.Key+".yaml"] = corpusFile(t, d, c.upstream.URL)
		c.tools[d.Key] = len(d.Tools)
	}
	c.apply(t, files)
	return c
}

// groups are toolsets whose tools one program calls.
func groups() [][]string {
	return [][]string{
		{"brave"},
		{"cloudflare"},
		{"elastic", "everything", "filesystem"},
		{"firecrawl"},
		{"github-all", "github-ref"},
		{"gosdk-everything", "gosdk-hello", "gosdk-sequentialthinking", "kubernetes"},
		{"memory", "slack-ref", "tavily"},
		{"mongodb"},
		{"playwright"},
	}
}

// callAll calls all tools of some toolsets and compares what arrives with what
// was meant. Calls that were refused are made once more. It returns how many
// were, and how many were refused again.
func (c corpus) callAll(t *testing.T, script, style string, toolsets []string, text string) (repaired, missed int) {
	t.Helper()
	want := map[string]int{}
	run := func(said map[string]string) map[string]string {
		g := generate(t, script, text, said)
		code := g.Functions
		if style == "classes" {
			code = g.Classes
		}
		refused := refusals(t, c.run(map[string]any{"toolsets": toolsets, "code": code, "timeout": 120_000}))
		for _, call := range g.Intended {
			if _, no := refused[call.Key]; !no {
				want[call.Toolset+" "+canonical(t, call.Arguments)]++
			}
		}
		return refused
	}
	refused := run(map[string]string{})
	again := map[string]string{}
	if len(refused) > 0 {
		again = run(refused)
	}
	for key, message := range again {
		t.Logf("%s of %v: %s is refused again: %s", style, toolsets, key, message)
	}
	got := map[string]int{}
	for _, key := range toolsets {
		for i := range c.tools[key] {
			for _, body := range c.upstream.take(fmt.Sprintf("/%s/%d", key, i)) {
				got[key+" "+canonical(t, body)]++
			}
		}
	}
	require.Equal(t, want, got, "%s of %v", style, toolsets)
	return len(refused), len(again)
}

// canonical is a JSON object with its members in order. Their names are those
// that Python has for them: the calls of classes are meant so.
func canonical(t *testing.T, text json.RawMessage) string {
	t.Helper()
	var members map[string]any
	require.NoError(t, json.Unmarshal(text, &members))
	named := map[string]any{}
	for name, v := range members {
		named[strings.Trim(strings.ReplaceAll(name, "-", "_"), "_")] = v
	}
	require.Len(t, named, len(members))
	out, err := json.Marshal(named)
	require.NoError(t, err)
	return string(out)
}

// Two toolsets with a tool of one name have a function each, under the same
// name in search_tools, help and the program, and in the model's tools. Names
// that Python has stay Python's.
func TestTwinsHaveOneNameEverywhere(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	upstream := newStandIn(t)
	_, env := script(t, `
- expect: ["from refly_tools.one import One", "from refly_tools.two import Two"]
  output: [{call: {name: search_tools, arguments: {query: "get"}}}, {call: {name: help, arguments: {name: one_get}}}, {call: {name: help, arguments: {name: get}}}]
- expect: ["one_get() -> list[{id: int, name?: str}]", "two_get() -> Any", "There is more than one tool", "one_get of one, two_get of two"]
  output: [{text: "Done."}]
`)
	s := serve(t, databasetest.URL(t, database.SQLite), env...)
	def := func(key string, names ...string) string {
		d := toolset.Definition{Key: key, Name: key}
		for _, name := range names {
			d.Tools = append(d.Tools, toolset.ToolDefinition{Name: name, InputSchema: json.RawMessage(`{"type":"object","properties":{}}`)})
		}
		if key == "one" {
			d.Tools[0].OutputSchema = json.RawMessage(`{"type":"array","items":{"type":"object","required":["id"],"properties":{"id":{"type":"integer"},"name":{"type":"string"}}}}`)
		}
		return corpusFile(t, d, upstream.URL)
	}
	s.apply(t, map[string]string{"one.yaml": def("one", "get", "print"), "two.yaml": def("two", "get")})
	o := s.run(map[string]any{"toolsets": []string{"two", "one"}, "code": `
one_get(); two_get(); one_print()
found = [line for line in search_tools("get").split("\n") if "# [portico]" not in line]
print("get" in globals(), *found, help(one_get).split("\n")[0], one_get.__doc__, help("get"), sep="\n")
from refly_tools.one import One
print(One.get()["status"], One.print()["data"], one_get())
`})
	require.Equal(t, "completed", o.Status, o.Stderr)
	require.Equal(t, `False
one_get() -> list[{id: int, name?: str}]  # [one] (One.get)
two_get() -> Any  # [two] (Two.get)
one_print() -> Any  # [one] (One.print)
# one as a class: from refly_tools.one import One (One.get(...) returns a dict with "status")
# two as a class: from refly_tools.two import Two (Two.get(...) returns a dict with "status")
one: one_get() -> list[{id: int, name?: str}]
get

Parameters:
    file_name_title (string, optional): The title for the generated file. Should be concise and descriptive. This will be used as the filename.

Returns list[{id: int, name?: str}]. Raises ToolExecutionError when the call fails.
There is more than one tool "get". Ask for one of: two_get of two, one_get of one.
success {'ok': True} {'ok': True}
`, o.Stdout)
	require.Len(t, upstream.take("/one/0"), 3)
	require.Len(t, upstream.take("/two/0"), 1)
	require.Len(t, upstream.take("/one/1"), 2)

	s.send(s.key, "POST", "/v1/skill/invoke", map[string]any{"query": "Go.", "resultId": "ar-twins", "toolsets": []string{"one", "two"}})
	r := s.finished(t, s.key, "ar-twins")
	require.Equal(t, "finish", r.Status, "%v", r.Errors)
}
