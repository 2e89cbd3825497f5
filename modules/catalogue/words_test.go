package catalogue_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/catalogue"
	"github.com/portico-run/portico/modules/toolset"
)

func first(t *testing.T, question string, sets ...toolset.Definition) string {
	t.Helper()
	found := catalogue.New(sets, nil).Find(question)
	require.NotEmpty(t, found, question)
	return found[0].Toolset + "." + found[0].Name
}

// A phrase counts as what it means, not as its words.
func TestSearchKnowsPhrases(t *testing.T) {
	t.Parallel()
	code := set("code", "get_user", "pull_image", "merge_image", "delete_image", "create_pull_request")
	require.Equal(t, "code.create_pull_request", first(t, "a PR", code))
	require.Equal(t, "code.create_pull_request", first(t, "merge request", code))
	require.Equal(t, "code.delete_image", first(t, "get rid of it", code))
}

// The word itself is worth more than one that means nearly the same.
func TestSearchPrefersTheWordItself(t *testing.T) {
	t.Parallel()
	require.Equal(t, "b.hover_row", first(t, "hover", set("a", "pointer_row"), set("b", "hover_row")))
}

// Of tools alike, those of the toolset come first that the question names.
func TestSearchPrefersTheNamedToolset(t *testing.T) {
	t.Parallel()
	sets := []toolset.Definition{set("asana", "create_ticket"), set("mongodb-eu", "create_ticket"), set("zendesk", "create_ticket")}
	require.Equal(t, "zendesk.create_ticket", first(t, "new ticket in Zendesk", sets...))
	require.Equal(t, "mongodb-eu.create_ticket", first(t, "new ticket in mongo", sets...))
	require.Equal(t, "asana.create_ticket", first(t, "new ticket", sets...))
}

// A general word of a key names no toolset.
func TestSearchTakesNoGeneralWordForAName(t *testing.T) {
	t.Parallel()
	require.Equal(t, "zeta.delete_user_table", first(t, "delete user table",
		set("table", "delete_user"), set("zeta", "delete_user_table"), set("other", "a", "b", "c", "d")))
}

// The values that a parameter is limited to say what a tool does.
func TestSearchFindsValuesOfParameters(t *testing.T) {
	t.Parallel()
	s := set("shop", "orders", "users")
	s.Tools[1].InputSchema = json.RawMessage(`{"type":"object","properties":{"all":true,"method":{"enum":["suspend","greet"]},"n":{"enum":[1]}}}`)
	require.Equal(t, "shop.users", first(t, "suspended", s))
}

// Words count in all their forms.
func TestSearchKnowsFormsOfWords(t *testing.T) {
	t.Parallel()
	require.Equal(t, "lab.calibrate_sensor", first(t, "calibrating of sensors", set("lab", "ventilate_room", "calibrate_sensor")))
}
