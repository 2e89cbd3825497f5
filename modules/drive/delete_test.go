package drive_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/discard"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/drive"
	"github.com/portico-run/portico/modules/run/retention/holdings"
)

// leaving counts the objects of a user that are on their way out.
func leaving(t *testing.T, db *database.DB, uid string) (n int64) {
	t.Helper()
	require.NoError(t, database.Unscoped(db.Read(t.Context())).Table("object_deletions").Where("uid = ?", uid).Count(&n).Error)
	return n
}

// agree takes away what is due, and compares database and storage.
func (f *fixture) agree(t *testing.T, db *database.DB, files int) {
	t.Helper()
	f.objects.remove = nil
	_, err := discard.New(db, f.objects).Run(t.Context(), f.now.Add(time.Hour))
	require.NoError(t, err)
	keys, err := f.objects.List(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, keys, files)
	got, err := holdings.New(holdings.Deps{DB: db, Objects: f.objects}).Verify(t.Context())
	require.NoError(t, err)
	require.Equal(t, holdings.Report{Named: files}, got)
}

// A file that was deleted is read by nobody from that moment, whatever the storage says
// and wherever the process stops, and its content goes. A new file of its name is not
// taken away with it.
func TestWhatIsDeletedGoes(t *testing.T) {
	t.Parallel()
	ends := map[string]func() error{
		"storage refuses": func() error { return errBroken },
		"process stops":   func() error { panic("it stopped") },
	}
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		ctx := t.Context()
		hers, his := f.save(t, anna, "notes.txt", "hers", false), f.save(t, ben, "notes.txt", "his", false)
		for name, end := range ends {
			f.objects.remove = end
			require.ErrorIs(t, f.Delete(ctx, ben, hers.FileID), drive.ErrMissing, name)
			require.Zero(t, leaving(t, db, anna.UID), "another user begins nothing")
			require.Equal(t, "hers", f.read(t, anna, hers.FileID))
			func() {
				defer func() { _ = recover() }() // that is where the process stops
				require.NoError(t, f.Delete(ctx, anna, hers.FileID), name)
			}()
			require.EqualValues(t, 1, leaving(t, db, anna.UID), name)
			_, _, err := f.Open(ctx, anna, hers.FileID)
			require.ErrorIs(t, err, drive.ErrMissing)
			page, err := f.List(ctx, anna, "", httpapi.PageQuery{Limit: 10})
			require.NoError(t, err)
			require.Empty(t, page.Items)
			used, _, err := f.Usage(ctx, anna)
			require.NoError(t, err)
			require.Zero(t, used)
			again := f.save(t, anna, "notes.txt", "again", false)
			require.Equal(t, "notes.txt", again.Name)
			f.agree(t, db, 2)
			require.Equal(t, "again", f.read(t, anna, again.FileID), name)
			require.Equal(t, "his", f.read(t, ben, his.FileID))
			hers = f.save(t, anna, "notes.txt", "hers", true)
		}
		require.NoError(t, f.Delete(ctx, anna, hers.FileID))
		require.Zero(t, leaving(t, db, anna.UID), "it went at once")
		f.agree(t, db, 1)
	})
}

// What cannot be written down is not deleted: the file is as it was.
func TestADeletionIsWholeOrNone(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		file := f.save(t, anna, "notes.txt", "hers", false)
		require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
			return database.Unscoped(tx.Handle).Exec("ALTER TABLE object_deletions RENAME TO hidden").Error
		}))
		require.Error(t, f.Delete(t.Context(), anna, file.FileID))
		require.Equal(t, "hers", f.read(t, anna, file.FileID))
	})
}

// New content for a file that is deleted meanwhile is nobody's, and goes, too.
func TestContentOfADeletedFileGoes(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		file := f.save(t, anna, "notes.txt", "hers", false)
		f.objects.put = func() { require.NoError(t, f.Delete(t.Context(), anna, file.FileID)) }
		_, err := f.Save(t.Context(), anna, drive.Content{CanvasID: anna.UID, Name: "notes.txt", Body: strings.NewReader("new"), Source: drive.Agent, Replace: true})
		require.ErrorIs(t, err, drive.ErrMissing)
		f.objects.put = nil
		f.agree(t, db, 0)
	})
}
