package install_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/accesstest"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/connector/connectortest"
	"github.com/portico-run/portico/modules/toolset/install"
)

// Every exported method of the service is tried by a user on another user's
// toolset, or is on the list of those that belong to no user.
func TestNoMethodReachesAnotherUser(t *testing.T) {
	t.Parallel()
	system := map[string]string{
		"Inventory": "lists what operators offer to all users",
		"Listing":   "reads what operators offer to all users",
		"Grant":     "the connector names the account's own user",
		"Revoke":    "the connector names the account's own user",
	}
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := connected(t, db)
		_, err := s.Files.Apply(t.Context(), weather(t))
		require.NoError(t, err)
		sealed := s.Box.Seal([]byte(`{"apiKey":"bens-own"}`))
		for _, k := range []string{"private", "weather"} {
			connectortest.Exec(t, db, `INSERT INTO toolsets (toolset_id, uid, name, key, auth_data) VALUES (?, 'u-ben', 'his', ?, ?)`, "ts-"+k, k, sealed)
		}
		tries := map[string]func(t *testing.T){
			"Tools": func(t *testing.T) {
				got, err := s.Installs.Tools(t.Context(), anna)
				require.NoError(t, err)
				for _, i := range append(got.Regular, got.OAuth...) {
					require.NotEqual(t, "his", i.Name)
				}
				require.Empty(t, got.MCP)
			},
			"One": func(t *testing.T) {
				got, err := s.Installs.One(t.Context(), anna, "weather")
				require.NoError(t, err)
				require.NotEqual(t, "his", got.Name)
				require.NotEqual(t, "ts-weather", got.Instance.ToolsetID)
				_, err = s.Installs.One(t.Context(), anna, "nothing")
				require.Equal(t, errs.ToolsetMissing, errs.CodeOf(err))
			},
			"Install": func(t *testing.T) { // what Ben has does not stand in Anna's way
				got, err := s.Installs.Install(t.Context(), anna, install.Upsert{Name: "mine", Key: "private"})
				require.NoError(t, err)
				require.NotEqual(t, "ts-private", got.ToolsetID)
			},
			"Update": func(t *testing.T) {
				_, err := s.Installs.Update(t.Context(), anna, install.Upsert{ToolsetID: "ts-private", Name: "stolen"})
				require.Equal(t, errs.ToolsetMissing, errs.CodeOf(err))
			},
			"Uninstall": func(t *testing.T) {
				require.Equal(t, errs.ToolsetMissing, errs.CodeOf(s.Installs.Uninstall(t.Context(), anna, "ts-private")))
				_, err := s.Identify(t.Context(), ben, "private")
				require.NoError(t, err)
			},
			"Toolsets": func(t *testing.T) {
				got, err := s.Installs.Toolsets(t.Context(), anna)
				require.NoError(t, err)
				got = slices.DeleteFunc(got, func(i install.Instance) bool { return i.Name == "mine" })
				require.Len(t, got, 2)
				for _, i := range got {
					require.True(t, i.Global)
				}
			},
		}
		accesstest.Each(t, reflect.TypeFor[*install.Service](), tries, system)
	})
}
