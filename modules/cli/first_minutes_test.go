package cli_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
)

// operator is somebody with the two programs in a folder of their own, where
// nothing is set but what they write into .env.
type operator struct {
	t        *testing.T
	dir, bin string
	env      []string
}

// newOperator takes this program for the product's, builds the other one and begins with a folder that holds .env only.
func newOperator(t *testing.T, lines ...string) *operator {
	t.Helper()
	o := &operator{t: t, dir: t.TempDir(), bin: t.TempDir()}
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, filepath.Join(o.bin, "portico")))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", o.bin+"/", "./sdkgen")
	build.Dir = "../.."
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	o.env = []string{asProgram + "=1"}
	for _, name := range []string{"PATH", "HOME", "XDG_DATA_HOME"} {
		o.env = append(o.env, name+"="+os.Getenv(name))
	}
	o.write(lines...)
	return o
}

// write adds lines to .env.
func (o *operator) write(lines ...string) {
	o.t.Helper()
	file, err := os.OpenFile(filepath.Join(o.dir, ".env"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(o.t, err)
	_, err = file.WriteString(strings.Join(lines, "\n") + "\n")
	require.NoError(o.t, err)
	require.NoError(o.t, file.Close())
}

func (o *operator) command(line string, env ...string) *exec.Cmd {
	words := strings.Fields(line)
	cmd := exec.CommandContext(o.t.Context(), filepath.Join(o.bin, words[0]), words[1:]...)
	cmd.Dir, cmd.Env = o.dir, append(append([]string{}, o.env...), env...)
	return cmd
}

// run types a line and returns what it prints.
func (o *operator) run(line string, env ...string) string {
	o.t.Helper()
	cmd := o.command(line, env...)
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	require.NoError(o.t, err, "%s: %s%s", line, out, problems.String())
	return string(out)
}

// serve starts the server and returns what it printed until it was ready.
func (o *operator) serve() (printed string, stop func()) {
	o.t.Helper()
	cmd := o.command("portico serve")
	out, err := cmd.StdoutPipe()
	require.NoError(o.t, err)
	cmd.Stderr = o.t.Output()
	require.NoError(o.t, cmd.Start())
	o.t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended if all went well
	lines := bufio.NewScanner(out)
	for !strings.Contains(printed, "/docs describes every route") && lines.Scan() {
		printed += lines.Text() + "\n"
	}
	require.Contains(o.t, printed, "answers on", "the server did not start")
	go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the process
	return printed, func() {
		o.t.Helper()
		require.NoError(o.t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(o.t, cmd.Wait())
	}
}

// The first minutes with the programs themselves, without make: .env is read,
// every printed address works, a token of the command line is good for the
// server, and the lines of the SDK's pipeline bring a bundle into force.
func TestFirstMinutes(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	toolsets, err := filepath.Abs("../../configs/toolsets")
	require.NoError(t, err)
	listen := testenv.FreeAddress(t)
	url := "http://" + listen
	o := newOperator(t, "# mine", "PORTICO_LISTEN="+listen, "DEMO_LISTEN='"+testenv.FreeAddress(t)+"'", "export PTC_MODE=on # try it", "LOG_LEVEL=warn",
		"TOOLSETS_DIR="+toolsets, "SANDBOX_POOL=1", "SANDBOX_PRELOAD=json")
	printed, stop := o.serve()
	require.Contains(t, printed, " answers on "+url+" ("+listen+")")
	require.Contains(t, printed, "with the database sqlite:"+filepath.Join(o.dir, "data", "portico.db")+"\n", "a path is whole, whatever .env says")
	require.Equal(t, 4, strings.Count(printed, url), "each address that is printed is that of the server:\n%s", printed)
	_, rest, _ := strings.Cut(printed, "shown again:\n\n  ")
	key, _, _ := strings.Cut(rest, "\n")
	_, line, _ := strings.Cut(printed, "in another terminal: a program with twelve tool calls, live\n")
	line, _, _ = strings.Cut(line, "\n\n")
	curl := exec.CommandContext(t.Context(), "bash", "-euc", line)
	answer, err := curl.CombinedOutput()
	require.NoError(t, err)
	require.Contains(t, string(answer), `"city":"Rome"`, line)

	s := &server{t: t, url: url, key: key}
	token := strings.TrimSpace(o.run("portico user token admin"))
	status, text := s.get("/v1/credit/balance", "Authorization", "Bearer "+token)
	require.Equal(t, 200, status, text)
	require.NotContains(t, o.run("portico demo"), "one was started")
	require.Contains(t, o.run("portico doctor"), "the server listens on "+listen+"; links and callers use "+url)
	require.Contains(t, o.run("portico config", "PTC_MODE=off"), `mode: "off" # PTC_MODE`, "the environment wins over .env")

	for _, line := range []string{"sdkgen tool definition all", "sdkgen generate all", "sdkgen upload --local --hash PTC0g4v14"} {
		o.run(line, "PORTICO_API="+url, "PORTICO_API_KEY="+key)
	}
	stop()
	o.write("SANDBOX_S3LIB_HASH=PTC0g4v14")
	printed, stop = o.serve()
	require.NotContains(t, printed, "was created with this API key")
	_, text = s.get("/v1/ptc/context", "X-API-Key", key)
	require.Contains(t, text, `"pathPrefix":"refly-tools/PTC0g4v14"`)
	require.Contains(t, s.execute("from refly_tools.demo import Demo\nprint(Demo.get_weather(city='Oslo')['data']['city'])"), `"stdout":"Oslo\n"`)
	stop()

	o.write("SANDBOX_S3LIB_HASH = PTC0g4v14")
	for _, line := range []string{"portico serve", "sdkgen generate all"} {
		out, err := o.command(line).CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), ".env:10: must be NAME=value", line)
	}
}
