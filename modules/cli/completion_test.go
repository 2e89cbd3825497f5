package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// completing is a shell in which a person types a line and presses the tab key.
// What the package bash-completion brings is there in its smallest form.
const completing = `
_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=${COMP_WORDS[COMP_CWORD]}; prev=${COMP_WORDS[COMP_CWORD-1]}; }
__ltrimcolonmatches() { :; }
compopt() { :; }
source <(portico completion bash)
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9 COMP_KEY=9
read -ra COMP_WORDS <<<"$1"
[[ $1 != *' ' ]] || COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
__start_portico
printf '%s\n' "${COMPREPLY[@]}"
`

// A shell completes commands and flags.
func TestCompletionInBash(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	script := "#!/bin/sh\n" + asProgram + "=1 exec '" + self + "' \"$@\"\n"
	require.NoError(t, os.WriteFile(filepath.Join(folder, "portico"), []byte(script), 0o700))
	complete := func(line string) string {
		shell := exec.CommandContext(t.Context(), "bash", "-ec", completing, "bash", line)
		shell.Env = []string{"PATH=" + folder + ":" + os.Getenv("PATH")}
		out, err := shell.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return strings.Join(strings.Fields(string(out)), " ")
	}
	require.Equal(t, "toolset", complete("portico toolse"))
	require.Contains(t, complete("portico run "), "delete")
	require.Contains(t, complete("portico run "), "list")
	require.Contains(t, complete("portico key create --"), "--user")
	require.Contains(t, complete("portico user sh"), "show")
}

// The scripts of the other shells are made as well, and end in success.
func TestCompletionOfOtherShells(t *testing.T) {
	t.Parallel()
	for shell, sign := range map[string]string{"zsh": "#compdef portico", "fish": "complete -c portico"} {
		code, out, errs := portico(t, nil, "completion", shell)
		require.Zero(t, code, errs)
		require.Contains(t, out, sign)
	}
}
