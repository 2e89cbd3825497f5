package app_test

import (
	"context"
	"io"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/app/apptest"
)

// between is a storage in which something happens once, after an object was written.
type between struct {
	objectstore.Store

	then func()
}

func (b *between) Put(ctx context.Context, key string, body io.ReadSeeker, contentType string) error {
	err := b.Store.Put(ctx, key, body, contentType)
	if then := b.then; then != nil {
		b.then = nil
		then()
	}
	return err
}

// Two that look at one storage at the same time both find it in order, and leave nothing.
func TestDoctorsDoNotDisturbEachOther(t *testing.T) {
	t.Parallel()
	env := environ(t, databasetest.URL(t, database.SQLite))
	c, err := configs.Load(configs.Options{Environ: env})
	require.NoError(t, err)
	a, err := app.Open(t.Context(), app.Options{Config: c, Environ: apptest.Values(env), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	storage := &between{Store: a.Objects}
	a.Objects = storage
	var other app.Check
	storage.then = func() { other = a.CheckObjects(t.Context()) }
	mine := a.CheckObjects(t.Context())
	require.True(t, mine.OK, mine.Text)
	require.True(t, other.OK, other.Text)
	left, err := storage.List(t.Context(), "doctor/")
	require.NoError(t, err)
	require.Empty(t, left)
}
