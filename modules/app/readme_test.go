// Slow under the race detector: make test runs it without.
//go:build !race

package app_test

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/configs/dotenv"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/account/hosttoken/hosttokentest"
	"github.com/portico-run/portico/modules/app/apptest"
)

// The documents mark their blocks by the word behind the fence:
//
//	sh            commands: they run, in one shell for the whole document
//	python        a program: POST /v1/sandbox/execute runs it, with the demo's tools
//	LANGUAGE NAME a file, which is written under that name
//	env           lines of .env, which are there before the server starts
//	text, json    what the block before it prints; … stands for any text of a
//	              line, and a line of nothing else for any lines
//	console       commands that do not run here; they are on the list below
//	(no word)     a drawing
const (
	commands = "sh"
	python   = "python"
	settings = "env"
	unrun    = "console"
)

// notRun are the blocks of commands that do not run in the test, by their
// document and first line, and why.
var notRun = map[string]string{
	"README.md: make run":                             "installs packages; what the server prints is compared all the same",
	"CONTRIBUTING.md: go test ./modules/billing":      "runs tests from within a test",
	"CONTRIBUTING.md: make lint":                      "takes minutes, and runs in CI",
	"sdkgen/README.md: sdkgen upload --s3 --hash v14": "needs a bucket; the tests of sdkgen/upload have one",
	"docs/graphql.md: bin/portico toolset import --graphql https://api.example.com/graphql --bearer --name shop --list":                       "needs an API in GraphQL; TestGraphQLAPIsBecomeTools has one",
	"clients/python/README.md: pip install ./clients/python":                                                                                  "installs a package; TestThePythonClient does, and runs the example",
	"clients/typescript/README.md: npm install && npm run build":                                                                              "installs packages; TestTheTypeScriptClient builds it, and runs the example",
	"docs/eval.md: portico eval --model large --budget 500 --json large.json":                                                                 "needs a model of a provider; TestEvalOfAModelThatIsWrong has one",
	"docs/operations.md: docker compose up --build":                                                                                           "needs docker",
	"docs/operations.md: printf 'JWT_SECRET=%s\\nENCRYPTION_KEY=%s\\n' \"$(openssl rand -hex 32)\" \"$(openssl rand -hex 32)\" >> .env":       "needs docker; TestThreeProcessesBehindTheBalancer has the balancer and the processes",
	"docs/operations.md: docker build -t registry.example.com/portico:0.1.0 . && docker push registry.example.com/portico:0.1.0":              "needs docker and a cluster; tests of configs/kubernetes read the manifests",
	"docs/operations.md: export ENCRYPTION_KEY=\"$(kubectl -n portico get secret portico -o jsonpath='{.data.ENCRYPTION_KEY}' | base64 -d)\"": "needs docker and a cluster",
	"docs/operations.md: kubectl -n portico delete job portico-migrate --ignore-not-found":                                                    "needs a cluster",
	"docs/operations.md: kubectl -n portico annotate pods -l app.kubernetes.io/component=api --overwrite \"changed=$(date +%s)\"":             "needs a cluster",
	"docs/operations.md: pg_dump --format=custom --no-owner --file=portico.dump \"$DATABASE_DIRECT_URL\"":                                     "needs the clients of PostgreSQL",
}

// ofCommands is a document that a test of modules/cli writes from what the
// commands print.
const ofCommands = "docs/cli.md"

// block is one fenced block of a document.
type block struct {
	line             int
	kind, name, text string
}

// output reports whether the block is what the one before it prints.
func (b block) output() bool { return (b.kind == "text" || b.kind == "json") && b.name == "" }

var fenced = regexp.MustCompile("(?ms)^```([^\n`]*)\n(.*?)^```$")

// blocks are those of a document, in order.
func blocks(text string) (list []block) {
	for _, m := range fenced.FindAllStringSubmatchIndex(text, -1) {
		kind, name, _ := strings.Cut(text[m[2]:m[3]], " ")
		list = append(list, block{1 + strings.Count(text[:m[0]], "\n"), kind, name, text[m[4]:m[5]]})
	}
	return list
}

// reader is somebody who follows one document, with the programs and a server
// in a folder of their own.
type reader struct {
	t                *testing.T
	folder, url, key string
	env              []string
	printed          *buffer           // by the server
	addresses        map[string]string // the real ones, by those of the document
}

// Every command and program of every document works as it is printed, and
// prints what the document says.
func TestLinesOfTheReadmeWork(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	bin := t.TempDir()
	for name, folder := range map[string]string{"portico": "cmd/api", "sdkgen": "sdkgen"} {
		build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, name), "./"+folder)
		build.Dir = root
		out, err := build.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	left, followed := map[string]bool{}, 0
	for key := range notRun {
		left[key] = true
	}
	for document, text := range texts(t) {
		list := blocks(text)
		if !strings.HasSuffix(document, ".md") || strings.Contains(document, "testdata/") || document == ofCommands || len(list) == 0 {
			continue
		}
		run := checkBlocks(t, document, list, left)
		if !run {
			continue
		}
		followed++
		t.Run(document, func(t *testing.T) {
			t.Parallel()
			r := newReader(t, bin, list)
			r.follow(list)
			for n, b := range list {
				if b.kind == unrun && b.text == "make run\n" {
					r.compare(list[n+1].line, list[n+1].text, r.printed.String())
				}
			}
		})
	}
	require.Empty(t, left, "these blocks are on the list and in no document")
	require.GreaterOrEqual(t, followed, 14)
}

