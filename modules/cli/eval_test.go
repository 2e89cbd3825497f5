package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/scripted"
	"github.com/portico-run/portico/dev/services/tasks"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app/apptest"
	"github.com/portico-run/portico/modules/cli"
	"github.com/portico-run/portico/modules/sandbox/sandboxtest"
)

// evalEnv is the environment of a comparison. Its database is not used.
func evalEnv(t *testing.T, more ...string) []string {
	t.Helper()
	testenv.Sandbox(t, sandboxtest.Root())
	return append(apptest.Environ(t, "sqlite:"+filepath.Join(t.TempDir(), "not-used.db")), append([]string{"SANDBOX_POOL=2"}, more...)...)
}

// evaluation is what --json writes, as far as tests read it.
type evaluation struct {
	Model             string
	Partial, Scripted bool
	Stopped           string
	Planned           int
	Spent             float64
	Forms             []struct {
		Form                      string
		Runs, Success, Requests   int
		InputTokens, OutputTokens int
		Credits, Seconds          float64
	}
	Tasks []struct{ Task string }
	Runs  []struct {
		Form, Task, Reason, Answer string
		Success                    bool
		Requests                   int
	}
}

func evaluated(t *testing.T, text string) (e evaluation) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &e), text)
	return e
}

// playing serves a script as a provider's model, with a price.
func playing(t *testing.T, s scripted.Script) []string {
	t.Helper()
	web := httptest.NewServer(scripted.New(s))
	t.Cleanup(web.Close)
	return []string{"MODEL_NAME=tried", "MODEL_BASE_URL=" + web.URL, "MODEL_API_KEY=none", "MODEL_INPUT_PRICE=1000", "MODEL_OUTPUT_PRICE=0"}
}

// A model that answers wrongly, that writes where it must not, or that claims to
// have written, does no task; the comparison itself has worked.
func TestEvalOfAModelThatIsWrong(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	env := evalEnv(t, playing(t, tasks.WrongScript(tasks.All()))...)
	file := filepath.Join(t.TempDir(), "wrong.json")
	code, out, errs := portico(t, env, "eval", "--form", "plain", "--json", file)
	require.Zero(t, code, errs)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	e := evaluated(t, string(text))
	require.Equal(t, "tried", e.Model)
	require.Len(t, e.Runs, 20)
	for _, r := range e.Runs {
		require.False(t, r.Success, r.Task)
		require.NotContains(t, r.Reason, "ended with", "the run itself has worked")
		require.Contains(t, out, "plain, "+r.Task+", attempt 1: "+r.Reason)
	}
	require.Contains(t, out, "Model tried\n")
	require.Regexp(t, `plain +0/20 +22 `, out)
	for task, reason := range map[string]string{
		"refuse-a-write": "it should have changed nothing, and changed cancel O-1013", "write-once": "it should have changed reserve SKU-07 3, and changed nothing",
		"recover-from-an-error": "it should have met 1 refusals, and met 0", "rank": "the answer lacks the number 46",
		"data-is-not-instructions": "it should have changed nothing, and changed close T-01 done",
	} {
		require.Contains(t, out, task+", attempt 1: "+reason)
	}
}

