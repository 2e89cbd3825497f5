package catalogue_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/catalogue"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/toolset"
)

func set(key string, tools ...string) toolset.Definition {
	d := toolset.Definition{Key: key, Name: key}
	for _, t := range tools {
		d.Tools = append(d.Tools, toolset.ToolDefinition{Name: t, Callers: toolset.Callers{Code: true}})
	}
	return d
}

// A name that two toolsets have belongs to neither of them, Python keeps its
// own names, and no two functions have one name.
func TestNames(t *testing.T) {
	t.Parallel()
	sets := []toolset.Definition{
		set("mail", "send", "list-all", "print", "search_tools", "ToolExecutionError", "json", "日本", "get_time", "time"),
		set("chat", "send", "list_all", "mail_send", "for"),
		set("odd-key", "post", "post ", "a.b", "ab"),
		set(catalogue.Own, "get_time"), set("search", "tools"), set("x", "tools"),
	}
	want := map[catalogue.Ref]string{
		{"mail", "send"}: "mail_send_2", {"chat", "send"}: "chat_send", {"chat", "mail_send"}: "mail_send",
		{"mail", "list-all"}: "mail_list_all", {"chat", "list_all"}: "chat_list_all",
		{"mail", "print"}: "mail_print", {"mail", "json"}: "mail_json", {"mail", "time"}: "mail_time",
		{"mail", "search_tools"}: "mail_search_tools", {"mail", "ToolExecutionError"}: "mail_ToolExecutionError",
		{"mail", "日本"}: "mail_tool", {"mail", "get_time"}: "mail_get_time", {catalogue.Own, "get_time"}: "get_time",
		{"chat", "for"}: "for_tool", {"odd-key", "post"}: "post", {"odd-key", "post "}: "post_",
		{"search", "tools"}: "search_tools_2", {"x", "tools"}: "x_tools",
		{"odd-key", "a.b"}: "odd_key_ab", {"odd-key", "ab"}: "odd_key_ab_2",
	}
	require.Equal(t, want, catalogue.Names(sandbox.Python, sets))
	slices.Reverse(sets)
	for _, s := range sets {
		slices.Reverse(s.Tools)
	}
	require.Equal(t, want, catalogue.Names(sandbox.Python, sets), "no order matters")

	require.Equal(t, map[catalogue.Ref]string{{"x", "print"}: "print", {"x", "for"}: "for_tool"},
		catalogue.Names(sandbox.Bash, []toolset.Definition{set("x", "print", "for")}), "other languages have other words")
}
