// Slow under the race detector: make test runs it without.
//go:build !race

package app_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi/example"
	"github.com/portico-run/portico/internal/testenv"
)

// Everything that is JSON or an event has an example that its schema allows,
// and none says less than a reader needs.
func TestTheDocumentShowsAnExampleOfEverything(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite), "ENDPOINT=https://portico.test")
	doc := document(t, s)
	require.NoError(t, doc.Validate(t.Context())) // of the examples, too
	require.Equal(t, "https://portico.test", doc.Servers[0].URL)
	require.NotContains(t, s.send("", "GET", "/openapi.json", nil).raw, `"`+example.Unknown+`"`, "a name has no example")
	complete := func(name string, content openapi3.Content) {
		require.NotEmpty(t, content, name)
		for kind, m := range content {
			require.NotNil(t, m.Schema, "%s: %s", name, kind)
			require.True(t, m.Example != nil || len(m.Examples) > 0, "%s: %s has no example", name, kind)
		}
	}
	for _, op := range operations(doc) {
		if op.RequestBody != nil {
			require.True(t, op.RequestBody.Value.Required, op.OperationID)
			complete(op.OperationID, op.RequestBody.Value.Content)
		}
		for status, r := range op.Responses.Map() {
			if status != "204" && status != "304" {
				complete(op.OperationID+" "+status, r.Value.Content)
			}
		}
		require.Nil(t, op.Responses.Value("422"), op.OperationID)
	}
	var codes []any
	for _, c := range errs.Codes() {
		codes = append(codes, string(c))
	}
	require.ElementsMatch(t, codes, doc.Components.Schemas["Failure"].Value.Properties["errCode"].Value.Enum)
	require.Equal(t, "_rf_access", doc.Components.SecuritySchemes["session"].Value.Name)
}

// An empty required parameter counts as a missing one: the document says so.
func TestRequiredParametersAreNotEmpty(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	for _, op := range operations(document(t, s)) {
		for _, p := range op.Parameters {
			if schema := p.Value.Schema.Value; p.Value.Required && p.Value.In == "query" && schema.Type.Is("string") && schema.Enum == nil {
				require.Positive(t, schema.MinLength, "%s: %s", op.OperationID, p.Value.Name)
			}
		}
	}
}

// The events of a run in which everything happens, and those of the golden
// files, are as the document says.
func TestEventsAreAsDocumented(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	_, env := script(t, `
- output: [`+programCall(t, "execute_code", "from refly_tools.demo import Demo\nprint(Demo.wait(file_name_title='x', ms=1))")+`]
- output: [{text: Done.}]
`)
	s := serve(t, databasetest.URL(t, database.SQLite), env...)
	schema := document(t, s).Components.Schemas["Event"].Value
	seen := map[string]bool{}
	check := func(event map[string]any) {
		require.NoError(t, schema.VisitJSON(event), "%v", event)
		seen[event["event"].(string)] = true
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/skill/streamInvoke", strings.NewReader(`{"query":"Hi","toolsets":["demo"]}`))
	require.NoError(t, err)
	r.Header.Set("X-API-Key", s.key)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	for _, e := range eventsOf(t, bufio.NewScanner(resp.Body)) {
		check(e)
	}
	for _, want := range []string{"start", "stream", "tool_call_start", "tool_call_end", "log", "token_usage", "end"} {
		require.True(t, seen[want], "the run had no event %s: %v", want, seen)
	}
	golden, err := filepath.Glob("../run/stream/testdata/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, golden)
	for _, path := range golden {
		if strings.HasSuffix(path, "/token_usage.json") {
			continue // it has more tokens than numbers of 64 bits count
		}
		var event map[string]any
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &event))
		check(event)
	}
}

