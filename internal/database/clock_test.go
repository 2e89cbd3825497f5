package database_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
)

// Processes whose machines disagree about the time agree on that of PostgreSQL. SQLite
// has one machine, and its clock.
func TestProcessesAgreeOnTheTime(t *testing.T) {
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			address := databasetest.URL(t, d)
			right := databasetest.OpenURL(t, address, nil)
			const ahead = time.Hour
			wrong, err := database.Open(t.Context(), database.Config{
				URL: address, MaxConnections: 1, Wall: func() time.Time { return time.Now().Add(ahead) },
			})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, wrong.Close()) })
			apart := time.Duration(0)
			if d == database.SQLite {
				apart = ahead
			}
			for range 2 {
				require.WithinDuration(t, right.Now().Add(apart), wrong.Now(), time.Minute)
				require.NoError(t, wrong.Synchronize(t.Context()))
			}
			now := wrong.Now()
			require.Equal(t, time.UTC, now.Location())
			require.Equal(t, now, now.Truncate(time.Microsecond))
		})
	}
}

// A clock that cannot be read stays what it was.
func TestAClockThatCannotBeReadGoesOn(t *testing.T) {
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		if d != database.Postgres {
			continue
		}
		db := databasetest.Open(t, d, nil)
		before := db.Now()
		require.NoError(t, db.Close())
		require.ErrorContains(t, db.Synchronize(t.Context()), "the database's clock")
		require.WithinDuration(t, before, db.Now(), time.Minute)
	}
}
