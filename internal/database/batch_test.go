package database_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
)

// queueUser and renameUser say what must change exactly one row.
func queueUser(b *database.Batch, uid string) {
	const insert = `INSERT INTO users (uid, name) VALUES ($1, $1)`
	if b.Dialect() == database.SQLite {
		b.One(insert, uid)
		return
	}
	b.One(`WITH one AS (`+insert+` RETURNING 1)`, uid)
}

func renameUser(b *database.Batch, uid string) {
	const update = `UPDATE users SET name = name || '!' WHERE uid = $1`
	if b.Dialect() == database.SQLite {
		b.One(update, uid)
		return
	}
	b.One(`WITH one AS (`+update+` RETURNING 1)`, uid)
}

func eachDialect(t *testing.T, test func(t *testing.T, d database.Dialect)) {
	t.Helper()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			test(t, d)
		})
	}
}

// userAtOnce adds a user and renames another one, whichever way, and says which.
func userAtOnce(ctx context.Context, db *database.DB, who, uid, other string) (ways []bool, err error) {
	err = db.AtOnce(ctx, who, func(tx database.Tx) error {
		b := tx.Batch()
		ways = append(ways, b != nil)
		if b == nil {
			if err := addUser(tx, uid, database.Now()); err != nil {
				return err
			}
			return tx.Notify(uid)
		}
		queueUser(b, uid)
		renameUser(b, other)
		return tx.Notify(uid)
	})
	return ways, err
}

func TestTransactionsSentAsAWholeAreAllOrNothing(t *testing.T) {
	t.Parallel()
	eachDialect(t, func(t *testing.T, d database.Dialect) {
		var heard []string
		db := databasetest.Open(t, d, func(topic string) { heard = append(heard, topic) })
		require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error { return addUser(tx, "u-0", database.Now()) }))

		ways, err := userAtOnce(t.Context(), db, "a", "u-1", "u-0")
		require.NoError(t, err)
		require.Equal(t, []bool{true}, ways, "sent as a whole")
		require.EqualValues(t, 2, countUsers(t, db))
		require.Equal(t, []string{"u-1"}, heard)

		// A row that is not there: what was queued before it must not stay.
		ways, err = userAtOnce(t.Context(), db, "b", "u-2", "u-nobody")
		require.NoError(t, err)
		require.Equal(t, []bool{true, false}, ways, "one statement after the other")
		require.EqualValues(t, 3, countUsers(t, db))
		require.Equal(t, []string{"u-1", "u-2"}, heard, "told once")

		// It is not tried again at once.
		ways, err = userAtOnce(t.Context(), db, "b", "u-3", "u-0")
		require.NoError(t, err)
		require.Equal(t, []bool{false}, ways)
		ways, err = userAtOnce(t.Context(), db, "c", "u-4", "u-0")
		require.NoError(t, err)
		require.Equal(t, []bool{true}, ways, "another one is")

		// What the database refuses is reported as it is elsewhere.
		_, err = userAtOnce(t.Context(), db, "d", "u-4", "u-0")
		require.True(t, database.IsDuplicate(err), "%v", err)
		require.EqualValues(t, 5, countUsers(t, db))
		require.Len(t, heard, 4)
	})
}