func TestHEADAnswersLikeGETWithoutABody(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	tried := 0
	for _, op := range operations(document(t, s)) {
		if op.method != http.MethodGet || op.path == "/metrics" { // whose length differs each time
			continue
		}
		tried++
		get, head := s.send(s.key, "GET", op.path, nil), s.send(s.key, "HEAD", op.path, nil)
		require.Equal(t, get.status, head.status, op.path)
		require.Empty(t, head.raw, op.path)
		for _, name := range []string{"Content-Type", "Etag", "Content-Disposition", "Cache-Control", "Vary"} {
			require.Equal(t, get.header.Get(name), head.header.Get(name), "%s: %s", op.path, name)
		}
	}
	require.Greater(t, tried, 30)
	for _, path := range []string{"/metrics", "/openapi.json", "/openapi.yaml"} {
		require.Equal(t, 200, s.send("", "HEAD", path, nil).status, path)
	}
	require.Equal(t, 401, s.send("", "HEAD", "/v1/credit/balance", nil).status)
	require.Equal(t, 405, s.send(s.key, "HEAD", "/v1/tool/execute", nil).status)
}

// A stream goes on as long as its run; HEAD does not.
func TestHEADOfAStreamEnds(t *testing.T) {
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	require.Equal(t, 200, s.send(s.key, "POST", "/v1/action/register", `{"resultId":"ar-live"}`).status)
	a := s.send(s.key, "HEAD", "/v1/action/ar-live/events", nil)
	require.Equal(t, 200, a.status)
	require.Equal(t, "text/event-stream", a.header.Get("Content-Type"))
	require.Equal(t, "no", a.header.Get("X-Accel-Buffering"))
	require.Equal(t, 404, s.send(s.key, "HEAD", "/v1/action/ar-none/events", nil).status)
}

func TestTheRootLeadsSomewhere(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	page := s.send("", "GET", "/", nil, "Accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8")
	require.Equal(t, 200, page.status)
	require.Equal(t, "text/html; charset=utf-8", page.header.Get("Content-Type"))
	require.Contains(t, page.raw, "Sign in · Portico")
	plain := s.send("", "GET", "/", nil, "Accept", "*/*")
	require.Equal(t, 200, plain.status)
	var links map[string]string
	require.NoError(t, json.Unmarshal(plain.body.Data, &links))
	require.Equal(t, "Portico", links["name"])
	for name, path := range links {
		if name != "name" && name != "version" {
			require.Equal(t, 200, s.send("", "GET", path, nil).status, path)
		}
	}
	require.Contains(t, plain.header.Values("Vary"), "Accept")
}

// Allow lists what the document has for a path, not what its neighbours take.
func TestAllowNamesTheMethodsOfThePath(t *testing.T) {
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	for path, want := range map[string]string{
		"/v1/auth/cli/api-key/validate": "POST", "/v1/auth/cli/api-key/ak-1": "DELETE, PATCH", "/v1/auth/cli/api-key": "GET, HEAD, POST", "/": "GET, HEAD",
	} {
		a := s.send(s.key, "OPTIONS", path, nil)
		require.Equal(t, 405, a.status, path)
		require.Equal(t, want, a.header.Get("Allow"), path)
	}
}

// pytool is a program of the tests' Python tools.
func pytool(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	tools := testenv.Need(t, "PORTICO_PYTOOLS", "tools/pytools.sh prints it")
	c := exec.CommandContext(t.Context(), filepath.Join(tools, "bin", name), args...)
	c.Dir = t.TempDir()
	c.Env = append(os.Environ(), "PATH="+filepath.Join(tools, "bin")+":"+os.Getenv("PATH"))
	return c
}

