package dotenv_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/configs/dotenv"
)

// What is read is what a shell reads.
func TestValuesAreThoseOfAShell(t *testing.T) {
	t.Parallel()
	text := `
# a comment
EMPTY=
SPACED=   # nothing but a comment
PLAIN=:5800
URL=postgres://portico:p%40ss@127.0.0.1:5432/portico?sslmode=disable
LIST=https://app.example.com,https://admin.example.com
HASH=a#b
NETWORK=10.1.0.0/16	# behind a tab
 INDENTED=yes
export EXPORTED=x~*?[a]!^
export	TABBED=1
SINGLE='a b $HOME "c" # \n'
DOUBLE="a b 'c' # d" # e
LETTERS=größe
TWICE=first
TWICE=second`
	variables, err := dotenv.Parse(text)
	require.NoError(t, err)
	read := map[string]string{}
	for _, v := range variables {
		read[v.Name] = v.Value
	}
	require.Len(t, read, 14)
	file := filepath.Join(t.TempDir(), ".env")
	require.NoError(t, os.WriteFile(file, []byte(text+"\n"), 0o600))
	shell := exec.CommandContext(t.Context(), "bash", "-euc", `set -a; . "$1"; env -0`, "bash", file)
	shell.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8"}
	out, err := shell.Output()
	require.NoError(t, err)
	want := map[string]string{}
	for entry := range bytes.SplitSeq(out, []byte{0}) {
		name, value, _ := strings.Cut(string(entry), "=")
		if _, ours := read[name]; ours {
			want[name] = value
		}
	}
	require.Equal(t, want, read)
}

// Each example of .env.example can be used.
func TestTheExampleCanBeUsed(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../.env.example")
	require.NoError(t, err)
	variables, err := dotenv.Parse(string(content))
	require.NoError(t, err)
	require.Empty(t, variables, "everything in it is a comment")
	var lines []string
	for line := range strings.Lines(string(content)) {
		if len(line) > 1 && line[0] == '#' && line[1] >= 'A' && line[1] <= 'Z' {
			lines = append(lines, line[1:])
		}
	}
	variables, err = dotenv.Parse(strings.Join(lines, ""))
	require.NoError(t, err)
	require.Len(t, variables, len(lines))
	require.Greater(t, len(lines), 100)
}

// A line that could mean two things is refused with its number, and without the
// value.
func TestLinesThatAreRefused(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"JWT_SECRET":                   "must be NAME=value",
		"JWT_SECRET = secret":          "must be NAME=value",
		"JWT_SECRET= secret":           "JWT_SECRET has something behind its value",
		"1ST=secret":                   "must be NAME=value",
		"JWT SECRET=secret":            "must be NAME=value",
		"jwt-secret=secret":            "must be NAME=value",
		"JWT_SECRET=secret secret":     "put the whole value in single quotes",
		"JWT_SECRET='secret":           "not closed",
		`JWT_SECRET="secret`:           "not closed",
		`JWT_SECRET='secret'secret`:    "something behind its value",
		`JWT_SECRET='secret'#secret`:   "something behind its value",
		`JWT_SECRET=secret'secret'`:    "means something to a shell",
		`JWT_SECRET="$secret"`:         "use single quotes",
		"JWT_SECRET=\"`secret`\"":      "use single quotes",
		`JWT_SECRET="secret\n"`:        "use single quotes",
		"JWT_SECRET=$secret":           "means something to a shell",
		"JWT_SECRET=secret;secret":     "means something to a shell",
		"JWT_SECRET=secret&":           "means something to a shell",
		"JWT_SECRET=$(secret)":         "means something to a shell",
		`JWT_SECRET=secret\`:           "means something to a shell",
		"JWT_SECRET=~/secret":          "means something to a shell",
		"JWT_SECRET=sqlite:~/secret":   "means something to a shell",
		"export JWT_SECRET={secret,b}": "means something to a shell",
		"JWT_SECRET=#secret":           "means something to a shell",
		"JWT_SECRET=secret\r":          "line feed only",
		"JWT_SECRET=sec\x00ret":        "without control characters",
		"JWT_SECRET=secret\xff":        "UTF-8",
		"if true; then secret; fi":     "must be NAME=value",
	} {
		variables, err := dotenv.Parse("# a comment\n\nOK=1\n" + line + "\nMORE=1\n")
		require.ErrorContains(t, err, want, "%q", line)
		require.True(t, strings.HasPrefix(err.Error(), "4: "), "%q: %v", line, err)
		require.NotContains(t, err.Error(), "secret", "%q", line)
		require.Empty(t, variables)
	}
}

func TestLoadSetsWhatIsNotSet(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), ".env")
	var set []string
	load := func(path string) error {
		set = nil
		return dotenv.Load(path, []string{"A=environment", "B="}, func(name, value string) error {
			set = append(set, name+"="+value)
			return nil
		})
	}
	require.NoError(t, load(file), "there is no file")
	require.NoError(t, os.WriteFile(file, []byte("A=file\nB=file\nC=first\nC=second\n"), 0o600))
	require.NoError(t, load(file))
	require.Equal(t, []string{"B=file", "C=first", "C=second"}, set, "an empty variable counts as not set, and the last line wins")

	require.NoError(t, os.WriteFile(file, []byte("D=file\nE\n"), 0o600))
	require.EqualError(t, load(file), file+":2: must be NAME=value, without spaces around the equals sign, or a comment")
	require.Empty(t, set, "nothing of a file that cannot be read is used")
	require.Error(t, load(filepath.Dir(file)), "a folder is no file")
	require.NoError(t, os.WriteFile(file, bytes.Repeat([]byte("#\n"), 1<<20), 0o600))
	require.ErrorContains(t, load(file), "larger than")
}
