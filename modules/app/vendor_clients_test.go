// Slow under the race detector: make test runs it without.
//go:build !race

package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/scripted"
	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/tool/approval"
)

// vendorJob is one conversation of a client; shared.mjs says what it means.
type vendorJob struct {
	Name     string `json:"name"`
	Mode     string `json:"mode"`
	Scenario string `json:"scenario"`
	Prompt   string `json:"prompt"`
	Greeting string `json:"greeting"`
	URL      string `json:"url"`
	Key      string `json:"key"`
	Other    string `json:"other"`
	Model    string `json:"model"`

	uid string
}

// vendorSeen is what a client saw of a conversation.
type vendorSeen struct {
	Texts []string
	Calls []struct {
		Name      string
		Arguments struct{ ID int }
	}
	Items           [][]string
	Answers, Deltas int
	Usage           struct{ Input, Output int }
	Asked           []struct{ Tool, Arguments, Server string }
	Errors          []*vendorRefusal // nil: it was not refused
	Failed          *vendorRefusal
	Missing, Stop   string
}

type vendorRefusal struct {
	Name, Code, Type, Message string
	Status                    int
}

// vendorClient is a client, and what it does in each of its modes.
type vendorClient struct {
	name    string
	command []string
	modes   map[string][]string
	// noRetry are modes in which the client leaves a lost answer to its user.
	noRetry []string
}

func vendorClients(root string) []vendorClient {
	scenarios := func(more ...string) []string {
		return append([]string{"no_tools", "one_tool", "gather_five", "two_pauses", "mix", "error_result", "lost_answer", "lost_result", "stream", "approval_allow", "approval_refuse"}, more...)
	}
	all := scenarios("missing_result", "foreign_container")
	chat := []string{"chat_plain", "chat_program", "chat_stream", "lost_answer", "lost_result"}
	node := func(file string) []string { return []string{"node", "--no-warnings", "testdata/vendors/" + file, root} }
	python := func(file string) []string {
		return []string{filepath.Join(root, "python/bin/python"), "-B", "testdata/vendors/" + file}
	}
	plain := map[string][]string{"history": all, "previous": all, "chat": append(chat, "missing_result")}
	agents := map[string][]string{"history": scenarios(), "previous": scenarios(), "chat": chat}
	messages := map[string][]string{"loop": all, "runner": scenarios()}
	return []vendorClient{
		{name: "openai of npm", command: node("openai.mjs"), modes: plain},
		{name: "openai of PyPI", command: python("openai_sdk.py"), modes: plain},
		{name: "OpenAI Agents of npm", command: node("openai_agents.mjs"), modes: agents},
		{name: "OpenAI Agents of PyPI", command: python("openai_agents.py"), modes: agents, noRetry: []string{"history", "previous"}},
		{name: "Anthropic of npm", command: node("anthropic.mjs"), modes: messages},
		{name: "Anthropic of PyPI", command: python("anthropic_sdk.py"), modes: messages},
		{name: "Vercel AI SDK", command: node("ai.mjs"), modes: map[string][]string{"responses": scenarios(), "stored": scenarios(), "messages": scenarios(), "chat": chat}},
	}
}

// vendorWant is how a conversation ends, whoever has it.
type vendorWant struct {
	prompt  string
	said    string
	orders  []int // that the client looked up
	asked   int   // approvals
	pauses  int
	weather int // executed by the server
	notes   int
	refused []int // statuses of what the client sent on purpose
	lose    int   // which answer gets lost
}

func vendorWants() map[string]vendorWant {
	return map[string]vendorWant{
		"no_tools":          {prompt: "no_tools", said: "Hello."},
		"one_tool":          {prompt: "one_tool", said: "The total is 10.", orders: []int{1}, pauses: 1},
		"gather_five":       {prompt: "gather_five", said: "The total is 150.", orders: []int{1, 2, 3, 4, 5}, pauses: 1},
		"two_pauses":        {prompt: "two_pauses", said: "The total is 30.", orders: []int{1, 2}, pauses: 2},
		"stream":            {prompt: "stream", said: "The total is 60.", orders: []int{1, 2, 3}, pauses: 2},
		"mix":               {prompt: "mix", said: "Oslo 20.", orders: []int{2}, pauses: 1, weather: 1},
		"error_result":      {prompt: "error_value", said: "Caught: not found.", orders: []int{9}, pauses: 1},
		"missing_result":    {prompt: "missing_result", said: "The total is 30.", orders: []int{1, 2}, pauses: 1, refused: []int{http.StatusBadRequest}},
		"foreign_container": {prompt: "foreign_container", said: "The total is 10.", orders: []int{1}, pauses: 1, refused: []int{http.StatusBadRequest, http.StatusBadRequest}},
		"lost_answer":       {prompt: "lost_answer", said: "Oslo 10 Rome.", orders: []int{1}, pauses: 1, weather: 2, lose: 1},
		"lost_result":       {prompt: "lost_answer", said: "Oslo 10 Rome.", orders: []int{1}, pauses: 1, weather: 2, lose: 2},
		"approval_allow":    {prompt: "approval", said: "Approved.", asked: 1, pauses: 1, notes: 1},
		"approval_refuse":   {prompt: "refusal", said: "Refused.", asked: 1, pauses: 1},
		"chat_plain":        {prompt: "no_tools", said: "Hello."},
		"chat_program":      {prompt: "stream", said: "The total is 60.", orders: []int{1, 2, 3}, pauses: 2},
		"chat_stream":       {prompt: "stream", said: "The total is 60.", orders: []int{1, 2, 3}, pauses: 2},
	}
}

