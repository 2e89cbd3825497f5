package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/cli"
	"github.com/portico-run/portico/modules/cli/shell"
)

// leaves are the commands that do something, in the order of the help. Those
// that cobra brings are left out.
func leaves(cmd *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, c := range cmd.Commands() {
		if c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		if !c.HasSubCommands() || c.Name() == "demo" {
			all = append(all, c)
		}
		all = append(all, leaves(c)...)
	}
	return all
}

// document describes each command: what it does, an example, its flags, and its
// JSON.
func document(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	for _, c := range leaves(cli.Root()) {
		fmt.Fprintf(&b, "### %s\n\n%s.\n\n", c.CommandPath(), c.Short)
		for line := range strings.Lines(c.Example) {
			fmt.Fprintf(&b, "    %s\n", strings.TrimSpace(line))
		}
		b.WriteString("\n")
		if use := strings.TrimPrefix(c.Use, c.Name()); use != "" {
			fmt.Fprintf(&b, "Takes `%s`.\n\n", strings.TrimSpace(use))
		}
		var flags []string
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && f.Name != "json" {
				flags = append(flags, flagLine(f))
			}
		})
		if len(flags) > 0 {
			fmt.Fprintf(&b, "%s\n\n", strings.Join(flags, "\n"))
		}
		if c.Flags().Lookup("json") == nil {
			continue
		}
		name := strings.ReplaceAll(strings.TrimPrefix(c.CommandPath(), "portico "), " ", "-")
		shape, err := os.ReadFile(filepath.Join("testdata", "json", name+".json"))
		require.NoError(t, err, "%s answers with --json, but no test shows its answer", c.CommandPath())
		fmt.Fprintf(&b, "With `--json`:\n\n```json\n%s```\n\n", shape)
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func flagLine(f *pflag.Flag) string {
	name, usage := pflag.UnquoteUsage(f)
	line := "- `--" + f.Name
	if name != "" {
		line += " " + strings.ToUpper(name)
	}
	line += "`"
	if _, needed := f.Annotations[cobra.BashCompOneRequiredFlag]; needed {
		line += ", needed"
	}
	line += ": " + usage
	if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "[]" {
		line += " (`" + f.DefValue + "` when left out)"
	}
	return line
}

// docs/cli.md has every command, with an example, its flags and the shape of its
// JSON, and every exit code.
func TestTheDocumentHasEveryCommand(t *testing.T) {
	t.Parallel()
	const path, mark = "../../docs/cli.md", "-update -->\n\n"
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	head, commands, found := strings.Cut(string(content), mark)
	require.True(t, found)
	want := document(t)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(head+mark+want), 0o600))
		commands = want
	}
	require.Equal(t, want, commands, "go test ./modules/cli -run TestTheDocumentHasEveryCommand -update writes it anew")
	for line := range strings.Lines(shell.Codes) {
		if code, _, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
			require.Contains(t, head, "\n| "+code+" | ")
		}
	}
}

// Every command says in a sentence what it does and shows how it is called; one
// whose answer is not for a person alone has --json.
func TestEveryCommandHasAnExample(t *testing.T) {
	t.Parallel()
	forPeople := map[string]bool{
		"portico serve": true, "portico mcp serve": true, "portico demo": true, "portico demo agent": true, "portico demo clients": true, "portico demo tools": true, "portico demo hours": true, "portico stubs": true, "portico tool unmark": true, "portico scripted": true, "portico tools measure": true,
		"portico user disable": true, "portico user enable": true, "portico user role": true, "portico user password": true, // these answer nothing
	}
	commands := leaves(cli.Root())
	require.Greater(t, len(commands), 35)
	for _, c := range commands {
		path := c.CommandPath()
		require.NotEmpty(t, c.Short, path)
		require.Contains(t, c.Example, path, path)
		require.Equal(t, !forPeople[path], c.Flags().Lookup("json") != nil, path)
		code, out, _ := portico(t, nil, append(strings.Fields(path)[1:], "--help")...)
		require.Zero(t, code, path)
		require.Contains(t, out, "Examples:\n"+c.Example, path)
	}
	_, out, _ := portico(t, nil, "help")
	require.Contains(t, out, shell.Codes)
	require.Contains(t, out, "Examples:\n")
}

// What lists, shows and deletes has the same words for every thing.
func TestThingsHaveTheSameVerbs(t *testing.T) {
	t.Parallel()
	for _, thing := range []string{"key", "user", "toolset", "run"} {
		for _, verb := range []string{"list", "show", "delete"} {
			c, _, err := cli.Root().Find([]string{thing, verb})
			require.NoError(t, err)
			require.Equal(t, "portico "+thing+" "+verb, c.CommandPath())
		}
	}
}
