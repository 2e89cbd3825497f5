package composio_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/tool/resource"
	"github.com/portico-run/portico/modules/toolset"
)

// What calls come to: data, a failure in the service's words, and files of the
// caller's that are stored at the service first.
func TestExecuteOfTheConnector(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s, provider := connected(t, db)
		provider.Agree(anna.UID, "gmail")
		_, err := s.Connection(t.Context(), anna, "gmail")
		require.NoError(t, err)
		found, err := s.toolsets.Identify(t.Context(), anna, "gmail")
		require.NoError(t, err)
		found.Egress = loopback()
		call := func(name string, arguments map[string]any) (tool.Outcome, error) {
			t.Helper()
			m, c, err := s.toolsets.Method(t.Context(), anna, found, name)
			require.NoError(t, err)
			return s.connector.Execute(t.Context(), tool.Invocation{UID: anna.UID, Toolset: found, Method: m, Credential: c, Arguments: arguments})
		}
		ok := func(name string, arguments map[string]any) tool.Outcome {
			t.Helper()
			out, err := call(name, arguments)
			require.NoError(t, err)
			require.Nil(t, out.Failure, "%v", out.Failure)
			require.True(t, out.StoredFiles)
			return out
		}
		require.JSONEq(t, `{"sent":true,"to":"a@b.c"}`, string(ok("GMAIL_SEND_EMAIL", map[string]any{"to": "a@b.c", "body": "b"}).Data))

		// Files of the caller's, at any depth.
		var sent map[string]any
		provider.Run = func(_ string, arguments map[string]any) (map[string]any, string) {
			sent = arguments
			return nil, ""
		}
		note := resource.File{Content: []byte("hello")}
		out := ok("GMAIL_SEND_EMAIL", map[string]any{"to": "a@b.c", "attachment": note, "more": []any{map[string]any{"file": note}}})
		require.JSONEq(t, `null`, string(out.Data))
		stored := map[string]any{"name": "file", "mimetype": "application/octet-stream", "s3key": "5d41402abc4b2a76b9719d911017c592-file"}
		require.Equal(t, map[string]any{"to": "a@b.c", "attachment": stored, "more": []any{map[string]any{"file": stored}}}, sent)
		require.Equal(t, "hello", string(provider.File("5d41402abc4b2a76b9719d911017c592-file")))
		ok("GMAIL_FETCH_EMAILS", nil)
		require.Equal(t, map[string]any{}, sent, "arguments are an object")

		// A tool that failed, with and without words of its own.
		for words, want := range map[string]string{"Mailbox full": "Mailbox full", " ": " "} {
			provider.Run = func(string, map[string]any) (map[string]any, string) { return map[string]any{"status": 552}, words }
			out, err = call("GMAIL_SEND_EMAIL", map[string]any{"to": "a@b.c"})
			require.NoError(t, err)
			require.Equal(t, "TOOL_FAILED", out.Failure.Code)
			require.Equal(t, want, out.Failure.Message)
			require.JSONEq(t, `{"status":552}`, string(out.Failure.Data))
		}
		provider.Fail(func(w http.ResponseWriter, _ *http.Request) bool {
			_ = json.NewEncoder(w).Encode(map[string]any{"successful": false})
			return true
		})
		out, err = call("GMAIL_SEND_EMAIL", map[string]any{"to": "a@b.c"})
		require.NoError(t, err)
		require.Equal(t, "Tool execution failed", out.Failure.Message)

		// The service is down: nothing is stored, and the call fails in its words.
		provider.Fail(func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		})
		out, err = call("GMAIL_SEND_EMAIL", map[string]any{"attachment": note})
		require.NoError(t, err)
		require.Equal(t, "SERVER_ERROR", out.Failure.Code)
		provider.Fail(nil)

		// An account that the service no longer takes is lost: the next call says
		// what to do.
		m, c, err := s.toolsets.Method(t.Context(), anna, found, "GMAIL_SEND_EMAIL")
		require.NoError(t, err)
		c.Name = "ca_of_nobody"
		out, err = s.connector.Execute(t.Context(), tool.Invocation{UID: anna.UID, Toolset: found, Method: m, Credential: c})
		require.NoError(t, err)
		require.Contains(t, out.Failure.Message, "No connected account found for this user")
		_, err = s.toolsets.Identify(t.Context(), anna, "gmail")
		require.Equal(t, errs.Forbidden, errs.CodeOf(err))
	})
}

// A server without the service says so, and offers nothing of it.
func TestWithoutTheService(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		connected(t, db)
		s := start(t, db, nil)
		_, err := s.Authorize(t.Context(), anna, "gmail", "")
		require.Equal(t, errs.Unavailable, errs.CodeOf(err))
		found, err := s.toolsets.Identify(t.Context(), ben, "alpha_vantage")
		require.NoError(t, err)
		_, _, err = s.toolsets.Method(t.Context(), ben, found, "ALPHA_VANTAGE_SYMBOL_SEARCH")
		require.Equal(t, "Toolset alpha_vantage is one of Composio's, and this server is not connected to Composio.", errs.Message(err))
		items, err := s.toolsets.Installs.Inventory(t.Context())
		require.NoError(t, err)
		for _, i := range items {
			require.True(t, i.Builtin, i.Key)
		}
		sets, failures, err := s.toolsets.Export(t.Context(), ben, []string{"alpha_vantage"})
		require.NoError(t, err)
		require.Empty(t, sets)
		require.Equal(t, errs.Unavailable, errs.CodeOf(failures[0].Problem))
	})
}

// Without a key there is nothing to connect a shared account with, and the
// claim is given back.
func TestASharedAccountNeedsAKey(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s, provider := connected(t, db)
		s.toolsets.Fill(t, `{key: exa, name: Exa, type: external_apikey, billing: 2}`)
		found, err := s.toolsets.Identify(t.Context(), ben, "exa")
		require.NoError(t, err)
		before := provider.Tools
		provider.Tools = append(before, map[string]any{"slug": "EXA_SEARCH", "toolkit": map[string]any{"slug": "exa"}})
		for range 2 {
			_, _, err = s.toolsets.Method(t.Context(), ben, found, "EXA_SEARCH")
			require.Equal(t, "Toolset exa has no API key.", errs.Message(err))
		}
		require.Equal(t, toolset.Kind("composio_apikey"), found.Kind)
	})
}
