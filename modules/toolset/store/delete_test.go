package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/connector/connectortest"
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/toolset/store"
)

// A toolset goes from everybody with the credentials and connections of all
// users, and nothing of another toolset does. Stored again it is everybody's,
// and nobody's own.
func TestDeleteTakesAToolsetFromEverybody(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		other := mail()
		other.Key = "post"
		f.store(mail(), other)
		for key, id := range map[string]string{"mail": "ca-1", "post": "ca-2"} {
			f.install(anna, key)
			f.install(ben, key)
			connectortest.Exec(t, f.db, "INSERT INTO composio_connections (uid, integration_id, connected_account_id) VALUES ('u-ben', ?, ?)", key, id)
		}
		held, err := f.Holdings(t.Context(), "mail")
		require.NoError(t, err)
		require.Equal(t, store.Holdings{Installed: 2, Connected: 1}, held)

		require.NoError(t, f.Delete(t.Context(), "mail"))
		f.missing(anna, "mail")
		f.missing(ben, "mail")
		require.ElementsMatch(t, []string{"post", "+post"}, f.keys(anna))
		require.Zero(t, f.count("SELECT count(*) FROM toolset_inventory WHERE key = 'mail' AND api_key IS NOT NULL"))
		require.Zero(t, f.count("SELECT count(*) FROM toolsets WHERE key = 'mail' AND (auth_data IS NOT NULL OR deleted_at IS NULL)"))
		_, err = f.Holdings(t.Context(), "mail")
		require.Equal(t, errs.ToolsetMissing, errs.CodeOf(err))
		require.Equal(t, errs.ToolsetMissing, errs.CodeOf(f.Delete(t.Context(), "mail")), "deleted twice")
		require.Equal(t, 1, f.count("SELECT count(*) FROM audit_events WHERE action = 'toolset.delete' AND subject = 'mail'"))
		held, err = f.Holdings(t.Context(), "post")
		require.NoError(t, err)
		require.Equal(t, store.Holdings{Installed: 2, Connected: 1}, held)

		require.Equal(t, store.Report{Updated: []string{"mail"}}, f.store(mail()))
		require.Equal(t, secret, f.credential(anna, "mail", "send"))
		require.ElementsMatch(t, []string{"mail", "post", "+post"}, f.keys(anna))
		held, err = f.Holdings(t.Context(), "mail")
		require.NoError(t, err)
		require.Equal(t, store.Holdings{}, held)
	})
}

// What is not there, and what is part of the server, is not deleted.
func TestDeleteRefuses(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		require.Equal(t, errs.ToolsetMissing, errs.CodeOf(f.Delete(t.Context(), "nothing")))
		for _, key := range ptc.Builtins() {
			require.Equal(t, errs.Conflict, errs.CodeOf(f.Delete(t.Context(), key)), key)
		}
		_, err := f.Holdings(t.Context(), "nothing")
		require.Equal(t, errs.ToolsetMissing, errs.CodeOf(err))
		require.Zero(t, f.count("SELECT count(*) FROM audit_events"))
	})
}

// A command with another encryption key than the stored credentials were sealed
// with is refused, whether operators or users gave them.
func TestCheckKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		other := f.service(otherBox(t))
		require.NoError(t, other.CheckKey(t.Context()), "nothing is stored")
		spec := mail()
		spec.Credential = nil
		f.store(spec)
		require.NoError(t, other.CheckKey(t.Context()), "nothing is sealed")
		f.install(anna, "mail")
		require.NoError(t, f.CheckKey(t.Context()))
		require.ErrorIs(t, other.CheckKey(t.Context()), store.ErrOtherKey, "a user's credential")

		post := mail()
		post.Key = "post"
		f.store(mail(), post)
		require.ErrorIs(t, other.CheckKey(t.Context()), store.ErrOtherKey, "the operator's")
		connectortest.Exec(t, f.db, "UPDATE toolset_inventory SET api_key = 'ffff' WHERE key = 'mail'")
		require.NoError(t, f.CheckKey(t.Context()), "one that opens is enough")
		connectortest.Exec(t, f.db, "UPDATE toolset_inventory SET api_key = 'ffff'")
		require.ErrorIs(t, f.CheckKey(t.Context()), store.ErrOtherKey)
	})
}
