package agent_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/agent"
)

// Every tool of a toolset has a name that providers take and that no other has.
func TestNamesOfTools(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 70)
	taken := map[string]bool{"create_chart": true}
	for _, c := range [][2]string{
		{"demo_wait", "demo_wait"},
		{"create_chart", "create_chart_2"},
		{"create_chart", "create_chart_3"},
		{long, long[:64]},
		{long, long[:62] + "_2"},
	} {
		got := agent.Unique(c[0], taken)
		require.Equal(t, c[1], got)
		taken[got] = true
	}
}
