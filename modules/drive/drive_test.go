package drive_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/internal/signing"
	"github.com/portico-run/portico/internal/table"
	"github.com/portico-run/portico/modules/drive"
)

var (
	anna = actor.Actor{UID: "u-anna", Scope: actor.Full}
	ben  = actor.Actor{UID: "u-ben", Scope: actor.Full}
)

// canvases are those of the test: the canvas of a user is named like the user.
type canvases struct{}

func (canvases) CanvasOwned(_ context.Context, _ database.Handle, uid, canvasID string) (bool, error) {
	return strings.HasPrefix(canvasID, uid), nil
}

func (canvases) CanvasIdle(context.Context, actor.Actor, string) error { return nil }

func (canvases) DeleteCanvas(context.Context, actor.Actor, string) error { return nil }

// broken is a storage that fails when it is told to.
type broken struct {
	objectstore.Store
	fail bool
	// remove, put, get are called before it deletes, stores or reads.
	remove   func() error
	put, get func()
}

var errBroken = errors.New("the storage is broken")

func (b *broken) Put(ctx context.Context, key string, body io.ReadSeeker, contentType string) error {
	if b.fail {
		return errBroken
	}
	if b.put != nil {
		b.put()
	}
	return b.Store.Put(ctx, key, body, contentType)
}

func (b *broken) Get(ctx context.Context, key string, from int64) (io.ReadCloser, error) {
	if b.get != nil {
		b.get()
	}
	return b.Store.Get(ctx, key, from)
}

func (b *broken) Delete(ctx context.Context, key string) error {
	if b.remove != nil {
		if err := b.remove(); err != nil {
			return err
		}
	}
	return b.Store.Delete(ctx, key)
}

type fixture struct {
	*drive.Service
	objects *broken
	now     time.Time
}

func setup(t *testing.T, db *database.DB) *fixture {
	t.Helper()
	for _, a := range []actor.Actor{anna, ben} {
		require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
			return database.Unscoped(tx.Handle).Exec("INSERT INTO users (uid, name) VALUES (?, ?)", a.UID, a.UID).Error
		}))
	}
	folder, err := objectstore.NewFolder(t.TempDir())
	require.NoError(t, err)
	f := &fixture{objects: &broken{Store: folder}, now: database.Now()}
	m, err := drive.New(drive.Deps{
		DB: db, Objects: f.objects, Canvases: canvases{}, Keys: signing.Keys{[]byte("secret")},
		Settings: drive.Settings{MaxFile: 1000, Quota: 2500, Endpoint: "http://portico", LinkLife: time.Minute},
		Now:      func() time.Time { return f.now },
	})
	require.NoError(t, err)
	f.Service = m.Service
	return f
}

func (f *fixture) save(t *testing.T, a actor.Actor, name, content string, replace bool) drive.File {
	t.Helper()
	file, err := f.Save(t.Context(), a, drive.Content{
		CanvasID: a.UID, Name: name, Body: strings.NewReader(content), Source: drive.Agent, ResultID: "ar-1", Version: 2, Replace: replace,
	})
	require.NoError(t, err)
	return file
}

func (f *fixture) read(t *testing.T, a actor.Actor, id string) string {
	t.Helper()
	_, content, err := f.Read(t.Context(), a, id, 10_000)
	require.NoError(t, err)
	return string(content)
}

