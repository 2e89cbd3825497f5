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

// Tools of a server have a second name with a dot, in which lines show them, in
// programs and in answers; one that is named as a module is shown without it.
func TestNamesOfServers(t *testing.T) {
	t.Parallel()
	sets := []toolset.Definition{
		set("my-hub", "my-hub__list", "my-hub__for", "my-hub__a-b", "my-hub__a_b"), set("time", "time__now"), set("str", "str__cut"),
		set("mail", "my_hub", "send"), set("plain", "find"),
	}
	sets[4].Tools[0].As, sets[4].Tools[0].Plain = "search_all", true
	sets[4].Tools[0].InputSchema = []byte(`{"type":"object","required":["q","file_name_title"],"properties":{"q":{"type":"string"},"file_name_title":{"type":"string"},"n":{"type":"integer","default":3}}}`)
	c := catalogue.New(sets, nil)
	require.Equal(t, []string{"my_hub.list() -> Any", "my_hub.for_tool() -> Any", "my_hub.a_b() -> Any", "my_hub.a_b_2() -> Any"}, c.Lines("my-hub"))
	require.Equal(t, []string{"time__now() -> Any"}, c.Lines("time"), "an import takes the name")
	require.Equal(t, []string{"str__cut() -> Any"}, c.Lines("str"), "nothing takes a type away")
	require.Equal(t, []string{"mail_my_hub() -> Any", "send() -> Any"}, c.Lines("mail"), "a server's name is taken")
	require.Equal(t, []string{"search_all(q: str, n?: int) -> Any"}, c.Lines("plain"))
	for _, name := range []string{"my_hub.list", "my-hub__list", "my_hub__list", "my-hub.my-hub__list"} {
		text, err := c.Help(t.Context(), name)
		require.NoError(t, err, name)
		require.Contains(t, text, "my-hub: my_hub.list(")
	}
	_, err := c.Help(t.Context(), "hub.lisst list")
	require.ErrorContains(t, err, "There is no tool")
	require.Contains(t, c.Search("list"), "my_hub.list() -> Any  # [my-hub]")

	found := map[string]sandbox.Stub{}
	for _, s := range catalogue.Stubs(sandbox.Python, sets) {
		found[s.Identifier] = s
	}
	require.Equal(t, []string{"my_hub", "list"}, []string{found["my_hub__list"].Space, found["my_hub__list"].Member})
	require.Equal(t, []string{"time", "now"}, []string{found["time__now"].Space, found["time__now"].Member})
	require.Empty(t, found["str__cut"].Space)
	require.Equal(t, []sandbox.Parameter{{Name: "q", Required: true, Type: "str"}, {Name: "n", Type: "int", Default: []byte("3")}}, found["search_all"].Parameters)
}
