package composio_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/connector/composio"
	"github.com/portico-run/portico/modules/connector/connectortest"
)

// Every exported method of the service and of both kinds is tried by a user on
// another user's account, or is on the list of those that belong to no user.
func TestNoMethodReachesAnotherUser(t *testing.T) {
	t.Parallel()
	system := map[string]string{
		"Traits":      "says what a kind is",
		"Form":        "says what a kind needs",
		"HowTo":       "says what a user does",
		"ConnectURL":  "there is none",
		"PriceReader": "prices are the same for all users",
		"Lost":        "the executor names the account's own user",
		"Execute":     "takes what Method returned",
		"Define":      "describes tools of Composio's, for nobody",
		"Held":        "counts what all users have, for operators",
		"Forget":      "deletes what all users have, for operators",
	}
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s, provider := connected(t, db)
		bens := provider.Agree("u-ben", "gmail")
		tries := map[string]func(t *testing.T){
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
				require.ErrorIs(t, s.Disconnect(t.Context(), anna, "gmail"), composio.ErrNotConnected)
				got, err := s.Connection(t.Context(), ben, "gmail")
				require.NoError(t, err)
				require.Equal(t, "active", got.Status)
			},
			"Connected": func(t *testing.T) {
				keys, err := composio.OAuth{Connector: s.connector}.Connected(t.Context(), anna.UID)
				require.NoError(t, err)
				require.Empty(t, keys)
			},
			"Resolve": func(t *testing.T) { // also where everybody may use the toolset
				connectortest.Exec(t, db, `INSERT INTO toolsets (toolset_id, is_global, name, key, auth_type) VALUES ('ts-g', true, 'g', 'gmail', 'oauth')`)
				_, err := s.toolsets.Identify(t.Context(), anna, "gmail")
				require.Equal(t, errs.Forbidden, errs.CodeOf(err))
			},
			"Method": func(t *testing.T) {
				found, err := s.toolsets.Identify(t.Context(), ben, "gmail")
				require.NoError(t, err)
				_, c, err := s.toolsets.Method(t.Context(), ben, found, "GMAIL_SEND_EMAIL")
				require.NoError(t, err)
				require.Equal(t, bens, c.Name)
			},
		}
		done := map[string]bool{}
		for _, of := range []reflect.Type{reflect.TypeFor[*composio.Service](), reflect.TypeFor[composio.OAuth](), reflect.TypeFor[composio.APIKey]()} {
			for m := range of.Methods() {
				try, tried := tries[m.Name]
				if _, excused := system[m.Name]; excused || done[m.Name] {
					require.False(t, excused && tried, m.Name)
					continue
				}
				require.True(t, tried, "%s is not tried as another user", m.Name)
				try(t)
				done[m.Name] = true
			}
		}
		require.Len(t, done, len(tries))
	})
}
