package toolset_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/accesstest"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/modules/connector/connectortest"
	"github.com/portico-run/portico/modules/toolset"
)

// Every exported method of the service is tried by a user on another user's
// toolset, or is on the list of those that belong to no user.
func TestNoMethodReachesAnotherUser(t *testing.T) {
	t.Parallel()
	system := map[string]string{
		"Listing": "reads what operators offer to all users",
		"Offer":   "the same",
		"Report":  "writes the log",
	}
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := service(t, db)
		_, err := s.Files.Apply(t.Context(), files(t, "weather.yaml"))
		require.NoError(t, err)
		sealed := s.Box.Seal([]byte(`{"apiKey":"bens-own"}`))
		for _, k := range []string{"private", "weather"} {
			connectortest.Exec(t, db, `INSERT INTO toolsets (toolset_id, uid, name, key, auth_data) VALUES (?, 'u-ben', 'his', ?, ?)`, "ts-"+k, k, sealed)
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
			"ExportForSDK": func(t *testing.T) {
				got, failures, err := s.ExportForSDK(t.Context(), anna, []string{"private"})
				require.NoError(t, err)
				require.Empty(t, got)
				require.Len(t, failures, 1)
			},
		}
		accesstest.Each(t, reflect.TypeFor[*toolset.Service](), tries, system)
	})
}