// checkBlocks holds the blocks of a document against the words they may have,
// and reports whether there is something to run.
func checkBlocks(t *testing.T, document string, list []block, left map[string]bool) (run bool) {
	t.Helper()
	before := ""
	for _, b := range list {
		switch at := fmt.Sprintf("%s:%d", document, b.line); {
		case b.kind == unrun:
			first, _, _ := strings.Cut(strings.ReplaceAll(b.text, "  ", "\n"), "\n")
			require.Contains(t, notRun, document+": "+first, "%s: these commands do not run: mark them sh, or say why not", at)
			delete(left, document+": "+first)
		case b.kind == commands || b.kind == python && b.name == "":
			run = true
		case b.output():
			require.Contains(t, []string{commands, python, unrun}, before, "%s: this is printed by no block before it", at)
		default:
			require.True(t, b.kind == "" || b.kind == settings || b.name != "", "%s: %q says neither what runs nor what it is called", at, b.kind)
		}
		before = b.kind
	}
	return run
}

// newReader starts a server in a folder with what the repository has there.
func newReader(t *testing.T, bin string, list []block) *reader {
	t.Helper()
	r := &reader{t: t, folder: t.TempDir(), printed: &buffer{}, addresses: map[string]string{
		"localhost:5800": testenv.FreeAddress(t), "localhost:5801": testenv.FreeAddress(t), "localhost:5802": testenv.FreeAddress(t),
		"localhost:5803": testenv.FreeAddress(t),
		"localhost:5804": testenv.FreeAddress(t),
	}}
	r.url = "http://" + r.addresses["localhost:5800"]
	for name, target := range map[string]string{"bin": bin, "modules": root + "/modules", "dev": root + "/dev"} {
		target, err := filepath.Abs(target)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(target, filepath.Join(r.folder, name)))
	}
	require.NoError(t, os.CopyFS(filepath.Join(r.folder, "configs", "toolsets"), os.DirFS(root+"/configs/toolsets")))
	lines := []string{
		"PORTICO_LISTEN=" + r.addresses["localhost:5800"], "DEMO_LISTEN=" + r.addresses["localhost:5801"], "LOG_LEVEL=error", "PTC_MODE=on",
		"SANDBOX_POOL=1", "SANDBOX_PRELOAD=json", "ENCRYPTION_KEY=" + strings.Repeat("0a", 32), "JWT_SECRET=" + strings.Repeat("s", 32),
	}
	for _, b := range list {
		if b.kind == settings {
			lines = append(lines, r.real(b.text))
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(r.folder, ".env"), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	r.env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "XDG_DATA_HOME=" + os.Getenv("XDG_DATA_HOME"), "LANG=C.UTF-8"}
	r.start()
	return r
}

// start starts the server and waits until it works.
func (r *reader) start() {
	r.t.Helper()
	server := exec.CommandContext(r.t.Context(), filepath.Join(r.folder, "bin", "portico"), "serve")
	server.Dir, server.Env, server.Stdout, server.Stderr = r.folder, r.env, r.printed, r.printed
	server.Cancel = func() error { return server.Process.Signal(syscall.SIGTERM) } // when the test ends
	server.WaitDelay = time.Minute
	require.NoError(r.t, server.Start())
	r.t.Cleanup(func() { _ = server.Wait() }) // its end was asked for
	ready := func() bool {
		request, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.url+"/readyz", nil)
		if err != nil {
			return false
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK && strings.Contains(r.printed.String(), "rf_")
	}
	require.Eventually(r.t, ready, time.Minute, 50*time.Millisecond, "the server did not start:\n%s", r.printed)
	r.key = regexp.MustCompile(`rf_\w+`).FindString(r.printed.String())
}

// real puts the reader's own key and addresses into a text of the document.
func (r *reader) real(text string) string {
	text = strings.ReplaceAll(text, "KEY=rf_…", "KEY="+r.key)
	for shown, address := range r.addresses {
		host, port, _ := strings.Cut(address, ":")
		text = strings.ReplaceAll(text, shown, address)
		text = strings.ReplaceAll(text, strings.Replace(shown, ":", `", `, 1), host+`", `+port) // as a pair in Python
	}
	return text
}

