package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/cli"
	"github.com/portico-run/portico/modules/cli/demos"
)

// asProgram makes this program the product's.
const asProgram = "PORTICO_TEST_PROGRAM"

func TestMain(m *testing.M) {
	// The demonstration starts this program as its MCP server, with no environment.
	if os.Getenv(asProgram) != "" || slices.Equal(os.Args[1:], demos.HoursCommand()) {
		os.Exit(cli.Program(os.Args[1:], os.Environ, os.Setenv, os.Stdout, os.Stderr)) //nolint:forbidigo // this is main
	}
	os.Exit(m.Run())
}

// portico runs a command of the program.
func portico(t testing.TB, env []string, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = cli.Main(t.Context(), args, env, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// good runs a command that has to do what it is asked for.
func good(t testing.TB, env []string, args ...string) string {
	t.Helper()
	code, out, errs := portico(t, env, args...)
	require.Zero(t, code, "%v: %s", args, errs)
	return out
}

// server is a server that a command started.
type server struct {
	t       testing.TB
	url     string
	key     string // of the first user; empty if there was one already
	printed string
	stop    func()
	log     func() string // what the server logged, when it has stopped
}

var keyForm = regexp.MustCompile(`(?m)^  (rf_\w+)$`)

// serving starts a server as its command does, and reads what it prints until
// it is ready.
func serving(t testing.TB, env []string) *server {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan int, 1)
	var log bytes.Buffer // read when the command has ended
	go func() {
		ended <- cli.Main(ctx, []string{"serve"}, env, in, &log)
		_ = in.Close()
	}()
	s := &server{t: t, stop: sync.OnceFunc(func() {
		cancel()
		require.Zero(t, <-ended, "%s", &log)
	}), log: log.String}
	lines := bufio.NewScanner(out)
	for !strings.Contains(s.printed, "/docs describes every route") && lines.Scan() {
		s.printed += lines.Text() + "\n"
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the command
	if !strings.Contains(s.printed, "describes every route") {
		<-ended
		require.FailNow(t, "the server did not start", log.String())
	}
	t.Cleanup(s.stop)
	s.url = strings.TrimSuffix(regexp.MustCompile(`answers on (\S+)`).FindStringSubmatch(s.printed)[1], ",")
	if m := keyForm.FindStringSubmatch(s.printed); m != nil {
		s.key = m[1]
	}
	return s
}

// get asks the server with a header, and returns the status and the answer.
func (s *server) get(path, header, value string) (int, string) {
	s.t.Helper()
	return s.send(http.MethodGet, path, "", header, value)
}

// send makes a request of a server.
func (s *server) send(method, path, body, header, value string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	require.NoError(s.t, err)
	r.Header.Set(header, value)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return resp.StatusCode, string(answer)
}

// execute runs a program with the first user's key and returns the data of the
// answer.
func (s *server) execute(code string) string {
	s.t.Helper()
	status, answer := s.send(http.MethodPost, "/v1/sandbox/execute", `{"language":"python","toolsets":["demo"],"code":`+quote(code)+`}`, "X-API-Key", s.key)
	require.Equal(s.t, 200, status, answer)
	return answer
}

func quote(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // strings always have a JSON form
	}
	return string(b)
}
