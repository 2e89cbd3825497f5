package app_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
)

// scenario is a file of testdata/refly: what a frontend asks, step by step, and
// what it is answered. Each file has a user of its own. What differs from run to
// run is written as a placeholder: "<time>" and "<ms>" for times, "<canvas-1>"
// for the first id of a canvas that an answer names. A later request may use the
// placeholder of an id, in its path, headers and body; "<me>" is the user's own.
// `go test ./modules/app -run TestReflyRequests/sqlite -update` writes status and
// answers anew. NAME.model.yaml beside NAME.json holds the turns of the model.
type scenario struct {
	About string `json:"about"`
	Steps []step `json:"steps"`
}

// step is one request and its answer, or something that happens besides.
type step struct {
	SQL     string            `json:"sql,omitempty"`   // a statement instead of a request
	Agree   string            `json:"agree,omitempty"` // instead of a request, the user connects an account at the provider
	Request string            `json:"request,omitempty"`
	As      string            `json:"as,omitempty"` // "nobody", "another" user, or the placeholder of a key
	Headers map[string]string `json:"headers,omitempty"`
	Body    json.RawMessage   `json:"body,omitempty"` // a text is sent as it is
	Status  int               `json:"status,omitempty"`
	Answer  json.RawMessage   `json:"answer,omitempty"` // events of a stream are a list; what is not JSON is a text
}

// endpoint is the address in links, which is the same in every run.
const endpoint = "ENDPOINT=https://portico.example.com"

// A frontend made for Refly asks these, and reads what is answered.
func TestReflyRequests(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	files, err := filepath.Glob("testdata/refly/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			shared := openGateway(t, d, endpoint)
			for _, file := range files {
				name := strings.TrimSuffix(filepath.Base(file), ".json")
				t.Run(name, func(t *testing.T) {
					g := shared
					turns, err := os.ReadFile(strings.TrimSuffix(file, ".json") + ".model.yaml")
					if err == nil {
						_, env := script(t, string(turns))
						g = openGateway(t, d, append(env, endpoint)...)
					}
					want, err := os.ReadFile(file)
					require.NoError(t, err)
					got := newReplay(t, g, name).play(want)
					if *update && d == database.SQLite {
						require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
						return
					}
					require.Equal(t, string(want), got, "answers changed; review the difference and run with -update")
				})
			}
		})
	}
}

// replay plays one scenario and remembers what its placeholders stand for.
type replay struct {
	*gateway
	uid          string
	keys         map[string]string // by the word of a step's "as"
	placeholders map[string]string // by value
	values       map[string]string // by placeholder
	pieces       map[string]int    // how many events the words of a run came in beyond one each
}

func newReplay(t *testing.T, g *gateway, name string) *replay {
	own := *g.instance
	own.t = t // of the scenario, not of all
	r := &replay{gateway: &gateway{instance: &own, composio: g.composio}, placeholders: map[string]string{}, values: map[string]string{}, pieces: map[string]int{}}
	r.keys = map[string]string{"": g.another(name), "another": g.another("another-" + name), "nobody": ""}
	var err error
	r.uid, err = g.app.Accounts.Service.KeyOwner(t.Context(), r.keys[""])
	require.NoError(t, err)
	r.name(r.uid, "<me>")
	return r
}

func (r *replay) name(value, placeholder string) {
	r.placeholders[value], r.values[placeholder] = placeholder, value
}

// play returns the scenario with the answers that it got.
func (r *replay) play(file []byte) string {
	r.t.Helper()
	var s scenario
	d := json.NewDecoder(bytes.NewReader(file))
	d.DisallowUnknownFields()
	require.NoError(r.t, d.Decode(&s))
	for i := range s.Steps {
		r.step(&s.Steps[i])
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	require.NoError(r.t, e.Encode(s))
	return b.String()
}

func (r *replay) step(s *step) {
	r.t.Helper()
	if s.SQL != "" {
		r.exec(r.fill(s.SQL))
		return
	}
	if s.Agree != "" {
		r.composio.Agree(r.uid, s.Agree)
		return
	}
	method, path, ok := strings.Cut(s.Request, " ")
	require.True(r.t, ok, "a request is METHOD /path: %q", s.Request)
	key, known := r.keys[s.As]
	if !known {
		key = r.fill(s.As)
	}
	var headers []string
	for name, value := range s.Headers {
		headers = append(headers, name, r.fill(value))
	}
	var body any
	if len(s.Body) > 0 {
		text, plain := r.fill(string(s.Body)), ""
		if json.Unmarshal([]byte(text), &plain) == nil {
			text = plain
		}
		body = text
	}
	a := r.send(key, method, r.fill(path), body, headers...)
	s.Status, s.Answer = a.status, r.answer(a)
}

// fill puts values in the place of placeholders.
func (r *replay) fill(text string) string {
	for placeholder, value := range r.values {
		text = strings.ReplaceAll(text, placeholder, value)
	}
	require.NotRegexp(r.t, `<[a-z ]+-\d+>`, text, "no answer so far named it")
	return text
}

// answer is a body as a golden file has it.
func (r *replay) answer(a answer) json.RawMessage {
	text := a.raw
	switch kind, _, _ := strings.Cut(a.header.Get("Content-Type"), ";"); {
	case kind == "text/event-stream":
		var events []string
		read := 0
		for line := range strings.Lines(text) {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				events = joined(r.t, events, strings.TrimSpace(data))
				read++
			}
		}
		if run := ofRun.FindString(text); run != "" {
			r.pieces[run] = read - len(events)
		}
		text = "[" + strings.Join(events, ",") + "]"
	case kind == "application/json":
		text = r.lessPieces(text)
	default:
		b, err := json.Marshal(text)
		require.NoError(r.t, err)
		text = string(b)
	}
	require.True(r.t, json.Valid([]byte(text)), text)
	return json.RawMessage(r.hide(strings.TrimSpace(text)))
}

