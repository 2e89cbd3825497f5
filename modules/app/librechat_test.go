// Slow under the race detector: make test runs it without.
//go:build !race

package app_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
)

// told is what the published client tells the model.
type told struct {
	Content, Error string
	Used, Most     int // tools that the host executed, and how many at once
}

// Four generations of the published client, each with the credential it knows,
// and newer ones behind a proxy that adds a key, are content with everything
// they can ask for.
func TestLibreChatClients(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	modules := testenv.Need(t, "PORTICO_LIBRECHAT", "tools/librechat.sh prints it")
	for _, name := range []string{"3.0", "3.1", "3.3", "3.9", "3.3 X-API-Key", "3.9 X-API-Key"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, databasetest.URL(t, database.SQLite))
			generation, header, _ := strings.Cut(name, " ")
			arguments := []string{"--no-warnings", "../../tools/librechat/client.mjs", modules, generation, s.url, s.key}
			if header != "" {
				arguments = append(arguments, header)
			}
			client := exec.CommandContext(t.Context(), "node", arguments...)
			var stderr strings.Builder
			client.Stderr = &stderr
			out, err := client.Output()
			require.NoError(t, err, stderr.String())
			var got map[string]told
			require.NoError(t, json.Unmarshal(out, &got), string(out))

			for name, want := range map[string]told{
				"sequence":    {Content: "2 3", Used: 2, Most: 1},
				"gathered":    {Content: "15", Used: 5, Most: 5},
				"loop":        {Content: "10", Used: 5, Most: 1},
				"conditional": {Content: "yes", Used: 2, Most: 1},
				"caught":      {Content: "caught it broke", Used: 1, Most: 1},
				"names":       {Content: "{'x': 1} {'y': 2} {'z': 3}", Used: 3, Most: 1},
				"large":       {Content: "1048576 True", Used: 1, Most: 1},
				"types":       {Content: "True", Used: 1, Most: 1},
				"nothing":     {Content: "None", Used: 1, Most: 1},
				"slow":        {Content: "slept", Used: 1, Most: 1}, // longer than the program's limit
				"quotes":      {Content: `'a\n  b'`, Used: 1, Most: 1},
			} {
				want.Content = "stdout:\n" + want.Content
				require.Equal(t, want, got[name], name)
			}
			require.Contains(t, got["file"].Content, "stdout:\nsaved\n\nGenerated files:")
			require.Equal(t, strings.Repeat("true,", 11)+"true", got["concurrent"].Content)

			// The model learns what went wrong, from the line it wrote.
			for name, want := range map[string]string{
				"uncaught": "line 2, in <module>\n    await fails(x=1)\nToolExecutionError: it broke",
				"syntax":   "SyntaxError: '(' was never closed",
				"crash":    "exited with code 3",
				"rounds":   "Exceeded maximum round trips (20)",
			} {
				require.Contains(t, got[name].Error, want, name)
				require.NotContains(t, got[name].Error, "unavailable", name)
			}
			require.Regexp(t, "(?i)time ?limit|timeout", got["busy"].Error)
			require.Equal(t, 20, got["rounds"].Used)

			require.Contains(t, got["execute"].Content, "stdout:\n42\n\nGenerated files:")
			require.Contains(t, got["executeFails"].Content, "ZeroDivisionError: division by zero")
			require.NotEmpty(t, got["executeOther"].Error)
			require.Contains(t, got["again"].Content, "stdout:\nx")
			if generation != "3.0" {
				require.Equal(t, "stdout:\n42", got["executeBash"].Content)
				require.Equal(t, "stdout:\n{\"city\":\"SF\",\"celsius\":2}\n{\"value\":1}\ncaught\n\nstderr:\nit broke", got["bash"].Content)
			}
			if generation == "3.9" {
				require.Equal(t, "stdout:\nplain", got["noTools"].Content)
				require.NotEmpty(t, got["cancelled"].Error)
			}
			require.Zero(t, s.app.Engine.Stats().Paused)
		})
	}
}