// unsaid are answers to requests that the document allows, by their
// sentence: what a document of this form cannot say.
func unsaid() map[string]string {
	return map[string]string{
		"The query asks for a page in two ways.":     "parameters cannot exclude each other",
		"Numbered pages reach the first":             "the limit is of a product of two parameters",
		"The cursor is not valid.":                   "a cursor is what an answer gave",
		"Invalid continuation token":                 "a token is what an answer gave",
		"Execution expired":                          "a token holds for minutes only",
		"Previous response with id":                  "an id is what an answer gave",
		"tool_results lacks":                         "the calls are those of an answer",
		"Ambiguous authentication headers":           "schemathesis sends a key and a made-up token at once; the document offers them as alternatives",
		"toolChoice is not understood.":              "its forms are those of the model's API",
		"Unsupported language":                       "what is installed decides, and languages have several names",
		"The toolset cannot be installed like this.": "what it takes is in the toolset's own definition",
		"timeout must":                               "the bounds are configured",
		"The upload cannot be read":                  "schemathesis names parts in ways that MIME does not have",
		"No model is configured.":                    "503 is documented; there is no model in this test",
		"at least one message is required":           "null is no list",
		"Input should be next_page of an answer":     "a page is what an answer gave",
		"Tool names must be unique":                  "members cannot be held against each other",
		"nothing could call this tool":               "which tools there are depends on another tool",
		"it is for programs":                         "a member depends on another one",
		"there may be one tool of type":              "what is in a list cannot be counted by its members",
		"there is no such container":                 "an id is what an answer gave",
		"There is no model":                          "the names are those that the server's operator wrote",
		"this server is not connected to Composio":   "503 is documented; there is no Composio in this test",
		"does not answer as it should":               "503 is documented; there is no server at the addresses that are made up",
		"needs your authorization: open":             "503 is documented; nobody authorizes the servers that are made up",
		"url is an address such as":                  "what an address is, no pattern says",
		"refresh is between":                         "0 is the server's own interval; what is less than ten seconds is not",
		"has no placeholder":                         "the names are those that the server's operator wrote",
		"The request changes nothing.":               "members are optional, but one is there",
		"two names for one thing":                    "members cannot be held against each other",
		"tool is missing.":                           "one of two names is there",
		"two answers to one question":                "parameters cannot exclude each other",
		"Documents of this type cannot be read":      "types are many, and parts have them in headers",
		"headers: ":                                  "which names and values a header has, HTTP says",
		"The document has no text":                   "what a document is read as is its text",
		"The source of the document is not valid":    "characters that control a terminal are refused",
		"The name of the collection is not valid":    "characters that control a terminal are refused",
		"One of apiKey, code, and email":             "members exclude each other",
		"This is no e-mail address.":                 "what an address is, no pattern says",
		"Nothing is to be changed.":                  "members are optional, but one is there",
		"There is no time zone":                      "the names are those of the zone files",
		"A time zone says nothing":                   "parameters depend on each other",
		"pattern belongs to the decision":            "members depend on each other",
		"A call that is refused takes neither":       "members depend on each other",
		"The address is longer than":                 "the limit is of the whole query",
		"This server has no model.":                  "503 is documented; there is no model in this test",
		"The body is no message of the Model":        "which members a message has depends on others",
		"The message is not taken.":                  "which methods there are, and what they take, is another protocol's",
		"The code or the refresh token is not valid": "OAuth has one status for all that it refuses",
		"The resource is not one of this server's":   "the same",
		"grant_type is neither":                      "the same",
		"code, client_id, redirect_uri and":          "which fields are there depends on another",
		"refresh_token and client_id are needed":     "the same",
		"redirect_uris are https addresses":          "what an app's address is, no pattern says",
		"The app registers more than":                "the limit is of the whole",
		"stream_options belongs to":                  "members depend on each other",
		"portico is about programs":                  "members depend on each other",
		"This server keeps no object that":           "the vendor's clients may send null",
		"This server does not know what":             "the same",
		"Probabilities of tokens are not known":      "the vendor's clients may send false and 0",
		"There is one choice in an answer here":      "the vendor's clients may send 1",
		"Answers are texts here.":                    "the vendor's clients may send text",
		"Responses are not made in the background":   "the vendor's clients may send false",
		"'input' is an empty list.":                  "what items, messages and tools are is the vendor's to say",
		"A tool must be an object":                   "what items, messages and tools are is the vendor's to say",
		"have the types that the vendor's have":      "the same",
		"Missing required parameter: '":              "the same",
		"Supported values are: '":                    "the same",
		"Invalid type for '":                         "the same",
		"tool_choice is neither":                     "the same",
		"selectedTools has a name":                   "names are counted in bytes",
		"must be a path below /mnt/data":             "which paths there are, no pattern says",
		"code must not hold NUL.":                    "only NUL is no part of a program",
		"Input should be of another type than":       "13.0 is an integer for JSON Schema, and none here",
		"digits, - or _, and not":                    "a pattern leaves out no word",
		"version must be a number":                   "only of what is not a user's",
		"and belongs to a resultId":                  "a member depends on another one",
		"callbackUrl must be":                        "what an address is, no pattern says",
		"No authorization is needed for":             "which toolsets need one is in their definitions",
		"a run can belong to a canvas only":          "what is of no other type has none",
		"request_id is required":                     "a header may stand for it",
		"name two canvases":                          "members cannot be held against each other",
		"The app asks for nothing that there is":     "one of several words is there",
		"An item must be an object":                  "what items, messages and tools are is the vendor's to say",
	}
}

