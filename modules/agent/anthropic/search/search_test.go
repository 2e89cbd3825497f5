package search_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/agent/anthropic/search"
	"github.com/portico-run/portico/modules/agent/dialogue"
)

func tool(name, description string, deferred bool) dialogue.Tool {
	return dialogue.Tool{Name: name, Description: description, Schema: json.RawMessage(`{"type":"object"}`), Direct: true, Deferred: deferred}
}

func find(t *testing.T, name, arguments string, tools ...dialogue.Tool) (dialogue.OwnResult, error) {
	t.Helper()
	return search.Tool(name, tools).Run(t.Context(), json.RawMessage(arguments))
}

func TestByWords(t *testing.T) {
	t.Parallel()
	tools := []dialogue.Tool{
		tool("get_order", "One order of a customer.", true), tool("send_mail", "Writes to somebody.", true), tool("list_orders", "All orders.", false),
	}
	got, err := find(t, "tool_search_tool_bm25", `{"query":"an order"}`, tools...)
	require.NoError(t, err)
	require.Equal(t, []string{"get_order"}, got.Loads, "what the model has is not found")
	require.Equal(t, "You have these tools now: get_order", got.Text)
	got, err = find(t, "tool_search_tool_bm25", `{"query":"a lighthouse"}`, tools...)
	require.NoError(t, err)
	require.Empty(t, got.Loads)
	for _, wrong := range []string{`{}`, `{"query":" "}`, `{"query":5}`} {
		_, err = find(t, "tool_search_tool_bm25", wrong, tools...)
		require.Equal(t, errs.Invalid, errs.CodeOf(err))
	}
}

func TestByPattern(t *testing.T) {
	t.Parallel()
	var tools []dialogue.Tool
	for i := range 9 {
		tools = append(tools, tool(fmt.Sprintf("order_%d", i), "One order.", true))
	}
	got, err := find(t, "tool_search_tool_regex", `{"pattern":"^order_[0-2]$"}`, tools...)
	require.NoError(t, err)
	require.Equal(t, []string{"order_0", "order_1", "order_2"}, got.Loads)
	got, err = find(t, "tool_search_tool_regex", `{"pattern":"(?i)one ORDER"}`, tools...)
	require.NoError(t, err)
	require.Len(t, got.Loads, 5)
	_, err = find(t, "tool_search_tool_regex", `{"pattern":"["}`, tools...)
	require.Contains(t, errs.Message(err), "Invalid regular expression pattern: missing closing ]")
	_, err = find(t, "tool_search_tool_regex", `{"pattern":"`+strings.Repeat("é", 201)+`"}`, tools...)
	require.Contains(t, errs.Message(err), "200 characters")
	_, err = find(t, "tool_search_tool_regex", `{"pattern":"`+strings.Repeat("é", 200)+`"}`, tools...)
	require.NoError(t, err)
}

func TestTypes(t *testing.T) {
	t.Parallel()
	for kind, name := range map[string]string{
		"tool_search_tool_regex": "tool_search_tool_regex", "tool_search_tool_bm25_20251119": "tool_search_tool_bm25",
	} {
		require.True(t, search.Is(kind))
		require.Equal(t, name, search.NameOf(kind))
	}
	require.False(t, search.Is("tool_search_tool_vector"))
}
