package agent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/agenttest"
	"github.com/portico-run/portico/internal/testenv"
)

// A model that writes code is shown tools as the operator wants, whatever they
// cost.
func TestToolsAreShownAsTheSettingSays(t *testing.T) {
	testenv.Slow(t, "three servers")
	t.Parallel()
	const docs, lines, names = "def get_weather(", "convert_currency(amount: float", "## demo — 6 functions, not listed here; search_tools finds them"
	for setting, form := range map[string]struct {
		has   string
		lacks []string
	}{
		"docs": {docs, []string{names, lines}}, "lines": {lines, []string{names, docs}}, "names": {names, []string{docs, lines}},
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			s := agenttest.Serve(t, "- output: [{text: Nothing.}]\n", "AGENT_DESCRIBE="+setting)
			s.Ask(map[string]any{"query": "Hello.", "toolsets": []string{"demo"}, "ptc": "on"})
			require.Len(t, s.Model.Requests(), 1)
			request := string(s.Model.Requests()[0])
			require.Contains(t, request, form.has)
			for _, text := range form.lacks {
				require.NotContains(t, request, text)
			}
		})
	}
}
