package catalogue_test

import (
	"context"
	"encoding/json"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kljensen/snowball/english"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/catalogue"
	"github.com/portico-run/portico/modules/catalogue/cataloguetest"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/sdkbundle"
	"github.com/portico-run/portico/modules/toolset"
)

// Of questions that are asked in other words than the tools' names, the right
// tool is among the first three for most. The second file was written by
// somebody who did not know how the search works.
func TestQuestions(t *testing.T) {
	t.Parallel()
	for file, most := range map[string]int{"questions.json": 20, "other-questions.json": 18} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			testQuestions(t, file, most)
		})
	}
}

// testQuestions fails when more than so many questions of a file are missed.
func testQuestions(t *testing.T, file string, most int) {
	t.Helper()
	questions, err := cataloguetest.Questions(filepath.Join("testdata", file))
	require.NoError(t, err)
	sets, err := cataloguetest.Corpus("signature/testdata/corpus")
	require.NoError(t, err)
	c := catalogue.New(sets, nil)
	missed := cataloguetest.Missed(c, questions)
	for _, q := range missed {
		var got []string
		for _, tool := range c.Find(q.Question)[:3] {
			got = append(got, tool.Toolset+"."+tool.Name)
		}
		t.Logf("%q wants %v, got %v", q.Question, q.Tools, got)
	}
	t.Logf("%d of %d", len(questions)-len(missed), len(questions))
	require.LessOrEqual(t, len(missed), most)
}

// The questions are about all servers, and none has a word of the name of the
// tool that it asks for.
func TestQuestionsAreFair(t *testing.T) {
	t.Parallel()
	questions, err := cataloguetest.Questions(filepath.Join("testdata", "questions.json"))
	require.NoError(t, err)
	require.Len(t, questions, 120)
	others, err := cataloguetest.Questions(filepath.Join("testdata", "other-questions.json"))
	require.NoError(t, err)
	require.Len(t, others, 60)
	questions = append(questions, others...)
	sets, err := cataloguetest.Corpus("signature/testdata/corpus")
	require.NoError(t, err)
	tools, servers, asked := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, s := range sets {
		for _, tool := range s.Tools {
			tools[s.Key+"."+tool.Name] = true
		}
	}
	for _, q := range questions {
		require.False(t, asked[q.Question], q.Question)
		asked[q.Question] = true
		said := stems(q.Question)
		for _, name := range q.Tools {
			require.True(t, tools[name], name)
			server, tool := catalogueName(name)
			servers[server] = true
			for _, w := range stems(tool) {
				if slices.Contains(said, w) {
					t.Errorf("%q asks for %s with its word %q", q.Question, name, w)
				}
			}
		}
	}
	require.Len(t, slices.Collect(maps.Keys(servers)), len(sets))
}

func catalogueName(name string) (server, tool string) {
	server, tool, _ = strings.Cut(name, ".")
	return server, tool
}

// stems are the words of a text, without the little ones.
func stems(text string) []string {
	var out []string
	for _, w := range regexp.MustCompile(`[a-zA-Z0-9]+`).FindAllString(text, -1) {
		if w = strings.ToLower(w); !slices.Contains([]string{"in", "to", "or", "as", "by", "for", "and", "with", "from", "do"}, w) {
			out = append(out, english.Stem(w, false))
		}
	}
	return out
}

// Words are found in whatever form, and a class is told with its tools.
func TestSearch(t *testing.T) {
	t.Parallel()
	sets := []toolset.Definition{set("mail", "SendMessage", "delete_messages", "other"), set("chat", "other", "a.b")}
	sets[0].Tools[0].Description = "Writes to somebody. And more."
	sets[0].Tools[0].InputSchema = json.RawMessage(`{"type":"object","properties":{"to":{"type":"string"}},"required":["to"]}`)
	c := catalogue.New(sets, map[string]sdkbundle.Class{
		"mail": {Module: "mail", Name: "Mail", Methods: map[string]string{"SendMessage": "SendMessage", "delete_messages": "delete_messages"}},
		"chat": {Module: "chat_2", Name: "Chat2", Methods: map[string]string{"a.b": "a_b"}},
	})
	const mail = "\n# mail as a class: from refly_tools.mail import Mail (Mail.SendMessage(...) returns a dict with \"status\")"
	require.Equal(t, "delete_messages() -> Any  # [mail]\nSendMessage(to: str) -> Any  # [mail] Writes to somebody"+mail, c.Search("removing a message"))
	require.Equal(t, "SendMessage(to: str) -> Any  # [mail] Writes to somebody\ndelete_messages() -> Any  # [mail]"+mail, c.Search("post MESSAGES"))
	require.Equal(t, "No tool matches. An empty query lists all.", c.Search("zzz"))
	all := c.Search(" ")
	require.Contains(t, all, "\nmail_other() -> Any  # [mail]\nchat_other() -> Any  # [chat]\nab() -> Any  # [chat] (Chat2.a_b)\n")
	require.Contains(t, all, "\n# chat as a class: from refly_tools.chat_2 import Chat2 (Chat2.a_b(...)")
	require.Equal(t, []string{"chat_other() -> Any", "ab() -> Any  # (Chat2.a_b)"}, c.Lines("chat"))
	require.True(t, c.Complete("mail") == false && c.Complete("none") == false)
	require.Empty(t, c.ClassOf("none"), "a toolset that the SDK lacks has no class")
}

