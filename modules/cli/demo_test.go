package cli_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
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
	"github.com/portico-run/portico/modules/app/apptest"
	"github.com/portico-run/portico/modules/cli"
)

func TestDemoCommand(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	env := apptest.Environ(t, databasetest.EmptyURL(t, database.SQLite), "ENDPOINT=http://"+testenv.FreeAddress(t), "LOG_LEVEL=error")
	for _, want := range []string{"981.5", "963"} {
		code, out, errs := portico(t, env, "demo")
		require.Equal(t, 0, code, errs)
		require.Contains(t, out, "one was started for the demo")
		require.Equal(t, 11, strings.Count(out, "tool_call_end      demo."))
		require.Equal(t, 1, strings.Count(out, "tool_call_error    demo.fail"))
		require.Contains(t, out, "The program completed after")
		require.Contains(t, out, "Spent: 18.5 credits. Balance: "+want+".")
		require.Empty(t, errs)
	}
	// With a server running, that one is used.
	listen := testenv.FreeAddress(t)
	env = append(env, "PORTICO_LISTEN="+listen, "ENDPOINT=http://"+listen)
	serving(t, env)
	code, out, errs := portico(t, env, "demo")
	require.Equal(t, 0, code, errs)
	require.NotContains(t, out, "one was started")
	require.Contains(t, out, "Balance: 944.5.")

	code, _, errs = portico(t, append(env, "PTC_MODE=off", "ENDPOINT=http://"+testenv.FreeAddress(t), "PORTICO_LISTEN=127.0.0.1:0", "DEMO_LISTEN="+testenv.FreeAddress(t)), "demo")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "PTC_MODE is off")
}

// A script is served to any client of the Responses protocol, until the command
// is ended.
func TestScriptedModelIsServed(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, in := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Main(ctx, []string{"scripted", "--script", "../../dev/demo/agent.yaml", "--listen", "127.0.0.1:0"}, nil, in, in)
		_ = in.Close()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	base := regexp.MustCompile(`MODEL_BASE_URL=(\S+)`).FindStringSubmatch(line)
	require.NotNil(t, base, line)
	resp, err := http.Post(base[1]+"/responses", "application/json", strings.NewReader(`{"model":"any","input":"Hello"}`))
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, 400, resp.StatusCode, "the script expects another question")
	require.Contains(t, string(body), `turn 1 expects \"Which regions missed\"`)
	cancel()
	require.Equal(t, 0, <-ended)
	code, _, errs := portico(t, nil, "scripted", "--script", "nothing.yaml")
	require.NotZero(t, code)
	require.Contains(t, errs, "nothing.yaml")
}

// The agent's demo, as a person sees it: two programs, of which one fails and
// is corrected, a chart, the transcript, and what both ways cost.
func TestDemoOfTheAgent(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	picture := filepath.Join(t.TempDir(), "chart.png")
	env := append(apptest.Environ(t, "sqlite:"+filepath.Join(t.TempDir(), "not-used.db")), "LOG_LEVEL=error")
	code, out, errs := portico(t, env, "demo", "agent", "--chart", picture)
	require.Equal(t, 0, code, errs+out)
	for want, times := range map[string]int{
		"The model is SCRIPTED": 1, "left out: 1.": 1, "tool_call_error    execute_code": 1, "tool_call_end      execute_code": 1,
		"tool_call_end      shop.list_orders": 8, "[execute_code failed]": 1, "[execute_code completed]": 1, "[create_chart completed]": 1,
		"[scripted:demo]": 3, "image/png": 1, "South    2300 2130.5 -169.5": 2,
	} {
		require.Equal(t, times, strings.Count(out, want), "%s in\n%s", want, out)
	}
	require.NotContains(t, out, "cust-", "what the tools returned is shown to nobody")
	content, err := os.ReadFile(picture)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(content), "\x89PNG"))
	found := regexp.MustCompile(`PTC used (\d+) % fewer prompt tokens`).FindStringSubmatch(out)
	require.NotNil(t, found, out)
	saved, err := strconv.Atoi(found[1])
	require.NoError(t, err)
	require.GreaterOrEqual(t, saved, 30, "C11: for 30 tools and more")
	first := regexp.MustCompile(`(?m)^  (?:with code \(PTC\)|plain tool calling) +\d+ +(\d+) +\d+ `).FindAllStringSubmatch(out, -1)
	require.Len(t, first, 2)
	require.Less(t, 100*atoi(t, first[0][1]), 70*atoi(t, first[1][1]), "the first request alone, before any result")
}

func atoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// Every step of the demonstration of tools works.
func TestDemoOfTools(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	env := append(apptest.Environ(t, "sqlite:"+filepath.Join(t.TempDir(), "not-used.db")), "LOG_LEVEL=error")
	code, out, errs := portico(t, env, "demo", "tools")
	require.Equal(t, 0, code, errs+out)
	for want, times := range map[string]int{
		"['Rome', 'Oslo']": 1, "['Hello.', 'Hello.']": 1, "save_note 404": 1, "Did you mean get_weather?": 1, "rlm_exec 403": 1, "   Rome Hello.\n": 1,
		"Saturday {'closed': False, 'open': '08:00 to 18:00'}": 1, "Refused: \"Someday\" is not a day of the week": 1,
		"added 3 documents with": 1, "Heating, The ashes: Ashes go into the iron bucket": 1, "second hook from the door [1]. ['Arriving']": 1,
		"Nothing in the knowledge store answers this question.": 1,
		"search_knowledge finds: Auth patterns":                 1, "as Markdown: # Auth patterns": 1, "answers as before: Hello.": 1,
		"A tool that nobody registered: 404": 1, "is refused: 404": 1,
	} {
		require.Equal(t, times, strings.Count(out, want), "%s in\n%s", want, out)
	}
}

// Five clients of vendors get the same answer, each in its own form: the program calls
// what is theirs, and what is the server's, and its results reach no model.
func TestDemoOfTheClients(t *testing.T) {
	testenv.Slow(t, "five processes with clients")
	t.Parallel()
	vendors := testenv.Need(t, "PORTICO_VENDORS", "tools/vendors.sh installs the clients")
	env := append(apptest.Environ(t, "sqlite:"+filepath.Join(t.TempDir(), "not-used.db")), "LOG_LEVEL=error", "PATH="+os.Getenv("PATH"))
	out := good(t, env, "demo", "clients", "--vendors", vendors)
	require.Contains(t, out, "The model is SCRIPTED")
	rows := regexp.MustCompile(`(?m)^(\S.*\)\S*.*?) {2,}(Responses|Messages|Chat Completions) +2 +(\d+) +(\d+) +2 +2 +42 in all; it is warmer in Cairo\.$`).FindAllStringSubmatch(out, -1)
	require.Len(t, rows, 5, out)
	for _, row := range rows {
		require.Greater(t, atoi(t, row[3]), 500, out)
		require.Less(t, atoi(t, row[3]), 2500, "going on with a program costs nothing")
		require.Equal(t, rows[1][4], row[4], "what the model says is the same")
	}
	code, _, errs := portico(t, env, "demo", "clients", "--vendors", t.TempDir())
	require.Equal(t, 1, code)
	require.Contains(t, errs, "tools/vendors.sh")
}