// ignored are requests that the document does not allow and that are answered:
// what is wrong with them is not looked at.
func ignored() map[string][]string {
	return map[string][]string{
		"POST /v1/exec/programmatic":       {"tool_results"},  // without a continuation_token
		"GET /v1/tool/call/output":         {"x-ptc-call-id"}, // without the key of a program
		"POST /v1/tool/execute":            {"x-ptc-line"},    // only shown; a call does not fail for it
		"PUT /v1/mcp/servers/{name}":       {"client"},        // null is none
		"PATCH /v1/mcp/servers/{name}":     {"client"},        // null leaves it as it is
		"GET /v1/action/{resultId}/events": {"ticket"},        // beside a key, which counts
	}
}

// schemathesis makes requests of all kinds by the document, good and bad, and
// looks at every answer.
func TestSchemathesisFindsNothing(t *testing.T) {
	testenv.Slow(t, "about five thousand requests")
	t.Parallel()
	for phases, least := range map[string]int{"examples,coverage": 100_000, "fuzzing": 15_000, "stateful": 3_000} {
		t.Run(phases, func(t *testing.T) {
			t.Parallel()
			s := serve(t, databasetest.URL(t, database.SQLite), "SANDBOX_POOL=4", "SANDBOX_TIMEOUT_MS=5000", "CODEAPI_TIMEOUT_MS=5000")
			report := filepath.Join(t.TempDir(), "report.ndjson")
			out, err := pytool(t, "schemathesis", "run", s.url+"/openapi.json", "-H", "X-API-Key: "+s.key, "--checks", "all", "--phases", phases,
				"--max-examples", "10", "--generation-deterministic", "--continue-on-failure", "--no-color", "--report", "ndjson", "--report-ndjson-path", report).CombinedOutput()
			text, missing := os.ReadFile(report)
			require.NoError(t, missing, "%v: %s", err, out)
			checked := 0
			for line := range strings.Lines(string(text)) {
				var event struct{ ScenarioFinished *tried }
				require.NoError(t, json.Unmarshal([]byte(line), &event))
				if event.ScenarioFinished != nil {
					checked += event.ScenarioFinished.findings(t)
				}
			}
			require.Greater(t, checked, least, "schemathesis hardly checked anything: %s", out)
		})
	}
}

// tried is what schemathesis did with one operation.
type tried struct {
	Recorder struct {
		Label  string
		Checks map[string][]struct {
			Name, Status string
			Failure      json.RawMessage `json:"failure_info"`
		}
		Interactions map[string]struct {
			Request  struct{ Method, URI string }
			Response *struct {
				Status  int `json:"status_code"`
				Content *struct {
					Base64 string `json:"$base64"`
				}
			}
		}
	}
}

// findings fails the test for each that is not expected, and counts the checks.
func (s tried) findings(t *testing.T) (checked int) {
	t.Helper()
	for id, checks := range s.Recorder.Checks {
		checked += len(checks)
		var body []byte
		if r := s.Recorder.Interactions[id].Response; r != nil && r.Content != nil {
			var err error
			body, err = base64.StdEncoding.DecodeString(r.Content.Base64)
			require.NoError(t, err)
		}
		for _, c := range checks {
			if c.Status != "failure" || expected(c.Name, s.Recorder.Label, string(c.Failure), string(body)) || c.Name == "negative_data_rejection" && leftOut(string(c.Failure), s.Recorder.Interactions[id].Request.URI) {
				continue
			}
			t.Errorf("%s: %s: %.2000s\n%v\n%.2000s", s.Recorder.Label, c.Name, c.Failure, s.Recorder.Interactions[id].Request, body)
		}
	}
	return checked
}