// Help is found under every name of a tool, and says which there are for one
// that does not exist or that several tools have.
func TestHelp(t *testing.T) {
	t.Parallel()
	sets := []toolset.Definition{set("mail", "send-it", "get"), set("chat", "get")}
	sets[0].Tools[0].Description = "Writes.\n\nTo somebody."
	sets[0].Tools[0].InputSchema = json.RawMessage(`{"properties":{"file_name_title":{"type":"string"}}}`)
	sets[0].Tools[0].OutputSchema = json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"}}}`)
	c := catalogue.New(sets, map[string]sdkbundle.Class{"mail": {Module: "mail", Name: "Mail", Methods: map[string]string{"send-it": "send_it"}}})
	c.Shape = func(_ context.Context, toolset, tool string) (string, error) {
		return "list[" + toolset + "." + tool + "]", nil
	}
	for _, name := range []string{"send_it", "send-it", "mail.send-it", "mail.send_it", "Mail.send_it", " send_it() "} {
		text, err := c.Help(t.Context(), name)
		require.NoError(t, err, name)
		require.Equal(t, `mail: send_it() -> {id?: str}
The function returns the value and raises ToolExecutionError when the call fails.
As a class method: from refly_tools.mail import Mail; Mail.send_it(...) takes the same and returns a dict: "status" with "data" or "error".

Writes.

To somebody.

Parameters: {
  "properties": {
    "file_name_title": {
      "type": "string"
    }
  }
}
file_name_title has a default in Python.

Returns: {
  "type": "object",
  "properties": {
    "id": {
      "type": "string"
    }
  }
}`, text)
	}
	text, err := c.Help(t.Context(), "chat_get")
	require.NoError(t, err)
	require.Contains(t, text, "the last success looked like list[chat.get]")
	require.NotContains(t, text, "class method")
	var refusal *errs.Error
	_, err = c.Help(t.Context(), "get")
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, "Ask for one of: mail_get of mail, chat_get of chat.", refusal.Detail)
	_, err = c.Help(t.Context(), "sending")
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, `Near are: send_it. search_tools("") lists all.`, refusal.Detail)
}

// The tools that look things up are what a provider takes, and answer as the
// catalogue does.
func TestLookupsAreTools(t *testing.T) {
	t.Parallel()
	c := catalogue.New([]toolset.Definition{{Key: "mail", Tools: []toolset.ToolDefinition{
		{Name: "send", Description: "Sends a letter.", InputSchema: json.RawMessage(`{"type":"object","properties":{"to":{"type":"string"}},"required":["to"]}`), Callers: toolset.Callers{Code: true}},
	}}}, nil)
	answers := map[string]func(arguments string) (string, error){}
	for _, l := range c.Lookups() {
		_, err := new(model.Client).Fit(model.Tool{Name: l.Name, Description: l.Description, Schema: json.RawMessage(l.Schema), Own: true})
		require.NoError(t, err)
		answers[l.Name] = func(arguments string) (string, error) { return l.Answer(t.Context(), json.RawMessage(arguments)) }
	}
	require.Len(t, answers, 2)
	for name, arguments := range map[string]string{"search_tools": `{"query":"letter"}`, "help": `{"name":"mail.send"}`} {
		text, err := answers[name](arguments)
		require.NoError(t, err)
		require.Contains(t, text, "send(to: str)", name)
		_, err = answers[name](`[]`)
		require.Error(t, err, name)
	}
	_, err := answers["help"](`{"name":"nothing"}`)
	require.Equal(t, errs.NotFound, errs.CodeOf(err))
}
