package toolset_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/toolset"
)

// Every exported method of the service is tried by a user on another user's
// toolset, or is on the list of those that belong to no user.
func TestNoMethodReachesAnotherUser(t *testing.T) {
	t.Parallel()
	system := map[string]string{
		"Store":     "writes what operators offer to all users",
		"CheckKey":  "says whether the server's key opens what is stored",
		"Delete":    "deletes what operators offer to all users",
		"Holdings":  "counts what all users have of a toolset, for operators",
		"Inventory": "lists what operators offer to all users",
		"Lost":      "the executor names the account's own user",
	}
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s, provider := connected(t, db)
		provider.Agree("u-ben", "gmail")
		_, err := s.Apply(t.Context(), files(t, "weather.yaml"))
		require.NoError(t, err)
		sealed := s.Box.Seal([]byte(`{"apiKey":"bens-own"}`))
		for _, k := range []string{"private", "weather"} {
			toolset.Exec(t, db, `INSERT INTO toolsets (toolset_id, uid, name, key, auth_data) VALUES (?, 'u-ben', 'his', ?, ?)`, "ts-"+k, k, sealed)
		}
		tries := map[string]func(t *testing.T){
			"Identify": func(t *testing.T) {
				_, foreign := s.Identify(t.Context(), anna, "private")
				require.EqualError(t, foreign, "E1020: Toolset not found: private.")
				got, err := s.Identify(t.Context(), anna, "weather")
				require.NoError(t, err)
				require.True(t, got.Global)
			},
			"Method": func(t *testing.T) {
				got, err := s.Identify(t.Context(), anna, "weather")
				require.NoError(t, err)
				_, c, err := s.Method(t.Context(), anna, got, "forecast")
				require.NoError(t, err)
				require.Equal(t, key, c.Value.Reveal())
			},
			"Export": func(t *testing.T) {
				got, failures, err := s.Export(t.Context(), anna, []string{"private"})
				require.NoError(t, err)
				require.Empty(t, got)
				require.Len(t, failures, 1)
			},
			"Connection": func(t *testing.T) { // the provider knows Ben's account only
				got, err := s.Connection(t.Context(), anna, "gmail")
				require.NoError(t, err)
				require.Equal(t, "revoked", got.Status)
				got, err = s.Connection(t.Context(), ben, "gmail")
				require.NoError(t, err)
				require.Equal(t, "active", got.Status)
			},
			"Authorize": func(t *testing.T) {
				_, err := s.Authorize(t.Context(), anna, "gmail", "")
				require.NoError(t, err)
			},
			"Disconnect": func(t *testing.T) {
				require.ErrorIs(t, s.Disconnect(t.Context(), anna, "gmail"), toolset.ErrNotConnected)
				got, err := s.Connection(t.Context(), ben, "gmail")
				require.NoError(t, err)
				require.Equal(t, "active", got.Status)
			},
			"Tools": func(t *testing.T) {
				got, err := s.Tools(t.Context(), anna)
				require.NoError(t, err)
				for _, i := range append(got.Regular, got.OAuth...) {
					require.NotEqual(t, "his", i.Name)
				}
				require.Empty(t, got.MCP)
			},
			"Install": func(t *testing.T) { // what Ben has does not stand in Anna's way
				got, err := s.Install(t.Context(), anna, toolset.Upsert{Name: "mine", Key: "private"})
				require.NoError(t, err)
				require.NotEqual(t, "ts-private", got.ToolsetID)
			},
			"Update": func(t *testing.T) {
				_, err := s.Update(t.Context(), anna, toolset.Upsert{ToolsetID: "ts-private", Name: "stolen"})
				require.Equal(t, errs.ToolsetMissing, errs.CodeOf(err))
			},
			"Uninstall": func(t *testing.T) {
				require.Equal(t, errs.ToolsetMissing, errs.CodeOf(s.Uninstall(t.Context(), anna, "ts-private")))
				_, err := s.Identify(t.Context(), ben, "private")
				require.NoError(t, err)
			},
			"Toolsets": func(t *testing.T) {
				got, err := s.Toolsets(t.Context(), anna)
				require.NoError(t, err)
				got = slices.DeleteFunc(got, func(i toolset.Instance) bool { return i.Name == "mine" })
				require.Len(t, got, 2)
				for _, i := range got {
					require.True(t, i.Global)
				}
			},
		}
		for m := range reflect.TypeFor[*toolset.Service]().Methods() {
			try, tried := tries[m.Name]
			if _, excused := system[m.Name]; excused {
				require.False(t, tried, m.Name)
				continue
			}
			require.True(t, tried, "%s is not tried as another user", m.Name)
			try(t)
		}
	})
}