func TestFilesAreKept(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		first := f.save(t, anna, "notes.txt", "one", false)
		require.Equal(t, "notes.txt", first.Name)
		require.Equal(t, int64(3), first.Size)
		require.Equal(t, "document", first.Category())
		second := f.save(t, anna, "notes.txt", "two", false)
		require.Equal(t, "notes-2.txt", second.Name, "a name is one file's")
		third := f.save(t, anna, "notes.txt", "replaced", true)
		require.Equal(t, first.FileID, third.FileID)
		require.Equal(t, "replaced", f.read(t, anna, first.FileID))
		require.Equal(t, "two", f.read(t, anna, second.FileID))

		found, err := f.Find(t.Context(), anna, anna.UID, "notes.txt")
		require.NoError(t, err)
		require.Equal(t, third, found)
		found, err = f.Find(t.Context(), anna, anna.UID, second.FileID)
		require.NoError(t, err)
		require.Equal(t, "notes-2.txt", found.Name)
		_, err = f.Find(t.Context(), anna, anna.UID+"-other", second.FileID)
		require.ErrorIs(t, err, drive.ErrMissing)

		page, err := f.List(t.Context(), anna, anna.UID, httpapi.PageQuery{Limit: 1})
		require.NoError(t, err)
		require.Equal(t, "notes-2.txt", page.Items[0].Name)
		page, err = f.List(t.Context(), anna, "", httpapi.PageQuery{Cursor: page.NextCursor, Limit: 5})
		require.NoError(t, err)
		require.Empty(t, page.NextCursor)
		require.Len(t, page.Items, 1)

		require.NoError(t, f.Delete(t.Context(), anna, first.FileID))
		require.ErrorIs(t, f.Delete(t.Context(), anna, first.FileID), drive.ErrMissing)
		require.Equal(t, "notes.txt", f.save(t, anna, "notes.txt", "again", false).Name, "the name is free again")
		_, _, err = f.Read(t.Context(), anna, second.FileID, 2)
		require.ErrorIs(t, err, drive.ErrTooLarge)
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		content := func(n int) drive.Content {
			return drive.Content{CanvasID: anna.UID, Name: "x.bin", Body: bytes.NewReader(make([]byte, n)), Source: drive.Manual}
		}
		_, err := f.Save(t.Context(), anna, content(1001))
		require.ErrorIs(t, err, drive.ErrTooLarge)
		for range 2 {
			_, err = f.Save(t.Context(), anna, content(1000))
			require.NoError(t, err)
		}
		_, err = f.Save(t.Context(), anna, content(501))
		require.ErrorIs(t, err, drive.ErrFull)
		_, err = f.Save(t.Context(), ben, drive.Content{CanvasID: anna.UID, Name: "x", Body: strings.NewReader("x"), Source: drive.Manual})
		require.ErrorIs(t, err, drive.ErrCanvasMissing)

		f.objects.fail = true
		_, err = f.Save(t.Context(), anna, content(400))
		require.ErrorIs(t, err, errBroken)
		f.objects.fail = false
		file, err := f.Save(t.Context(), anna, content(500))
		require.NoError(t, err, "what could not be stored takes no room")
		require.Equal(t, "x-3.bin", file.Name)
		f.objects.fail = true
		_, err = f.Save(t.Context(), anna, drive.Content{CanvasID: anna.UID, Name: "x-3.bin", Body: strings.NewReader("new"), Source: drive.Agent, Replace: true})
		require.ErrorIs(t, err, errBroken)
		same, err := f.Get(t.Context(), anna, file.FileID)
		require.NoError(t, err)
		require.Equal(t, file, same, "a file whose new content could not be stored is as it was")
	})
}

// Uploads that come together share the room and never a name.
func TestUploadsAtOnce(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		var group sync.WaitGroup
		var mu sync.Mutex
		names, refused := map[string]bool{}, 0
		for range 10 {
			group.Go(func() {
				file, err := f.Upload(t.Context(), anna, drive.Content{CanvasID: anna.UID, Name: "a.txt", Body: bytes.NewReader(make([]byte, 400))})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					names[file.Name] = true
				} else if errors.Is(err, drive.ErrFull) {
					refused++
				}
			})
		}
		group.Wait()
		require.Len(t, names, 6, "6 * 400 <= 2500")
		require.Equal(t, 4, refused)
	})
}

func TestTablesBecomeParquet(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		up, err := f.Upload(t.Context(), anna, drive.Content{CanvasID: anna.UID, Name: "Sales 2026.CSV", Body: strings.NewReader("day,amount\n2026-01-01,5\nx\n")})
		require.NoError(t, err)
		require.Equal(t, "Sales 2026.parquet", up.Name)
		require.Equal(t, "application/vnd.apache.parquet", up.Type)
		require.Equal(t, int64(1), up.Table.BadRows)
		require.Equal(t, "Table with day date, amount integer. Rows: 1. Rows of the uploaded file that did not fit and were left out: 1.", up.Summary)
		require.True(t, strings.HasPrefix(f.read(t, anna, up.FileID), "PAR1"))
		_, err = f.Upload(t.Context(), anna, drive.Content{CanvasID: anna.UID, Name: "x.csv", Body: strings.NewReader("")})
		require.ErrorIs(t, err, table.ErrInvalid)
		files, err := f.List(t.Context(), anna, "", httpapi.PageQuery{})
		require.NoError(t, err)
		require.Len(t, files.Items, 1)
	})
}

// A name whose server died while the content was on the way is free again
// after some time, and is never shown.
func TestLostUploads(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		f.objects.fail = true
		ctx, cancel := context.WithCancel(t.Context())
		_, err := f.Save(ctx, anna, drive.Content{CanvasID: anna.UID, Name: "a", Body: cancelling{strings.NewReader("x"), cancel}, Source: drive.Manual})
		require.Error(t, err)
		f.objects.fail = false
		require.Equal(t, "a", f.save(t, anna, "a", "x", false).Name, "it is given up also when the caller has gone")
	})
}

// cancelling ends its request when it is read a second time.
type cancelling struct {
	*strings.Reader
	cancel func()
}

func (c cancelling) Read(p []byte) (int, error) { c.cancel(); return c.Reader.Read(p) }

