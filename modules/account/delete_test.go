package account_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/signing"
	"github.com/portico-run/portico/modules/account"
)

// Every table with rows of users is known, so that none is forgotten when a
// user is deleted. Who did what stays in the audit log.
func TestBelongingsAreThoseOfTheSchema(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		query := "SELECT table_name FROM information_schema.columns WHERE table_schema = 'public' AND column_name = 'uid'"
		if db.Dialect() == database.SQLite {
			query = "SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND c.name = 'uid'"
		}
		var tables []string
		require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw(query).Scan(&tables).Error)
		require.ElementsMatch(t, tables, append(account.Belongings(), "users", "audit_events"))
	})
}

// A user goes with keys and settings, and stays with records.
func TestDeleteUser(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx := t.Context()
		s := account.New(account.Deps{DB: db, TokenKeys: signing.Keys{secret}, TokenLife: time.Hour}).Service
		anna, err := s.CreateUser(ctx, "anna", "")
		require.NoError(t, err)
		require.ErrorIs(t, s.DeleteUser(ctx, anna), account.ErrLastUser)
		ben, err := s.CreateUser(ctx, "ben", "")
		require.NoError(t, err)
		insert := func(sql string, args ...any) {
			t.Helper()
			require.NoError(t, db.InTx(ctx, func(tx database.Tx) error { return database.Unscoped(tx.Handle).Exec(sql, args...).Error }))
		}
		for _, uid := range []string{anna.UID, ben.UID} {
			insert("INSERT INTO canvases (canvas_id, uid) VALUES (?, ?)", "c-"+uid, uid)
			insert("INSERT INTO user_api_keys (key_id, key_hash, key_prefix, uid, name) VALUES (?, ?, 'rf_', ?, 'k')", "ak-"+uid, "hash-"+uid, uid)
			insert("INSERT INTO drive_files (file_id, uid, canvas_id, name, type, category, deleted_at) VALUES (?, ?, 'c', 'n', 't', 'c', ?)", "df-"+uid, uid, database.Now())
		}
		held, err := s.Holdings(ctx, anna.UID)
		require.NoError(t, err)
		require.Equal(t, []account.Holding{{What: "canvases", Count: 1}, {What: "keys", Count: 1}}, held, "a deleted file is none")

		insert("INSERT INTO action_results (result_id, uid) VALUES ('ar-1', ?)", anna.UID)
		err = s.DeleteUser(ctx, anna)
		require.Equal(t, errs.Conflict, errs.CodeOf(err))
		require.ErrorContains(t, err, "User anna cannot be deleted, because this is kept: runs: 1.")
		keys, err := s.KeysOf(ctx, anna.UID)
		require.NoError(t, err)
		require.Len(t, keys, 1, "nothing is deleted where something stays")

		insert("DELETE FROM action_results")
		require.NoError(t, s.DeleteUser(ctx, anna))
		require.ErrorIs(t, s.DeleteUser(ctx, anna), account.ErrUserMissing)
		held, err = s.Holdings(ctx, anna.UID)
		require.NoError(t, err)
		require.Empty(t, held)
		keys, err = s.KeysOf(ctx, "")
		require.NoError(t, err)
		require.Len(t, keys, 1, "the keys of others stay")
		require.Equal(t, ben.UID, keys[0].UID)
	})
}

// A record that is being added while a user is deleted keeps the user. SQLite has
// one writer at a time.
func TestDeleteUserSeesWhatIsBeingAdded(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres, nil)
	ctx := t.Context()
	s := account.New(account.Deps{DB: db, TokenKeys: signing.Keys{secret}, TokenLife: time.Hour}).Service
	anna, err := s.CreateUser(ctx, "anna", "")
	require.NoError(t, err)
	_, err = s.CreateUser(ctx, "ben", "")
	require.NoError(t, err)
	deleted := make(chan error, 1)
	require.NoError(t, db.InTx(ctx, func(tx database.Tx) error {
		if err := database.Unscoped(tx.Handle).Exec("INSERT INTO action_results (result_id, uid) VALUES ('ar-1', ?)", anna.UID).Error; err != nil {
			return err
		}
		go func() { deleted <- s.DeleteUser(ctx, anna) }()
		require.Eventually(t, func() bool {
			var waiting int
			err := database.Unscoped(db.Read(ctx)).Raw("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&waiting).Error
			return err == nil && waiting > 0
		}, time.Minute, time.Millisecond)
		return nil
	}))
	require.Equal(t, errs.Conflict, errs.CodeOf(<-deleted))
	users, err := s.Users(ctx)
	require.NoError(t, err)
	require.Len(t, users, 2)
}
