package cli_test

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/modules/app/apptest"
)

var linkForm = regexp.MustCompile(`(http://\S+)/console/login\?code=([A-Z2-7]{26})`)

// Who starts the server on their own machine is one click from the console.
func TestALinkOfTheServerOrTheCommandSignsIn(t *testing.T) {
	t.Parallel()
	env := apptest.Environ(t, databasetest.EmptyURL(t, database.SQLite))
	s := serving(t, env)
	redeem := func(text, user string) {
		t.Helper()
		link := linkForm.FindStringSubmatch(text)
		require.NotNil(t, link, text)
		status, answer := s.send("POST", "/v1/auth/session", `{"code":"`+link[2]+`"}`, "X-Test", "x")
		require.Equal(t, 200, status, answer)
		require.Contains(t, answer, `"name":"`+user+`"`)
		status, _ = s.send("POST", "/v1/auth/session", `{"code":"`+link[2]+`"}`, "X-Test", "x")
		require.Equal(t, 401, status, "once")
	}
	require.Equal(t, s.url, linkForm.FindStringSubmatch(s.printed)[1])
	redeem(s.printed, "admin")
	redeem(good(t, env, "console"), "admin")
	good(t, env, "user", "create", "anna")
	redeem(good(t, env, "console", "--user", "anna"), "anna")
	code, _, errs := portico(t, env, "console", "--user", "nobody")
	require.Equal(t, 3, code, errs)
}

func TestNoLinkIsPrintedWhereOthersReadIt(t *testing.T) {
	t.Parallel()
	env := apptest.Environ(t, databasetest.EmptyURL(t, database.SQLite), "ENDPOINT=https://portico.example.com")
	require.NotContains(t, serving(t, env).printed, "code=")
	good(t, env, "user", "create", "anna")
	good(t, env, "user", "role", "anna", "admin")
	good(t, env, "user", "disable", "admin")
	require.NotContains(t, serving(t, apptestAt(env)).printed, "code=", "the first user is disabled")
}

// Where there is no console, nothing leads to one.
func TestNoLinkLeadsToAConsoleThatIsOff(t *testing.T) {
	t.Parallel()
	env := apptest.Environ(t, databasetest.EmptyURL(t, database.SQLite), "CONSOLE_ENABLED=false", "SIGNUP=invite")
	require.NotContains(t, serving(t, env).printed, "console")
	refusedTo(t, env, "This server has no console. Set CONSOLE_ENABLED=true", "console")
	require.Regexp(t, "^[A-Z2-7]{26}\n$", good(t, env, "user", "invite"))
}

// apptestAt is an environment without an address of its own.
func apptestAt(env []string) []string {
	var rest []string
	for _, line := range env {
		if !strings.HasPrefix(line, "ENDPOINT=") {
			rest = append(rest, line)
		}
	}
	return rest
}

func TestOperatorsGiveRolesAndPasswords(t *testing.T) {
	t.Parallel()
	env := apptest.Environ(t, databasetest.EmptyURL(t, database.SQLite))
	s := serving(t, env)
	require.Regexp(t, `(?m)^role +admin$`, good(t, env, "user", "show", "admin"))
	code, _, errs := portico(t, env, "user", "role", "admin", "user")
	require.Equal(t, 4, code, errs)
	require.Contains(t, errs, "last administrator")
	code, _, errs = portico(t, env, "user", "disable", "admin")
	require.Equal(t, 4, code, errs)
	good(t, env, "user", "create", "anna")
	require.Regexp(t, `(?m) anna .* enabled +user`, good(t, env, "user", "list"))
	good(t, env, "user", "role", "anna", "admin")
	good(t, env, "user", "role", "admin", "user")
	code, _, _ = portico(t, env, "user", "role", "anna", "king")
	require.Equal(t, 2, code)
	give := func(line string) error {
		program, err := os.Executable()
		require.NoError(t, err)
		cmd := exec.CommandContext(t.Context(), program, "user", "password", "anna")
		cmd.Env, cmd.Stdin = append(env, asProgram+"=1"), strings.NewReader(line)
		return cmd.Run()
	}
	require.Error(t, give("short\n"))
	require.NoError(t, give("correct horse\nand more"))
	status, answer := s.send("POST", "/v1/auth/session", `{"email":"anna","password":"correct horse"}`, "X-Test", "x")
	require.Equal(t, 200, status, answer)
	require.Contains(t, answer, `"role":"admin"`)
	code, _, errs = portico(t, env, "user", "invite")
	require.Equal(t, 4, code, errs)
	key := strings.TrimSpace(good(t, env, "key", "create", "--user", "anna", "--scope", "read,tools"))
	require.Contains(t, good(t, env, "key", "list", "--user", "anna"), "read,tools")
	status, _ = s.get("/v1/auth/me", "X-API-Key", key)
	require.Equal(t, 200, status)
	status, answer = s.send("POST", "/v1/auth/cli/api-key", `{"name":"x"}`, "X-API-Key", key)
	require.Equal(t, 403, status)
	require.Contains(t, answer, "This key has the scopes read,tools only.")
}

// atTerminal types two words at a terminal, and prints what it shows.
const atTerminal = `
import os, pty, sys
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], [sys.argv[1], "user", "password", "anna"])
shown = b""
for ask, word in ((b"Password: ", sys.argv[2]), (b"Once more: ", sys.argv[3])):
    while not shown.endswith(ask): shown += os.read(terminal, 1)
    os.write(terminal, word.encode() + b"\r")
try:
    while more := os.read(terminal, 1000): shown += more
except OSError: pass # its end
print(shown.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
`

func TestPasswordsAreTypedUnseen(t *testing.T) {
	t.Parallel()
	env := apptest.Environ(t, databasetest.EmptyURL(t, database.SQLite))
	s := serving(t, env)
	good(t, env, "user", "create", "anna")
	program, err := os.Executable()
	require.NoError(t, err)
	give := func(word, again string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "/usr/bin/python3", "-c", atTerminal, program, word, again)
		cmd.Env = append(env, asProgram+"=1")
		shown, err := cmd.CombinedOutput()
		return string(shown), err
	}
	shown, err := give("correct horse", "correct house")
	require.Error(t, err)
	require.Contains(t, shown, "These are two passwords.")
	shown, err = give("correct horse", "correct horse")
	require.NoError(t, err, shown)
	require.NotContains(t, shown, "correct")
	status, answer := s.send("POST", "/v1/auth/session", `{"email":"anna","password":"correct horse"}`, "X-Test", "x")
	require.Equal(t, 200, status, answer)
}
