package drive_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/tenant"
	"github.com/portico-run/portico/modules/drive"
)

func (f *fixture) put(ctx context.Context, name, content string, replace bool) (drive.File, error) {
	return f.Save(ctx, anna, drive.Content{CanvasID: anna.UID, Name: name, Body: strings.NewReader(content), Source: drive.Agent, Replace: replace})
}

// What is stored is recorded, also when the caller leaves before it is.
func TestCallersLeaveWhileContentIsStored(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		for i, content := range []string{"first", "a longer one"} {
			ctx, leave := context.WithCancel(t.Context())
			f.objects.put = leave
			saved, err := f.put(ctx, "a.txt", content, i > 0)
			require.NoError(t, err)
			require.Equal(t, content, f.read(t, anna, saved.FileID))
			got, err := f.Get(t.Context(), anna, saved.FileID)
			require.NoError(t, err)
			require.EqualValues(t, len(content), got.Size)
		}
		f.agree(t, db, 1)
	})
}

// Nothing is stored any more for a user who is disabled, as one is who is being erased:
// neither what begins then, nor what had begun before.
func TestNothingIsStoredForUsersWhoAreDisabled(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		f.save(t, anna, "old.txt", "old", false)
		disabled := func(at any) {
			require.NoError(t, db.InTx(context.Background(), func(tx database.Tx) error {
				return database.Unscoped(tx.Handle).Exec("UPDATE users SET disabled_at = ? WHERE uid = ?", at, anna.UID).Error
			}))
		}
		f.objects.put = func() { disabled(f.now) }
		for _, name := range []string{"new.txt", "old.txt"} {
			_, err := f.put(t.Context(), name, "late", true)
			require.ErrorIs(t, err, tenant.ErrDisabled, name)
		}
		f.objects.put = nil
		require.ErrorIs(t, db.InTx(t.Context(), func(tx database.Tx) error { return f.Room(tx, anna.UID, 0) }), tenant.ErrDisabled)
		disabled(nil)
		f.now = f.now.Add(2 * time.Hour)
		f.save(t, anna, "next.txt", "x", false)
		f.agree(t, db, 2)
	})
}

// Content that could not be recorded is nobody's: a file that was to be replaced is as
// it was, and the content goes once its reservation has expired.
func TestContentThatCouldNotBeRecordedGoes(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		rename := func(from, to string) {
			require.NoError(t, db.InTx(context.Background(), func(tx database.Tx) error {
				return database.Unscoped(tx.Handle).Exec(fmt.Sprintf("ALTER TABLE %s RENAME TO %s", from, to)).Error
			}))
		}
		old := f.save(t, anna, "old.txt", "old", false)
		for _, name := range []string{"new.txt", "old.txt"} {
			f.objects.put = func() { rename("drive_files", "hidden") }
			_, err := f.put(t.Context(), name, "unrecorded", true)
			require.Error(t, err)
			rename("hidden", "drive_files")
		}
		f.objects.put = nil
		require.Equal(t, "old", f.read(t, anna, old.FileID))
		f.now = f.now.Add(2 * time.Hour)
		f.save(t, anna, "new.txt", "recorded", false)
		f.agree(t, db, 2)
	})
}

// Who takes longer than a reservation lives stores nothing.
func TestContentOfAnExpiredReservationGoes(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		f.save(t, anna, "old.txt", "old", false)
		for _, name := range []string{"new.txt", "old.txt"} {
			f.objects.put = func() {
				f.objects.put = nil
				f.now = f.now.Add(2 * time.Hour)
				f.save(t, anna, "meanwhile.txt", "x", true)
				f.agree(t, db, 2)
			}
			_, err := f.put(t.Context(), name, "late", true)
			require.ErrorIs(t, err, drive.ErrMissing)
			f.agree(t, db, 2)
		}
	})
}

// A file that is replaced while it is opened has its new content.
func TestAFileIsOpenedWhileItIsReplaced(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		file := f.save(t, anna, "a.txt", "old", false)
		f.objects.get = func() {
			f.objects.get = nil
			f.save(t, anna, "a.txt", "the new one", true)
		}
		got, content, err := f.Read(t.Context(), anna, file.FileID, 100)
		require.NoError(t, err)
		require.Equal(t, "the new one", string(content))
		require.EqualValues(t, len(content), got.Size)
	})
}

// Replacements that come together share the room, and one that fails gives back what it
// took.
func TestReplacementsAtOnceShareTheRoom(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		names := []string{"a.txt", "b.txt", "c.txt"}
		for _, name := range names {
			f.save(t, anna, name, "x", false)
		}
		var group, storing sync.WaitGroup
		waiting, goOn := make(chan struct{}, 2), make(chan struct{})
		f.objects.put = func() {
			select {
			case waiting <- struct{}{}:
				storing.Done()
				<-goOn
			default:
			}
		}
		storing.Add(2)
		for _, name := range names[:2] {
			group.Go(func() {
				if _, err := f.put(t.Context(), name, strings.Repeat("x", 1000), true); err != nil {
					t.Error(err)
				}
			})
		}
		storing.Wait()
		_, err := f.put(t.Context(), names[2], strings.Repeat("x", 1000), true)
		close(goOn)
		group.Wait()
		require.ErrorIs(t, err, drive.ErrFull)
		f.objects.put, f.objects.fail = nil, true
		_, err = f.put(t.Context(), names[2], strings.Repeat("x", 500), true)
		require.ErrorIs(t, err, errBroken)
		f.objects.fail = false
		f.save(t, anna, names[2], strings.Repeat("x", 500), true)
		used, quota, err := f.Usage(t.Context(), anna)
		require.NoError(t, err)
		require.Equal(t, quota, used)
		files, err := f.List(t.Context(), anna, "", httpapi.PageQuery{})
		require.NoError(t, err)
		require.Len(t, files.Items, len(names))
		f.agree(t, db, len(names))
	})
}

// A file that has become smaller meanwhile leaves less room for its new content.
func TestReplacementsCountWhatTheyReplace(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		for _, name := range []string{"a.txt", "b.txt"} {
			f.save(t, anna, name, strings.Repeat("x", 1000), false)
		}
		f.objects.put = func() {
			f.objects.put = nil
			f.save(t, anna, "a.txt", "x", true)
			f.save(t, anna, "c.txt", strings.Repeat("x", 1000), false)
		}
		_, err := f.put(t.Context(), "a.txt", strings.Repeat("x", 1000), true)
		require.ErrorIs(t, err, drive.ErrFull)
		f.agree(t, db, 3)
	})
}

// The first content of a name is where the document says, and nothing is stored there
// again while what was there may be taken away.
func TestTheFirstContentOfANameHasItsKey(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		key := "drive/" + anna.UID + "/" + anna.UID + "/a.txt"
		keys := func() []string {
			list, err := f.objects.List(t.Context(), "")
			require.NoError(t, err)
			return list
		}
		save := func(content string) drive.File {
			file, err := f.put(t.Context(), "a.txt", content, true)
			require.NoError(t, err)
			return file
		}
		save("first")
		require.Equal(t, []string{key}, keys())
		f.objects.remove = func() error { return errBroken }
		replaced := save("second")
		require.Len(t, keys(), 2, "the first one is still to go")
		require.NoError(t, f.Delete(t.Context(), anna, replaced.FileID))
		third := save("third")
		f.agree(t, db, 1)
		require.NotEqual(t, []string{key}, keys())
		require.Equal(t, "third", f.read(t, anna, third.FileID))
	})
}