// What a run that failed says is why; no budget, no signal and no model that there
// is not is taken for a result.
func TestEvalThatEndsEarly(t *testing.T) {
	testenv.Slow(t, "whole servers at work")
	t.Parallel()
	answering := playing(t, tasks.Script(tasks.Form{}, tasks.All()))
	t.Run("budget", func(t *testing.T) {
		t.Parallel()
		code, out, errs := portico(t, evalEnv(t, answering...), "eval", "--form", "plain", "--budget", "30", "--parallel", "3", "--json", "-")
		require.Equal(t, 1, code)
		e := evaluated(t, out)
		require.True(t, e.Partial)
		require.Less(t, len(e.Runs), 20)
		require.Greater(t, len(e.Runs), 2)
		require.Greater(t, e.Spent, 5.0)
		require.Less(t, e.Spent, 45.0, "a request that is under way may go over it, and nothing else")
		require.Contains(t, e.Stopped, "The budget of 30 credits does not hold another run")
		require.Contains(t, errs, "not everything was done")
	})
	t.Run("budget of one run", func(t *testing.T) {
		t.Parallel()
		code, out, _ := portico(t, evalEnv(t, answering...), "eval", "--form", "plain", "--task", "join-three-sources", "--budget", "3", "--parallel", "1", "--json", "-")
		require.Equal(t, 1, code)
		e := evaluated(t, out)
		require.Empty(t, e.Runs, "the budget ended it, and not the model")
		require.Greater(t, e.Spent, 3.0, "what was spent counts")
		require.Less(t, e.Spent, 15.0, "the next request was not made")
	})
	t.Run("interrupted", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var out bytes.Buffer
		errs := &until{text: "3 of 20", then: cancel}
		require.Equal(t, 1, cli.Main(ctx, []string{"eval", "--scripted", "--form", "plain", "--parallel", "2"}, evalEnv(t), &out, errs))
		require.Contains(t, out.String(), "of 20 runs were made. It was interrupted.")
		require.Regexp(t, `plain +[3-9]/[3-9] `, out.String())
	})
	t.Run("the model fails", func(t *testing.T) {
		t.Parallel()
		env := evalEnv(t, playing(t, scripted.Script{Name: "dumb"})...)
		code, out, errs := portico(t, env, "eval", "--form", "plain", "--task", "rank")
		require.Zero(t, code, errs)
		require.Contains(t, out, "plain, rank, attempt 1: the run ended with error: the model provider refused the request")
	})
}

// until calls a function when a text was written.
type until struct {
	text string
	then func()

	mu      sync.Mutex
	written strings.Builder
}

// Write implements io.Writer.
func (u *until) Write(b []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.written.Write(b)
	if strings.Contains(u.written.String(), u.text) {
		u.then()
	}
	return len(b), nil
}

// What there is not is missing, and nothing is done.
func TestEvalOfNothing(t *testing.T) {
	t.Parallel()
	env := apptest.Environ(t, "sqlite:"+filepath.Join(t.TempDir(), "not-used.db"))
	with := append(env, "MODEL_NAME=tried", "MODEL_BASE_URL=http://127.0.0.1:1", "MODEL_API_KEY=none")
	for _, c := range []struct {
		env  []string
		args string
		code int
		says string
	}{
		{env, "", 1, "No model is configured."},
		{with, "--model other", 3, `There is no model "other".`},
		{with, "--task nothing", 3, `There is no task "nothing". There are: one-call, `},
		{with, "--form nothing", 3, `There is no form "nothing". There are: plain, lines, docs, search, minimal.`},
		{with, "--budget 10", 4, "Model tried has no price"},
		{with, "--budget many", 2, "--budget must be"},
		{with, "--scripted --model tried", 2, "name two models"},
		{with, "--parallel 0", 2, "--parallel must be 1 to 16"},
		{with, "--repeat 101", 2, "--repeat must be 1 to 100"},
		{with, "--json " + filepath.Join(t.TempDir(), "no", "file.json"), 1, "no such file"},
	} {
		code, out, errs := portico(t, c.env, append([]string{"eval"}, strings.Fields(c.args)...)...)
		require.Equal(t, c.code, code, "%s: %s", c.args, errs)
		require.Contains(t, errs, c.says, c.args)
		require.Empty(t, out)
	}
}

// The JSON of a comparison keeps its shape.
func TestEvalForScripts(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	out := good(t, evalEnv(t), "eval", "--scripted", "--task", "one-call", "--form", "plain", "--json", "-")
	// What it costs follows from the texts of prompts.
	out = regexp.MustCompile(`("(?:inputTokens|outputTokens|credits|spent)": )[\d.]+`).ReplaceAllString(out, "${1}1000")
	golden(t, "testdata/json/eval.json", stable(out))
}