// onMessages is what differs where Anthropic's protocol is spoken: a result can be an
// error there, and programs are found by their container.
func (w vendorWant) onMessages(scenario string) vendorWant {
	switch scenario {
	case "error_result":
		w.prompt = "error_result"
	case "foreign_container":
		w.refused = []int{http.StatusNotFound, http.StatusNotFound, http.StatusBadRequest}
	}
	return w
}

// The vendors' own clients, unmodified, in their documented loops, have programs run
// and execute the tools that are theirs. An answer that gets lost is given again, and
// nothing is executed, sampled or billed twice.
func TestVendorsOwnClients(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	root := testenv.Need(t, "PORTICO_VENDORS", "tools/vendors.sh installs the clients")
	model, err := scripted.Load("testdata/vendors/model.yaml")
	require.NoError(t, err)
	for _, c := range vendorClients(root) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			upstream := httptest.NewServer(scripted.New(model))
			t.Cleanup(upstream.Close)
			s := serve(t, databasetest.URL(t, database.SQLite), "MODEL_NAME=scripted", "MODEL_BASE_URL="+upstream.URL, "MODEL_API_KEY=sk-model-secret", "MODEL_INPUT_PRICE=300", "MODEL_OUTPUT_PRICE=1200")
			require.NoError(t, s.app.Approvals.Service.SetRule(t.Context(), approval.Rule{Toolset: "demo", Tool: "save_note", Level: approval.Always}))
			jobs, lose := c.jobs(s)
			proxy := newLossy(t, s.url, lose)
			for i := range jobs {
				jobs[i].URL = proxy.url + "/" + jobs[i].Name
			}
			seen := c.run(t, jobs)
			for _, job := range jobs {
				require.Contains(t, seen, job.Name)
				t.Run(job.Name, func(t *testing.T) { c.check(t, s, job, seen[job.Name], proxy.of(job.Name)) })
			}
		})
	}
}

// jobs are the conversations of a client, each of a user of its own, and the answers
// that get lost.
func (c vendorClient) jobs(s *instance) (jobs []vendorJob, lose map[string]int) {
	lose = map[string]int{}
	other := s.another("other")
	for mode, scenarios := range c.modes {
		for _, scenario := range scenarios {
			job := c.job(s, mode, scenario)
			job.Other = other
			lose[job.Name] = c.want(mode, scenario).lose
			jobs = append(jobs, job)
		}
	}
	return jobs, lose
}

// job is a conversation of a client, of a user of its own.
func (c vendorClient) job(s *instance, mode, scenario string) vendorJob {
	s.t.Helper()
	name := strings.NewReplacer(".", "-", "_", "-", " ", "-").Replace(strings.ToLower(c.name + "." + mode + "." + scenario))
	u, err := s.app.Accounts.Service.CreateUser(s.t.Context(), name, "")
	require.NoError(s.t, err)
	_, key, err := s.app.Accounts.Service.CreateKey(s.t.Context(), actor.Actor{UID: u.UID, Scope: actor.Full}, "test", 0)
	require.NoError(s.t, err)
	return vendorJob{
		Name: mode + "." + scenario, Mode: mode, Scenario: scenario, Model: "scripted", Key: key.Reveal(), uid: u.UID,
		Prompt: "scenario=" + c.want(mode, scenario).prompt + ";", Greeting: "scenario=no_tools;",
	}
}

func (c vendorClient) want(mode, scenario string) vendorWant {
	want := vendorWants()[scenario]
	switch mode {
	case "loop", "runner", "messages":
		want = want.onMessages(scenario)
	}
	return want
}

