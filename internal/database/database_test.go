package database_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
)

type userRow struct {
	PK        int64
	UID       string
	Name      string
	CreatedAt time.Time
}

func (userRow) TableName() string { return "users" }

func addUser(tx database.Tx, uid string, at time.Time) error {
	return database.Unscoped(tx.Handle).Exec(
		"INSERT INTO users (uid, name, created_at) VALUES (?, ?, ?)", uid, uid, at).Error
}

func countUsers(t *testing.T, db *database.DB) int64 {
	t.Helper()
	var n int64
	if err := database.Unscoped(db.Read(t.Context())).Table("users").Count(&n).Error; err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTransactionIsAllOrNothing(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		boom := errors.New("boom")
		err := db.InTx(t.Context(), func(tx database.Tx) error {
			if err := addUser(tx, "u-1", database.Now()); err != nil {
				return err
			}
			return boom
		})
		if !errors.Is(err, boom) || countUsers(t, db) != 0 {
			t.Fatalf("err = %v, users = %d, want boom and none", err, countUsers(t, db))
		}
		if err := db.InTx(t.Context(), func(tx database.Tx) error { return addUser(tx, "u-1", database.Now()) }); err != nil {
			t.Fatal(err)
		}
		if countUsers(t, db) != 1 {
			t.Fatal("a committed row is not there")
		}
	})
}

func TestNotifyComesAfterTheCommitAndOnlyThen(t *testing.T) {
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			var heard []string
			db := databasetest.Open(t, d, func(topic string) { heard = append(heard, topic) })
			_ = db.InTx(t.Context(), func(tx database.Tx) error {
				if err := tx.Notify("lost"); err != nil {
					t.Fatal(err)
				}
				return errors.New("boom")
			})
			err := db.InTx(t.Context(), func(tx database.Tx) error {
				err := tx.Notify("kept")
				if len(heard) > 0 {
					t.Errorf("heard %v before the commit", heard)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"kept"}, heard); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTimesRoundTripInOrder(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		base := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		times := []time.Time{base, base.Add(100 * time.Millisecond), base.Add(120 * time.Millisecond), base.Add(time.Second)}
		err := db.InTx(t.Context(), func(tx database.Tx) error {
			for i, at := range times {
				if err := addUser(tx, string(rune('a'+i)), at); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var rows []userRow
		if err := database.Unscoped(db.Read(t.Context())).Order("created_at").Find(&rows).Error; err != nil {
			t.Fatal(err)
		}
		for i, r := range rows {
			if !r.CreatedAt.Equal(times[i]) {
				t.Errorf("row %d: %v, want %v", i, r.CreatedAt, times[i])
			}
		}
		var later int64
		if err := database.Unscoped(db.Read(t.Context())).Table("users").Where("created_at > ?", times[1]).Count(&later).Error; err != nil {
			t.Fatal(err)
		}
		if later != 2 {
			t.Errorf("%d rows are later than the second, want 2", later)
		}
	})
}

func TestDuplicatesAreRecognised(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		add := func() error {
			return db.InTx(t.Context(), func(tx database.Tx) error { return addUser(tx, "u-1", database.Now()) })
		}
		if err := add(); err != nil {
			t.Fatal(err)
		}
		err := add()
		if !database.IsDuplicate(err) {
			t.Errorf("%v is not recognised as a duplicate", err)
		}
	})
}

func TestTwoProcessesMigrateAtOnce(t *testing.T) {
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			address := databasetest.EmptyURL(t, d)
			var wg sync.WaitGroup
			for range 4 {
				db := databasetest.OpenURL(t, address, nil)
				wg.Go(func() {
					if _, err := db.Migrate(context.WithoutCancel(t.Context())); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		})
	}
}

func TestMigrationsGoUpDownAndUpAgain(t *testing.T) {
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			db := databasetest.OpenURL(t, databasetest.EmptyURL(t, d), nil)
			up, err := db.Migrate(t.Context())
			if err != nil || up == 0 {
				t.Fatalf("up: %d, %v", up, err)
			}
			one, err := db.MigrateDown(t.Context(), false)
			if err != nil || one != 1 {
				t.Fatalf("down: %d, %v", one, err)
			}
			steps, err := db.Steps(t.Context())
			if err != nil || len(steps) != up || steps[up-1].Applied || !steps[0].Applied {
				t.Fatalf("status after one step back: %+v, %v", steps, err)
			}
			rest, err := db.MigrateDown(t.Context(), true)
			if err != nil || rest != up-1 {
				t.Fatalf("down all: %d, %v", rest, err)
			}
			if again, err := db.Migrate(t.Context()); err != nil || again != up {
				t.Fatalf("up again: %d, %v", again, err)
			}
		})
	}
}

// A database is ready when it has every migration of the program, and more of a newer
// one; asking changes nothing.
func TestReady(t *testing.T) {
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			db := databasetest.OpenURL(t, databasetest.EmptyURL(t, d), nil)
			behind := func(of string) {
				t.Helper()
				if err := db.Ready(t.Context()); !errors.Is(err, database.ErrBehind) || !strings.Contains(err.Error(), of) {
					t.Errorf("%v, want that %s is missing", err, of)
				}
			}
			exec := func(statement string) {
				t.Helper()
				if err := db.InTx(t.Context(), func(tx database.Tx) error { return database.Unscoped(tx.Handle).Exec(statement).Error }); err != nil {
					t.Fatal(err)
				}
			}
			behind("0001_accounts")
			if has := database.Unscoped(db.Read(t.Context())).Migrator().HasTable("goose_db_version"); has {
				t.Error("asking made a table")
			}
			n, err := db.Migrate(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Ready(t.Context()); err != nil {
				t.Errorf("after %d migrations: %v", n, err)
			}
			exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)")
			if err := db.Ready(t.Context()); err != nil {
				t.Errorf("a newer one: %v", err)
			}
			exec(fmt.Sprintf("DELETE FROM goose_db_version WHERE version_id = %d", n))
			behind(fmt.Sprintf("00%d_", n))
		})
	}
}