// follow runs the blocks in one shell and compares what they print. What block
// n prints is in the files out.n and err.n of a folder.
func (r *reader) follow(list []block) {
	r.t.Helper()
	streams := r.t.TempDir()
	script := "set -euo pipefail\ncurl() { command curl \"$@\" && echo; }\n"
	for n, b := range list {
		script += fmt.Sprintf("exec > %[1]s/out.%[2]d 2> %[1]s/err.%[2]d\n", streams, n) + r.typed(b)
	}
	shell := exec.CommandContext(r.t.Context(), "bash", "-c", script)
	shell.Dir, shell.Env = r.folder, append(r.env, "URL="+r.url, "KEY="+r.key)
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	ended := shell.Run()
	if shell.Process != nil { // what the document left in the background
		_ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL)
	}
	for n, b := range list {
		out, err := os.ReadFile(filepath.Join(streams, fmt.Sprintf("out.%d", n)))
		require.NoError(r.t, err, "the block before this one failed: %v\n%s", ended, r.printed)
		problems, err := os.ReadFile(filepath.Join(streams, fmt.Sprintf("err.%d", n)))
		require.NoError(r.t, err)
		printed := []string{string(out), string(out) + string(problems)}
		if b.kind != commands && (b.kind != python || b.name != "") {
			continue
		}
		if n+1 < len(list) && list[n+1].output() {
			r.compare(list[n+1].line, list[n+1].text, printed...)
			continue
		}
		for _, sign := range []string{`"success":false`, "Traceback"} {
			require.NotContains(r.t, printed[1], sign, "line %d", b.line)
		}
	}
	require.NoError(r.t, ended, "%s", r.printed)
}

// typed is what the shell is given for a block.
func (r *reader) typed(b block) string {
	text := r.real(b.text)
	switch {
	case b.name != "":
		return fmt.Sprintf("mkdir -p \"$(dirname '%s')\"\ncat > '%s' <<'END OF FILE'\n%sEND OF FILE\n", b.name, b.name, text)
	case b.kind == commands:
		require.NotContains(r.t, text, "…", "line %d: a reader cannot type this", b.line)
		return text
	case b.kind == python:
		body, err := json.Marshal(map[string]any{"language": "python", "toolsets": []string{"demo"}, "code": b.text})
		require.NoError(r.t, err)
		file := filepath.Join(r.t.TempDir(), "body.json")
		require.NoError(r.t, os.WriteFile(file, body, 0o600))
		return "command curl -sS \"$URL/v1/sandbox/execute\" -H \"X-API-Key: $KEY\" -H 'Content-Type: application/json' -d @" + file +
			` | python3 -c 'import json, sys; r = json.load(sys.stdin)["data"]; print(r["stdout"] + r["stderr"])'` + "\n"
	}
	return ""
}

// compare holds what was printed against what the document shows: the output
// alone, or with what stands beside it for people.
func (r *reader) compare(line int, want string, printed ...string) {
	r.t.Helper()
	pattern := "^"
	for l := range strings.SplitSeq(tidy(want), "\n") {
		if l == "…" {
			pattern += `(?:.*\n)*?`
			continue
		}
		pattern += strings.ReplaceAll(regexp.QuoteMeta(l), "…", ".*") + `\n`
	}
	form := regexp.MustCompile(pattern + "$")
	for n, got := range printed {
		for shown, address := range r.addresses {
			got = strings.ReplaceAll(got, address, shown)
		}
		printed[n] = tidy(got) + "\n"
	}
	if !slices.ContainsFunc(printed, form.MatchString) {
		r.t.Errorf("line %d shows\n%s\nand this is printed\n%s", line, want, printed[len(printed)-1]) // the next block is still compared
	}
}

// tidy takes out empty lines, and spaces at the ends of lines.
func tidy(text string) string {
	var lines []string
	for l := range strings.Lines(text) {
		if l = strings.TrimRight(l, " \t\r\n"); l != "" {
			lines = append(lines, l)
		}
	}
	return strings.Join(lines, "\n")
}

// The lines that make the keys of signed tokens give both sides what they need.
func TestKeysOfTheReadmeWork(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	document, err := os.ReadFile("../../docs/code-interpreter.md")
	require.NoError(t, err)
	lines := regexp.MustCompile("(?s)```sh\n(openssl genpkey.*?)```").FindSubmatch(document)
	require.NotNil(t, lines)
	folder := t.TempDir()
	shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", string(lines[1]))
	shell.Dir = folder
	out, err := shell.CombinedOutput()
	require.NoError(t, err, "%s", out)
	var here []string
	require.NoError(t, dotenv.Load(filepath.Join(folder, "portico.env"), nil, func(name, value string) error {
		here = append(here, name+"="+value)
		return nil
	}))
	there, err := os.ReadFile(filepath.Join(folder, "librechat.env"))
	require.NoError(t, err)

	// LibreChat turns \n into line ends and reads PEM.
	host := apptest.Values(strings.Split(strings.TrimSpace(string(there)), "\n"))
	require.Equal(t, "librechat-jwt", host["CODEAPI_AUTH_PROVIDER"])
	block, _ := pem.Decode([]byte(strings.ReplaceAll(host["CODEAPI_JWT_PRIVATE_KEY"], `\n`, "\n")))
	require.NotNil(t, block)
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	require.NoError(t, err)
	s := serve(t, databasetest.URL(t, database.SQLite), here...)
	s.whose(hosttokentest.Host{KeyID: defaultKeyID, Method: jwt.SigningMethodEdDSA, Private: private}.For(t, "anna"))
	require.Equal(t, 1, s.count("SELECT count(*) FROM external_identities"))
}