// run has a client do all jobs in one process.
func (c vendorClient) run(t *testing.T, jobs []vendorJob) map[string]vendorSeen {
	t.Helper()
	text, err := json.Marshal(jobs)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // clients wait for ten each time
	defer cancel()
	cmd := exec.CommandContext(ctx, c.command[0], c.command[1:]...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "JOBS=" + string(text), "STACKS=1",
		"SSL_CERT_DIR=" + t.TempDir(), // nothing here is TLS; httpx would parse every certificate of the system for each conversation
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", &stderr)
		}
	})
	out, err := cmd.Output()
	require.NoError(t, err)
	var seen map[string]vendorSeen
	require.NoError(t, json.Unmarshal(out, &seen), "%s", out)
	return seen
}

func (c vendorClient) check(t *testing.T, s *instance, job vendorJob, seen vendorSeen, told *traffic) {
	t.Helper()
	want := c.want(job.Mode, job.Scenario)
	var orders []int
	for _, call := range seen.Calls {
		require.Equal(t, "get_order", call.Name)
		orders = append(orders, call.Arguments.ID)
	}
	if want.lose > 0 && slices.Contains(c.noRetry, job.Mode) {
		require.NotNil(t, seen.Failed, "it is left to the user")
		require.Equal(t, want.lose, executions(s, job, "get_weather"), "and not executed again")
		return
	}
	require.Nil(t, seen.Failed, "%+v", seen.Failed)
	require.NotEmpty(t, seen.Texts)
	require.Equal(t, want.said, seen.Texts[len(seen.Texts)-1])
	require.ElementsMatch(t, want.orders, orders, "each is looked up once")
	require.Equal(t, want.pauses+1, seen.Answers, "%v", seen.Items)
	require.Len(t, seen.Asked, want.asked)
	for _, asked := range seen.Asked {
		require.Contains(t, asked.Tool, "save_note")
		require.JSONEq(t, `{"title": "t", "text": "x"}`, asked.Arguments)
	}
	require.Equal(t, want.weather, executions(s, job, "get_weather"))
	require.Equal(t, want.notes, executions(s, job, "save_note"))
	c.checkRefusals(t, want, job, seen, told)
	c.checkUsage(t, s, want, job, seen)
	if strings.Contains(job.Scenario, "stream") {
		require.GreaterOrEqual(t, seen.Deltas, 2, "the text comes in parts")
	}
	if want.lose > 0 {
		require.NotEmpty(t, told.lost)
		require.JSONEq(t, told.lost, told.instead, "the same answer again")
	}
}

// checkRefusals compares what was refused; a tool runner is also told once that there
// are no threads.
func (c vendorClient) checkRefusals(t *testing.T, want vendorWant, job vendorJob, seen vendorSeen, told *traffic) {
	t.Helper()
	refused := told.refused
	if job.Mode == "runner" {
		require.NotEmpty(t, refused)
		require.Equal(t, http.StatusBadRequest, refused[0], "there are no threads")
		refused = refused[1:]
	}
	require.Len(t, seen.Errors, len(want.refused))
	require.Len(t, refused, len(want.refused))
	for i, status := range want.refused {
		require.NotNil(t, seen.Errors[i])
		require.Equal(t, status, seen.Errors[i].Status, "%+v", seen.Errors[i])
		require.Equal(t, status, refused[i])
		if status == http.StatusNotFound {
			require.Equal(t, "container_expired", seen.Errors[i].Code)
		}
		if job.Scenario == "missing_result" {
			require.Contains(t, seen.Errors[i].Message, seen.Missing)
		}
	}
}

// checkUsage compares what was sampled with what the client was told and what the
// ledger holds: nothing for going on with a program.
func (c vendorClient) checkUsage(t *testing.T, s *instance, want vendorWant, job vendorJob, seen vendorSeen) {
	t.Helper()
	input, output, sampled := 300, 50, 2
	if want.pauses == 0 {
		input, output, sampled = 100, 20, 1
	}
	require.Equal(t, fmt.Sprint(input, output), fmt.Sprint(seen.Usage.Input, seen.Usage.Output))
	if job.Mode == "previous" && strings.HasPrefix(c.name, "OpenAI Agents of npm") {
		sampled++ // the greeting
	}
	require.Equal(t, sampled, s.count("SELECT count(*) FROM credit_usages WHERE uid = ? AND usage_type = 'model_call'", job.uid))
	billed := "SELECT count(*) FROM credit_usages u JOIN tool_call_results c ON c.call_id = u.tool_call_id WHERE c.uid = ? AND c.tool_name IN ('get_weather', 'save_note')"
	require.Equal(t, want.weather+want.notes, s.count(billed, job.uid))
}

// executions counts the calls of a tool that the server executed for a job's user.
func executions(s *instance, job vendorJob, tool string) int {
	s.t.Helper()
	return s.count("SELECT count(*) FROM tool_call_results WHERE uid = ? AND tool_name = ? AND status = 'completed'", job.uid, tool)
}
