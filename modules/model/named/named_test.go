package named_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/model/content"
	"github.com/portico-run/portico/modules/model/named"
)

// providers is three providers, each of which speaks another protocol.
type providers struct {
	*httptest.Server

	mu     sync.Mutex
	down   map[string]int // the status that one answers with instead
	asked  []string
	bodies map[string]string // what each was sent last
}

func serve(t *testing.T) *providers {
	t.Helper()
	p := &providers{down: map[string]int{}, bodies: map[string]string{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.Split(r.URL.Path, "/")[1]
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		p.mu.Lock()
		p.asked, p.bodies[name] = append(p.asked, name), body.String()
		status := p.down[name]
		p.mu.Unlock()
		if status != 0 {
			w.WriteHeader(status)
			fmt.Fprint(w, `{"error":{"message":"out of order"}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, event := range map[string][]string{
			"r": {`{"type":"response.completed","response":{"id":"r","model":"m-r","output":[{"type":"reasoning","id":"rs_1","encrypted_content":"secret of r"},{"type":"function_call","call_id":"c-r","name":"add","arguments":"{}"}],"usage":{"input_tokens":1}}}`},
			"c": {`{"id":"c","model":"m-c","choices":[{"index":0,"delta":{"content":"By c.","reasoning_content":"secret of c"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}`, "[DONE]"},
			"m": {
				`{"type":"message_start","message":{"id":"m","model":"m-m","content":[{"type":"thinking","thinking":"secret of m","signature":"s"},{"type":"text","text":"By m."}],"usage":{"input_tokens":1}}}`,
				`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, `{"type":"message_stop"}`,
			},
		}[name] {
			fmt.Fprintf(w, "data: %s\n\n", event)
		}
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *providers) file() string {
	return fmt.Sprintf(`
models:
  - {name: r, baseUrl: "%[1]s/r", fallbacks: [c, m], retries: 0}
  - {name: c, protocol: chat, baseUrl: "%[1]s/c", fallbacks: [m], retries: 0}
  - {name: m, protocol: messages, baseUrl: "%[1]s/m", retries: 0}
`, p.URL)
}

func (p *providers) set(t *testing.T, first string) *named.Set {
	t.Helper()
	models, err := named.Parse([]byte(p.file()), nil, named.Defaults{})
	require.NoError(t, err)
	s, err := named.New(models, first, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return s
}

func (p *providers) order() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	order := strings.Join(p.asked, " ")
	p.asked = nil
	return order
}

func nothing(model.Delta) {}

// Where a model gives no answer, its fallbacks are asked in their order, and the
// conversation stays with the one that answered.
func TestFallbacks(t *testing.T) {
	t.Parallel()
	p := serve(t)
	s := p.set(t, "")
	ask := func(name string, items []model.Item) model.Response {
		r, err := s.Respond(t.Context(), model.Request{Model: name, Input: items}, nothing)
		require.NoError(t, err)
		return r
	}
	talk := []model.Item{model.User("Add.")}
	got := ask("", talk)
	require.Equal(t, "r", p.order())
	require.Equal(t, "r", got.Name)
	require.Empty(t, got.Passed)
	talk = append(append(talk, got.Output...), model.Output("c-r", "3"))

	p.down["r"], p.down["c"] = 503, 429
	got = ask("r", talk)
	require.Equal(t, "r c m", p.order())
	require.Equal(t, "m", got.Name)
	require.Equal(t, []string{"r", "c"}, []string{got.Passed[0].Name, got.Passed[1].Name})
	require.Contains(t, got.Passed[1].Why, "status 429: out of order")
	// What the other one thought is nobody else's; its call and what came of it are.
	require.NotContains(t, p.bodies["m"], "secret of r")
	require.Contains(t, p.bodies["m"], `{"type":"tool_use","id":"c-r","name":"add","input":{}}`)
	require.Contains(t, p.bodies["m"], `"tool_use_id":"c-r","content":"3"`)
	talk = append(append(talk, got.Output...), model.User("More."))

	p.down["r"], p.down["c"] = 0, 0
	got = ask("r", talk)
	require.Equal(t, "m", p.order(), "it stays")
	require.Equal(t, "m", got.Name)
	require.Contains(t, p.bodies["m"], `{"signature":"s","thinking":"secret of m","type":"thinking"}`, "its own is as it wrote it")

	p.down["m"] = 500
	talk = append(append(talk, got.Output...), model.User("Again."))
	got = ask("r", talk)
	require.Equal(t, "m r", p.order())
	require.Equal(t, "r", got.Name)
	require.Contains(t, p.bodies["r"], "secret of r")
	require.NotContains(t, p.bodies["r"], "secret of m")
	require.Contains(t, p.bodies["r"], "By m.")
	require.NotContains(t, p.bodies["r"], "portico_model", "no provider sees marks")

	// A conversation that was with a model that is gone is with the one that is asked.
	p.down["m"] = 0
	got = ask("c", append([]model.Item{[]byte(`{"type":"portico_model","name":"gone"}`)}, talk...))
	require.Equal(t, "m", p.order())
	require.Equal(t, "m", got.Name)
}

// A refusal is one, and nobody else is asked. So is a request whose caller is gone.
func TestRefusalsAreNotPassedOn(t *testing.T) {
	t.Parallel()
	p := serve(t)
	s := p.set(t, "c")
	for _, status := range []int{400, 401, 403, 404, 413, 422} {
		p.down["c"] = status
		_, err := s.Respond(t.Context(), model.Request{Input: []model.Item{model.User("x")}}, nothing)
		require.ErrorContains(t, err, fmt.Sprintf("with status %d", status))
		require.Equal(t, "c", p.order())
	}
	for _, status := range []int{408, 409, 429, 500, 503, 529} {
		p.down["c"] = status
		_, err := s.Respond(t.Context(), model.Request{Input: []model.Item{model.User("x")}}, nothing)
		require.NoError(t, err)
		require.Equal(t, "c m", p.order(), status)
	}
	p.down["m"] = 500
	_, err := s.Respond(t.Context(), model.Request{Input: []model.Item{model.User("x")}}, nothing)
	require.ErrorContains(t, err, "with status 500", "the last one's")
	p.order()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Respond(ctx, model.Request{Input: []model.Item{model.User("x")}}, nothing)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, p.order())
}

// A model that is not admitted in place of another one is passed over, also where the
// conversation is with it; the one that was asked for is not asked about.
func TestModelsThatAreNotAdmitted(t *testing.T) {
	t.Parallel()
	p := serve(t)
	s := p.set(t, "")
	refuses := func(name string, refusal error) func(context.Context, string) error {
		return func(_ context.Context, asked string) error {
			if asked == name {
				return refusal
			}
			return nil
		}
	}
	noCredits := errs.New(errs.NoCredits, "Nothing is left.")
	p.down["r"] = 503
	talk := []model.Item{model.User("x")}
	got, err := s.Respond(t.Context(), model.Request{Input: talk, Admit: refuses("c", noCredits)}, nothing)
	require.NoError(t, err)
	require.Equal(t, "r m", p.order())
	require.Len(t, got.Passed, 1, "it was not asked")
	talk = append(talk, got.Output...)

	_, err = s.Respond(t.Context(), model.Request{Input: talk, Model: "c", Admit: refuses("m", noCredits)}, nothing)
	require.NoError(t, err)
	require.Equal(t, "c", p.order())
	_, err = s.Respond(t.Context(), model.Request{Input: talk, Model: "m", Admit: refuses("m", noCredits)}, nothing)
	require.NoError(t, err)
	require.Equal(t, "m", p.order())
	_, err = s.Respond(t.Context(), model.Request{Input: talk, Admit: refuses("m", errors.New("no database"))}, nothing)
	require.EqualError(t, err, "no database")
	require.Empty(t, p.order())
}

// What was shown of an answer that broke off does not count when another model answers.
func TestHalfAnswersAreTakenBack(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/whole") {
			fmt.Fprint(w, `data: {"choices":[{"delta":{"content":"Whole."},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
			return
		}
		fmt.Fprint(w, `data: {"choices":[{"delta":{"content":"Half"}}]}`+"\n\n")
	}))
	t.Cleanup(web.Close)
	models, err := named.Parse(fmt.Appendf(nil, `models: [{name: half, protocol: chat, baseUrl: "%[1]s/half", fallbacks: [whole]}, {name: whole, protocol: chat, baseUrl: "%[1]s/whole"}]`, web.URL), nil, named.Defaults{})
	require.NoError(t, err)
	s, err := named.New(models, "", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	shown := ""
	r, err := s.Respond(t.Context(), model.Request{Input: []model.Item{model.User("x")}}, func(d model.Delta) {
		if shown += d.Text; d.Kind == model.Restart {
			shown = ""
		}
	})
	require.NoError(t, err)
	require.Equal(t, "Whole.", shown)
	require.Contains(t, r.Passed[0].Why, "broke off")
}

// One model alone is asked as it is: its items hold nothing of this package.
func TestOneModel(t *testing.T) {
	t.Parallel()
	p := serve(t)
	s, err := named.New([]named.Model{{Name: "one", Config: model.Config{BaseURL: p.URL + "/r", Model: "one"}}}, "one", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.True(t, s.Has(""))
	require.True(t, s.Has("one"))
	require.False(t, s.Has("two"))
	require.Equal(t, []string{"one"}, s.Names())
	r, err := s.Respond(t.Context(), model.Request{Input: []model.Item{model.User("x")}}, nothing)
	require.NoError(t, err)
	require.Len(t, r.Output, 2)
	require.Equal(t, "one", r.Name)
	_, err = s.Respond(t.Context(), model.Request{Input: append([]model.Item{model.User("x")}, r.Output...)}, nothing)
	require.NoError(t, err)
	require.Contains(t, p.bodies["r"], "secret of r")
	_, err = s.Fit(model.Tool{Name: "a b"})
	require.Error(t, err)

	_, err = named.New(nil, "", nil)
	require.Error(t, err)
}

func TestFiles(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "models.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
models:
  - name: small
    protocol: chat
    baseUrl: http://127.0.0.1:8000/v1
    model: qwen
    apiKey: "${MODEL_KEY}"
    headers: {X-Team: "a ${MODEL_TEAM}"}
    request: {temperature: 0.5, reasoning: {effort: low}}
    lacks: [system, stream_options]
    maxOutput: 1000
    context: 32000
    prices: {input: 1.5, cached: 0.15, output: 6}
    retries: 0
    timeout: 1m
  - name: large
    baseUrl: https://api.example.com/v1
    strict: true
    prices: {input: "3"}
    fallbacks: [small]
`), 0o600))
	models, err := named.Load(file, map[string]string{"MODEL_KEY": "sk-1", "MODEL_TEAM": "b"}, named.Defaults{MaxOutput: 7, Retries: 4, Timeout: time.Hour, Idle: time.Second})
	require.NoError(t, err)
	credit := money.Credit
	require.Equal(t, named.Model{
		Name: "small", Context: 32000, Prices: named.Prices{Input: credit * 3 / 2, Cached: credit * 15 / 100, Written: credit * 3 / 2, Output: 6 * credit},
		Config: model.Config{
			Protocol: model.Chat, BaseURL: "http://127.0.0.1:8000/v1", APIKey: "sk-1", Headers: map[string]string{"X-Team": "a b"}, Model: "qwen",
			Lacks: model.Lacks{model.SystemRole, model.StreamOptions}, MaxOutput: 1000, Timeout: time.Minute, Idle: time.Second,
			Extra: map[string]json.RawMessage{"temperature": []byte("0.5"), "reasoning": []byte(`{"effort":"low"}`)},
		},
	}, models[0])
	require.Equal(t, "large", models[1].Config.Model)
	require.Equal(t, model.Responses, models[1].Config.Protocol)
	require.Equal(t, []any{int64(7), 4, time.Hour}, []any{models[1].Config.MaxOutput, models[1].Config.Retries, models[1].Config.Timeout})
	require.Equal(t, 3*credit, models[1].Prices.Cached)
	_, err = named.New(models, "other", nil)
	require.EqualError(t, err, `there is no model "other"; there are: small, large`)

	_, err = named.Load(file+"x", nil, named.Defaults{})
	require.ErrorContains(t, err, "cannot be read")
	require.NoError(t, os.WriteFile(file, bytes.Repeat([]byte("#"), named.MaxFile+1), 0o600))
	_, err = named.Load(file, nil, named.Defaults{})
	require.ErrorContains(t, err, "more than 1048576 bytes")
}

// A file that is wrong is refused as a whole, with everything that is wrong in it.
func TestWrongFiles(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":           {"EOF"},
		"models: []": {"has no models"},
		"odd: 1":     {"field odd not found"},
		"models: [{name: a, baseUrl: http://x, odd: 1}]":                                                  {"field odd not found"},
		"models: [{name: a b, baseUrl: ftp://x}, {name: c, protocol: soap, lacks: [tools], context: -1}]": {"name must be", "baseUrl must be a URL", "protocol must be one of responses, chat, messages", "lacks must be some of", "must not be negative"},
		"models: [{name: a, baseUrl: http://x}, {name: a, baseUrl: http://x}]":                            {"there are two of this name"},
		"models: [{name: a, baseUrl: http://x, fallbacks: [a, b]}]":                                       {`fallback "a" is not another`, `fallback "b" is not another`},
		`models: [{name: a, baseUrl: http://x, apiKey: "${MODEL_KEY}", headers: {X: "${HOME}"}}]`:         {"${MODEL_KEY} is not set", "${HOME} is not set"},
		"models: [{name: a, baseUrl: http://x, request: {stream: false}}]":                                {"request must not have stream"},
		"models: [{name: a, baseUrl: http://x, prices: {input: much, cached: -1}}]":                       {"prices.input must be", "prices.cached must be"},
		"models: [{name: a, baseUrl: http://x, context: 1000, maxOutput: 1000}]":                          {"context must be more than maxOutput"},
	} {
		_, err := named.Parse([]byte(text), nil, named.Defaults{})
		require.Error(t, err, text)
		for _, sentence := range want {
			require.ErrorContains(t, err, sentence, text)
		}
	}
}

// What a model cannot carry is no answer of a fallback: the first one's failure stands.
func TestFallbacksThatCannotCarryARequest(t *testing.T) {
	t.Parallel()
	p := serve(t)
	s := p.set(t, "")
	seen := model.OutputParts("c", []model.Part{{Type: content.Image, URL: "https://example.com/a.png"}})
	talk := []model.Item{model.User("Look."), model.CallItem("c", "look", "{}"), seen}
	p.down["r"] = 503
	got, err := s.Respond(t.Context(), model.Request{Input: talk}, nothing)
	require.NoError(t, err)
	require.Equal(t, "r m", p.order(), "c takes no pictures from tools")
	require.Equal(t, "m", got.Name)
	require.Contains(t, got.Passed[1].Why, "no images or files from tools")
	p.down["m"] = 503
	_, err = s.Respond(t.Context(), model.Request{Input: talk}, nothing)
	require.ErrorContains(t, err, "status 503")
	_, err = s.Respond(t.Context(), model.Request{Model: "c", Input: talk}, nothing)
	require.Equal(t, errs.Invalid, errs.CodeOf(err), "of the one that was asked for, it is a refusal")
}

// Items of an earlier answer go back under the name of their writer, who alone reads
// all of them; what the model that answers is not told, the answer says.
func TestMarkersAndOptions(t *testing.T) {
	t.Parallel()
	p := serve(t)
	s := p.set(t, "")
	require.Equal(t, "m", named.MarkedBy(named.Marker("m")))
	require.Empty(t, named.MarkedBy(model.User("m")))
	thought := model.Item(`{"type":"thinking","thinking":"Hm","signature":"secret"}`)
	talk := []model.Item{model.User("Go."), named.Marker("m"), thought, model.Item(`{"type":"text","text":"Yes"}`), model.User("More.")}
	ask := model.Request{Model: "m", Input: talk, Options: model.Options{Stop: []string{"END"}}}
	got, err := s.Respond(t.Context(), ask, nothing)
	require.NoError(t, err)
	require.Contains(t, p.bodies["m"], string(thought))
	require.Empty(t, got.LeftOut)
	ask.Input = append(talk[:1:1], append([]model.Item{named.Marker("r")}, talk[2:]...)...)
	_, err = s.Respond(t.Context(), ask, nothing)
	require.NoError(t, err)
	require.NotContains(t, p.bodies["m"], "secret", "of another writer's, the words go")
	require.Contains(t, p.bodies["m"], `"Yes"`)

	require.Equal(t, []model.Protocol{model.Responses, model.Responses, model.Chat, model.Messages}, []model.Protocol{s.Protocol(""), s.Protocol("r"), s.Protocol("c"), s.Protocol("m")})
	require.Equal(t, []string{"The model's protocol has no stop sequences."}, s.Unsupported("", ask.Options))
	require.Empty(t, s.Unsupported("m", ask.Options))
	// Of the fallback that answers, too.
	p.down["c"] = 503
	got, err = s.Respond(t.Context(), model.Request{Model: "c", Input: talk[:1], Options: model.Options{Format: &model.Format{Object: true}}}, nothing)
	require.NoError(t, err)
	require.Equal(t, []string{"The model's protocol has no JSON mode without a schema."}, got.LeftOut)
}

// Tokens are counted for the model that would be asked.
func TestTokensAreCountedForAModel(t *testing.T) {
	t.Parallel()
	p := serve(t)
	s := p.set(t, "")
	p.down["m"] = 404
	talk := []model.Item{model.User("Go."), named.Marker("r"), []byte(`{"type":"reasoning","id":"rs","encrypted_content":"` + strings.Repeat("x", 4000) + `"}`), model.User("More.")}
	for name, most := range map[string]int64{"r": 2000, "c": 200, "m": 200} {
		got, err := s.CountTokens(t.Context(), model.Request{Model: name, Input: talk})
		require.NoError(t, err, name)
		require.False(t, got.Exact)
		require.Less(t, got.Tokens, most, name)
		require.Greater(t, got.Tokens, most/10, name)
	}
	require.Equal(t, "m", p.order(), "who does not count is not asked")
}