// A link opens one file until it expires, and nothing else does.
func TestLinks(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		file := f.save(t, anna, "a.txt", "shared content", false)
		l, err := f.Link(t.Context(), anna, file.FileID, 0)
		require.NoError(t, err)
		require.Equal(t, f.now.Add(time.Minute).Truncate(time.Second), l.ExpiresAt)
		token := strings.TrimPrefix(l.URL, "http://portico/v1/drive/file/shared?token=")
		got, content, err := f.Follow(t.Context(), token)
		require.NoError(t, err)
		require.Equal(t, file.FileID, got.FileID)
		_, err = content.Seek(-7, io.SeekEnd)
		require.NoError(t, err)
		text, err := io.ReadAll(content)
		require.NoError(t, err)
		require.Equal(t, "content", string(text))
		_, err = content.Seek(100, io.SeekStart)
		require.NoError(t, err)
		text, err = io.ReadAll(content)
		require.NoError(t, err)
		require.Empty(t, text)
		require.NoError(t, content.Close())
		none := "eyJhbGciOiJub25lIn0." + strings.Split(token, ".")[1] + "."
		for _, bad := range []string{"", "x", token + "x", none, token[:len(token)-4]} {
			_, _, err = f.Follow(t.Context(), bad)
			require.ErrorIs(t, err, drive.ErrLink, bad)
		}
		require.NoError(t, f.Delete(t.Context(), anna, file.FileID))
		_, _, err = f.Follow(t.Context(), token)
		require.ErrorIs(t, err, drive.ErrMissing)
		f.now = f.now.Add(2 * time.Minute)
		_, _, err = f.Follow(t.Context(), token)
		require.ErrorIs(t, err, drive.ErrLink)
	})
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"a.txt": "a.txt", "../../etc/passwd": "..-..-etc-passwd", "a/b.csv": "a-b.csv", `C:\x`: "C--x", "CON.txt": "_CON.txt", "": "file",
		".png": "file.png", " x. ": "x", "a\x00b": "a-b", "Ünïcode.md": "Ünïcode.md", "a\xffb": "a-b", "..": "file", "\u202e": "\u202e",
		strings.Repeat("é", 300) + ".parquet": strings.Repeat("é", 96) + ".parquet",
	} {
		require.Equal(t, want, drive.CleanName(name), "%q", name)
	}
}

func FuzzCleanName(f *testing.F) {
	f.Add("../x")
	f.Fuzz(func(t *testing.T, name string) {
		clean := drive.CleanName(name)
		require.NotEmpty(t, clean)
		require.LessOrEqual(t, len(clean), 200)
		require.NotContains(t, clean, "/")
		require.NotContains(t, []string{".", ".."}, clean)
		require.Equal(t, clean, drive.CleanName(clean))
	})
}

func TestNoMethodReachesAnotherUser(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		databasetest.CheckRow(t, db, &drive.Row{})
		f := setup(t, db)
		file := f.save(t, anna, "hers.txt", "secret", false)
		foreign := drive.Content{CanvasID: anna.UID, Name: "hers.txt", Body: strings.NewReader("x"), Replace: true, Source: drive.Manual}
		tries := map[string]func() error{
			"Upload":       func() error { _, err := f.Upload(t.Context(), ben, foreign); return err },
			"Save":         func() error { _, err := f.Save(t.Context(), ben, foreign); return err },
			"Get":          func() error { _, err := f.Get(t.Context(), ben, file.FileID); return err },
			"Find":         func() error { _, err := f.Find(t.Context(), ben, anna.UID, "hers.txt"); return err },
			"Open":         func() error { _, _, err := f.Open(t.Context(), ben, file.FileID); return err },
			"Read":         func() error { _, _, err := f.Read(t.Context(), ben, file.FileID, 100); return err },
			"Link":         func() error { _, err := f.Link(t.Context(), ben, file.FileID, 0); return err },
			"Delete":       func() error { return f.Delete(t.Context(), ben, file.FileID) },
			"Preview":      func() error { _, _, err := f.Preview(t.Context(), ben, file.FileID); return err },
			"DeleteCanvas": func() error { return f.DeleteCanvas(t.Context(), ben, anna.UID, true) },
			"Usage": func() error {
				used, _, err := f.Usage(t.Context(), ben)
				require.NoError(t, err)
				require.Zero(t, used)
				return drive.ErrMissing
			},
			"List": func() error {
				files, err := f.List(t.Context(), ben, anna.UID, httpapi.PageQuery{PageSize: 10})
				require.NoError(t, err)
				require.Empty(t, files.Items)
				require.Zero(t, *files.Total)
				return drive.ErrMissing
			},
		}
		for m := range reflect.TypeFor[*drive.Service]().Methods() {
			if m.Name == "Follow" || m.Name == "Describe" || m.Name == "Room" {
				continue // a link is for whoever has it; the others read no file
			}
			try, tried := tries[m.Name]
			require.True(t, tried, "%s is not tried as another user", m.Name)
			err := try()
			require.True(t, errors.Is(err, drive.ErrMissing) || errors.Is(err, drive.ErrCanvasMissing), "%s: %v", m.Name, err)
		}
		require.Equal(t, "secret", f.read(t, anna, file.FileID))
	})
}
