package agent_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/agent"
)

// A23, and the section about code rule by rule: contracts/refly.md §6.10.
func TestPrompt(t *testing.T) {
	t.Parallel()
	off := agent.Prompt{Missing: []string{"gmail"}}.String()
	for _, part := range []string{"You are an agent", "call one when", "as soon as you can answer", "Markdown", "limited number of calls", "do not work at the moment: gmail"} {
		require.Contains(t, off, part)
	}
	require.NotContains(t, off, "Python")

	on := agent.Prompt{Code: true, Toolsets: []agent.Described{
		{Key: "weather", Docs: "# Weather\nWeather.get(city)"}, {Key: "mail", Lines: []string{"send(to: str) -> str  # Sends"}},
	}}
	text := on.String()
	for _, part := range []string{
		"execute_code", "cannot be called in any other way", "depend on each other", "create, update, delete, send", "max_workers=min(len(items), 5)",
		"threads, not asyncio", "five calls or more", "never whole results", "from refly_tools.<toolset> import <Class>", "credentials are not needed",
		"Do not sleep", "A short look around", "Toolsets: weather, mail", "# Weather\nWeather.get(city)", "## mail\n\nsend(to: str) -> str  # Sends",
	} {
		require.Contains(t, text, part)
	}
	on.Sequential = true
	text = on.String()
	require.Contains(t, text, "one call after the other, always")
	require.NotContains(t, text, "ThreadPoolExecutor")
	require.Contains(t, agent.Prompt{Code: true}.String(), "Toolsets: \n")
}

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

// What the model is told follows what it was given: the tool's name, the tools
// that end a run, and that all else is called from code.
func TestPromptFollowsTheSettings(t *testing.T) {
	t.Parallel()
	plain := agent.Prompt{Code: true}.String()
	require.Contains(t, plain, "run with execute_code;")
	require.Contains(t, plain, "as tools and, in programs, as functions")
	for _, absent := range []string{"call complete", "onboarding_handoff", "exec_code;", "Functions of every program"} {
		require.NotContains(t, plain, absent)
	}
	other := agent.Prompt{Code: true, CodeTool: "exec_code", Minimal: true, Lifecycle: true, Functions: []string{"get_time(zone?: str) -> str"}}.String()
	for _, part := range []string{
		"run with exec_code;", "both are functions that return text", "call complete with the whole answer", "call fail with the reason", "call onboarding_handoff",
		"Each ends the run at once", "get_time(zone?: str) -> str",
	} {
		require.Contains(t, other, part)
	}
	require.NotContains(t, other, "as tools and")
	require.Contains(t, agent.Prompt{Lifecycle: true}.String(), "call complete", "also without code")
}
