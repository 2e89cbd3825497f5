package discard_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/discard"
	"github.com/portico-run/portico/internal/objectstore"
)

// locked never deletes one object.
type locked struct {
	objectstore.Store

	key string
}

var errLocked = errors.New("it is locked")

func (l *locked) Delete(ctx context.Context, key string) error {
	if key == l.key {
		return errLocked
	}
	return l.Store.Delete(ctx, key)
}

// An object that the storage keeps is tried again later, and keeps none of the others.
func TestWhatCannotGoKeepsNothingElse(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		folder, err := objectstore.NewFolder(t.TempDir())
		require.NoError(t, err)
		store, now, ctx := &locked{folder, "a"}, db.Now(), t.Context()
		for _, key := range []string{"a", "b", "c"} {
			require.NoError(t, store.Put(ctx, key, strings.NewReader("x"), ""))
		}
		require.NoError(t, db.InTx(ctx, func(tx database.Tx) error { return discard.Later(tx, "u", now, "a", "b", "c") }))
		s := discard.New(db, store)
		_, err = s.Run(ctx, now)
		require.ErrorIs(t, err, errLocked)
		left := func() []string {
			keys, err := store.List(ctx, "")
			require.NoError(t, err)
			return keys
		}
		require.Equal(t, []string{"a"}, left())
		n, err := s.Run(ctx, now)
		require.NoError(t, err)
		require.Zero(t, n, "it is not due yet")
		store.key = ""
		n, err = s.Run(ctx, now.Add(time.Hour))
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Empty(t, left())
	})
}