// ofRun names a run; lastEvent is the number of its last event, which comes
// after its name.
var (
	ofRun     = regexp.MustCompile(`"resultId":"[^"]+","version":\d+`)
	lastEvent = regexp.MustCompile(`"lastEventId":(\d+)`)
)

// lessPieces numbers the last event of runs as if no words had come in pieces.
func (r *replay) lessPieces(text string) string {
	var out strings.Builder
	rest := 0
	for _, m := range lastEvent.FindAllStringSubmatchIndex(text, -1) {
		runs := ofRun.FindAllString(text[:m[0]], -1)
		require.NotEmpty(r.t, runs, text)
		number, err := strconv.Atoi(text[m[2]:m[3]])
		require.NoError(r.t, err)
		out.WriteString(text[rest:m[2]] + strconv.Itoa(number-r.pieces[runs[len(runs)-1]]))
		rest = m[3]
	}
	return out.String() + text[rest:]
}

// joined adds an event. How many pieces words come in depends on time, so that
// those of one message are put together.
func joined(t testing.TB, events []string, next string) []string {
	t.Helper()
	var last, more map[string]any
	require.NoError(t, json.Unmarshal([]byte(next), &more))
	if kind := more["event"]; kind != "stream" && kind != "tool_call_stream" {
		return append(events, next)
	}
	if len(events) > 0 {
		require.NoError(t, json.Unmarshal([]byte(events[len(events)-1]), &last))
	}
	if last["event"] == more["event"] && last["messageId"] == more["messageId"] {
		for _, member := range []string{"content", "reasoningContent"} {
			before, _ := last[member].(string)
			if text, ok := more[member].(string); ok || before != "" {
				more[member] = before + text
			}
		}
		events = events[:len(events)-1]
	}
	text, err := json.Marshal(more)
	require.NoError(t, err)
	return append(events, string(text))
}

// volatile is what differs from run to run. A kind with a group hides the group
// only; one whose name ends with a dash is numbered, and can be sent again.
var volatile = []struct {
	kind string
	form *regexp.Regexp
}{
	{"<upstream>", regexp.MustCompile(`http://127(?:\.\d+){3}:\d+`)},
	{"<trace>", regexp.MustCompile(`"traceId":"([^"]*)"`)},
	{"cursor-", regexp.MustCompile(`"nextCursor":"([^"]+)"`)},
	{"token-", regexp.MustCompile(`[?&]token=([^"&]+)`)},
	{"link-", regexp.MustCompile(`/link/([^"/?]+)`)},
	{"account-", regexp.MustCompile(`"(?:connectedAccountId|connectionRequestId)":"([^"]+)"`)},
	{"key-", regexp.MustCompile(`\brf_[0-9A-Za-z]{32,33}\b`)},
	{"<key prefix>", regexp.MustCompile(`\brf_[0-9A-Za-z]{9}\b`)},
	{"run-", regexp.MustCompile(`\bar-[0-9a-z]{24}\b`)},
	{"message-", regexp.MustCompile(`\bam-[0-9a-z]{24}\b`)},
	{"canvas-", regexp.MustCompile(`\bc-[0-9a-z]{24}\b`)},
	{"file-", regexp.MustCompile(`\bdf-[0-9a-z]{24}\b`)},
	{"toolset-", regexp.MustCompile(`\bts-[0-9a-z]{24}\b`)},
	{"keyid-", regexp.MustCompile(`\bak-[0-9a-z]{24}\b`)},
	{"usage-", regexp.MustCompile(`\bcu-[0-9a-z]{24}\b`)},
	{"recharge-", regexp.MustCompile(`\bcr-[0-9a-z]{24}\b`)},
	{"user-", regexp.MustCompile(`\bu-[0-9a-z]{24}\b`)},
	{"ptc-", regexp.MustCompile(`\bptc[:_][0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)},
	{"agent-", regexp.MustCompile(`\bagent[:_][0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)},
	{"standalone-", regexp.MustCompile(`\bstandalone[:_][0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)},
	{"<time>", regexp.MustCompile(`\b20\d\d-\d\d-\d\dT[0-9:.]+(?:Z|[+-]\d\d:\d\d)`)},
	{"<date>", regexp.MustCompile(`\b20\d\d-\d\d-\d\d\b`)},
	{`"<ms>"`, regexp.MustCompile(`"(?:[a-zA-Z]+At|[a-z]+Ts|timestamp)":([1-9]\d{12})\b`)},
	{`"<duration>"`, regexp.MustCompile(`"duration[A-Za-z]*":(\d+)`)},
}

// hide puts placeholders in the place of what differs from run to run.
func (r *replay) hide(text string) string {
	text = strings.NewReplacer(r.url, "<server>", r.composio.URL, "<composio>", r.uid, "<me>").Replace(text)
	for _, v := range volatile {
		var out strings.Builder
		rest := 0
		for _, m := range v.form.FindAllStringSubmatchIndex(text, -1) {
			from, to := m[len(m)-2], m[len(m)-1]
			out.WriteString(text[rest:from] + r.placeholder(v.kind, text[from:to]))
			rest = to
		}
		text = out.String() + text[rest:]
	}
	return text
}

func (r *replay) placeholder(kind, value string) string {
	if known, ok := r.placeholders[value]; ok {
		return known
	}
	if !strings.HasSuffix(kind, "-") || strings.HasPrefix(value, "<") {
		return strings.TrimSuffix(kind, "-")
	}
	for n := 1; ; n++ {
		p := "<" + kind + strconv.Itoa(n) + ">"
		if _, taken := r.values[p]; !taken {
			r.name(value, p)
			return p
		}
	}
}