func TestTransactionsSentAsAWholeCannotRead(t *testing.T) {
	t.Parallel()
	eachDialect(t, func(t *testing.T, d database.Dialect) {
		db := databasetest.Open(t, d, nil)
		queries := map[string]func(h database.Handle) error{
			"take":   func(h database.Handle) error { return database.Scoped(h, "u").Take(&userRow{}).Error },
			"find":   func(h database.Handle) error { return database.Unscoped(h).Find(&[]userRow{}).Error },
			"count":  func(h database.Handle) error { return database.Unscoped(h).Table("users").Count(new(int64)).Error },
			"raw":    func(h database.Handle) error { return database.Unscoped(h).Raw("SELECT 1").Scan(new(int)).Error },
			"exec":   func(h database.Handle) error { return database.Unscoped(h).Exec("SELECT 1").Error },
			"create": func(h database.Handle) error { return database.Unscoped(h).Create(&userRow{UID: "x", Name: "x"}).Error },
			"update": func(h database.Handle) error {
				return database.MustAffect(database.Scoped(h, "u-0").Model(&userRow{}).Update("name", "y"), errors.New("absent"))
			},
			"lock": func(h database.Handle) error { return database.Lock(database.Scoped(h, "u-0")).Take(&userRow{}).Error },
		}
		require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error { return addUser(tx, "u-0", database.Now()) }))
		for name, query := range queries {
			var ways []bool
			boom := errors.New("boom")
			err := db.AtOnce(t.Context(), name, func(tx database.Tx) error {
				ways = append(ways, tx.Batch() != nil)
				if err := query(tx.Handle); tx.Batch() != nil {
					require.Error(t, err, "%s is answered", name)
					return err
				}
				return boom
			})
			require.ErrorIs(t, err, boom, name)
			require.Equal(t, []bool{true, false}, ways, name)
		}
		require.EqualValues(t, 1, countUsers(t, db))
	})
}

func TestTransactionsSentAsAWholeEndWithTheirContext(t *testing.T) {
	t.Parallel()
	eachDialect(t, func(t *testing.T, d database.Dialect) {
		db := databasetest.Open(t, d, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		ways, err := userAtOnce(ctx, db, "a", "u-1", "u-0")
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, []bool{true}, ways, "it is not tried again")
		require.Zero(t, countUsers(t, db))
	})
}

func TestNothingIsSentAsAWholeWhereItIsForbidden(t *testing.T) {
	t.Parallel()
	eachDialect(t, func(t *testing.T, d database.Dialect) {
		db, err := database.Open(t.Context(), database.Config{URL: databasetest.URL(t, d), MaxConnections: 2, OneByOne: true})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		ways, err := userAtOnce(t.Context(), db, "a", "u-1", "")
		require.NoError(t, err)
		require.Equal(t, []bool{false}, ways)
	})
}

func TestNothingIsSentAsAWholeToAClosedDatabase(t *testing.T) {
	t.Parallel()
	address := databasetest.URL(t, database.SQLite)
	db := databasetest.OpenURL(t, address, nil)
	require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error { return addUser(tx, "u-0", database.Now()) }))
	ways, err := userAtOnce(t.Context(), db, "a", "u-1", "u-0")
	require.NoError(t, err)
	require.Equal(t, []bool{true}, ways)
	require.NoError(t, db.Close())
	ways, err = userAtOnce(t.Context(), db, "a", "u-2", "u-0")
	require.Error(t, err)
	require.Equal(t, []bool{true}, ways, "it is not tried again")
	again := databasetest.OpenURL(t, address, nil)
	require.EqualValues(t, 2, countUsers(t, again))
}

// What one connection writes as a whole the other one, which writes one by one, finds,
// and the other way round.
func TestBothWaysOfWritingTakeTurns(t *testing.T) {
	t.Parallel()
	eachDialect(t, func(t *testing.T, d database.Dialect) {
		db := databasetest.Open(t, d, nil)
		require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error { return addUser(tx, "u-0", database.Now()) }))
		var all sync.WaitGroup
		for w := range 8 {
			all.Go(func() {
				for i := range 20 {
					uid := fmt.Sprint("u-", w, "-", i)
					var err error
					if w%2 == 0 {
						_, err = userAtOnce(t.Context(), db, fmt.Sprint(w), uid, "u-0")
					} else {
						err = db.InTx(t.Context(), func(tx database.Tx) error {
							if err := database.Scoped(tx.Handle, "u-0").Table("users").Update("name", gorm.Expr("name || '!'")).Error; err != nil {
								return err
							}
							return addUser(tx, uid, database.Now())
						})
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 161, countUsers(t, db))
		var name string
		require.NoError(t, database.Scoped(db.Read(t.Context()), "u-0").Table("users").Select("name").Scan(&name).Error)
		require.Equal(t, 160, strings.Count(name, "!"), "no change is lost")
	})
}
