package console_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/app/apptest"
)

// The pages about what a person has are part of the console that a server shows.
func TestPagesAreMounted(t *testing.T) {
	t.Parallel()
	s := apptest.Serve(t, "../../configs/toolsets")
	token, err := s.App.Accounts.Service.IssueToken(t.Context(), s.Anna.Actor)
	require.NoError(t, err)
	for path, says := range map[string]string{"/keys": "first key", "/credits": "Balance", "/toolsets": "Demo", "/files": "New canvas", "/activity": "key.create", "/help/quickstart": "Quickstart", "/account": "admin"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/console"+path, nil)
		require.NoError(t, err)
		r.AddCookie(&http.Cookie{Name: "_rf_access", Value: token})
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode, "%s: %s", path, body)
		require.Contains(t, string(body), says, path)
	}
}