func expected(check, label, failure, body string) bool {
	switch check {
	case "positive_data_acceptance", "not_a_server_error":
		for sentence := range unsaid() {
			if strings.Contains(body, sentence) {
				return true
			}
		}
	case "negative_data_rejection":
		return slices.ContainsFunc(ignored()[label], func(what string) bool { return strings.Contains(failure, what) })
	}
	return false
}

var inQuery = regexp.MustCompile("^.*parameter `([^`]+)` in query")

// leftOut reports whether a failure is about a choice, a number or a time that is empty,
// which is as if it were left out: forms send it.
func leftOut(failure, uri string) bool {
	name := inQuery.FindStringSubmatch(failure)
	if name == nil || !strings.Contains(failure, "violates `enum`") && !strings.Contains(failure, "was integer, became string") && name[1] != "from" && name[1] != "until" {
		return false
	}
	u, err := url.Parse(uri)
	return err == nil && u.Query().Has(name[1]) && u.Query().Get(name[1]) == ""
}

func TestGeneratedTypeScriptCompiles(t *testing.T) {
	testenv.Slow(t, "the TypeScript compiler")
	t.Parallel()
	modules := testenv.Need(t, "PORTICO_TYPESCRIPT", "tools/typescript.sh prints it")
	s := serve(t, databasetest.URL(t, database.SQLite))
	dir := t.TempDir()
	run := func(name string, args ...string) {
		c := exec.CommandContext(t.Context(), filepath.Join(modules, ".bin", name), args...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	run("openapi-typescript", s.url+"/openapi.json", "--output", "api.ts")
	const use = `import type { paths, components } from "./api";
const body: paths["/v1/tool/execute"]["post"]["requestBody"]["content"]["application/json"] =
  { toolsetKey: "demo", toolName: "get_weather", arguments: { city: "Rome" } };
const answer = (a: components["schemas"]["EnvelopeAnswer"]): string => a.data.status;
const ended = (e: components["schemas"]["Event"]): boolean => e.event === "end" && e.status === "finish";
export { body, answer, ended };
`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "use.ts"), []byte(use), 0o600))
	run("tsc", "--noEmit", "--strict", "--skipLibCheck", "--module", "esnext", "--moduleResolution", "bundler", "use.ts")
}

func TestGeneratedPythonClientWorks(t *testing.T) {
	testenv.Slow(t, "a client of some five hundred files")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	dir := t.TempDir()
	out, err := pytool(t, "openapi-python-client", "generate", "--url", s.url+"/openapi.json", "--meta", "none", "--output-path", filepath.Join(dir, "portico_client")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	const use = `
import sys
from portico_client import AuthenticatedClient
from portico_client.api.accounts import list_api_keys
from portico_client.api.tools import execute_tool
from portico_client.models import ExecuteBody

client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])
keys = list_api_keys.sync(client=client)
assert keys.success and len(keys.data) == 1, keys
answer = execute_tool.sync(client=client, body=ExecuteBody.from_dict(
    {"toolsetKey": "demo", "toolName": "get_weather", "arguments": {"city": "Rome"}}))
assert answer.data.status == "success", answer
refused = execute_tool.sync(client=AuthenticatedClient(base_url=sys.argv[1], token="rf_none"), body=ExecuteBody(tool_name="x", toolset_key="x"))
assert refused.err_code == "E0012", refused
`
	check := pytool(t, "python", "-m", "compileall", "-q", dir)
	out, err = check.CombinedOutput()
	require.NoError(t, err, "%s", out)
	try := pytool(t, "python", "-c", use, s.url, s.key)
	try.Dir = dir
	out, err = try.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
