package session_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/modules/codeapi/codeapitest"
	"github.com/portico-run/portico/modules/codeapi/session"
	"github.com/portico-run/portico/modules/sandbox"
)

var anna = codeapitest.Anna()

func TestRowsFitTheSchema(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		for _, row := range session.Rows() {
			databasetest.CheckRow(t, db, row)
		}
	})
}

func each(t *testing.T, test func(t *testing.T, f *codeapitest.Fixture)) {
	t.Helper()
	databasetest.Each(t, func(t *testing.T, db *database.DB) { test(t, codeapitest.New(t, db, codeapitest.Options{})) })
}

// store uploads files and returns them with their session.
func store(t *testing.T, s *session.Service, a actor.Actor, owner session.FileOwner, uploads ...session.Upload) (string, []session.File) {
	t.Helper()
	in, files, problems, err := s.Upload(t.Context(), a, owner, uploads)
	require.NoError(t, err)
	for _, problem := range problems {
		require.NoError(t, problem)
	}
	return in, files
}

func ref(f session.File, name string) session.FileRef {
	return session.FileRef{ID: f.ID, SessionID: f.SessionID, Name: name}
}

func names(files []session.File) []string {
	list := make([]string, len(files))
	for i, f := range files {
		list[i] = f.Name
	}
	return list
}

func TestFilesOfSessions(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *codeapitest.Fixture) {
		ctx, s := t.Context(), f.Sessions
		in, files := store(t, s, anna, session.FileOwner{Kind: session.KindSkill, Version: "3"}, codeapitest.Upload(`C:\a\data.csv`, "a,b\n"), codeapitest.Upload("b.bin", ""))
		list, err := s.Files(ctx, anna, in)
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"C:/a/data.csv", "b.bin"}, names(list))
		got, content, err := s.Open(ctx, anna, in, files[0].ID)
		require.NoError(t, err)
		text, err := io.ReadAll(content)
		require.NoError(t, err)
		require.NoError(t, content.Close())
		require.Equal(t, "a,b\n", string(text))
		require.Equal(t, session.FileOwner{Kind: "skill", Version: "3"}, got.Owner)
		require.Equal(t, "text/csv; charset=utf-8", got.ContentType)
		require.NoError(t, s.Delete(ctx, anna, in, files[0].ID))
		require.ErrorIs(t, s.Delete(ctx, anna, in, files[0].ID), session.ErrFileMissing)
		for _, id := range []string{"", "short", strings.Repeat("ä", 21)} {
			_, err = s.File(ctx, anna, in, id)
			require.ErrorIs(t, err, session.ErrBadID)
			_, err = s.Files(ctx, anna, id)
			require.ErrorIs(t, err, session.ErrBadID)
		}
	})
}

// What a program finds are the files of its session, the newest of a name, and
// those that its request names, which belong to the session from then on.
func TestWorkspaces(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *codeapitest.Fixture) {
		ctx, s := t.Context(), f.Sessions
		_, files := store(t, s, anna, session.FileOwner{}, codeapitest.Upload("in.txt", "content"))
		w, err := s.Workspace(ctx, anna, "", []session.FileRef{ref(files[0], "given/x.txt"), ref(files[0], "")})
		require.NoError(t, err)
		require.Len(t, w.Inputs, 2)
		require.Equal(t, "given/x.txt", w.Inputs[0].Path)
		require.Equal(t, "in.txt", w.Inputs[1].Path)
		content, size, err := w.Inputs[0].Reader(ctx)
		require.NoError(t, err)
		text, err := io.ReadAll(content)
		require.NoError(t, err)
		require.NoError(t, content.Close())
		require.Equal(t, "content", string(text))
		require.EqualValues(t, 7, size)

		again, err := s.Workspace(ctx, anna, w.Session, nil)
		require.NoError(t, err)
		require.Equal(t, w.Session, again.Session)
		require.Len(t, again.Inputs, 2)
		inherited, err := s.File(ctx, anna, w.Session, files[0].ID)
		require.NoError(t, err)
		require.Equal(t, w.Session, inherited.SessionID)
		require.NoError(t, s.Delete(ctx, anna, w.Session, files[0].ID), "under both names; it stays where it is")
		require.ErrorIs(t, s.Delete(ctx, anna, w.Session, files[0].ID), session.ErrFileMissing)
		_, err = s.File(ctx, anna, files[0].SessionID, files[0].ID)
		require.NoError(t, err)

		_, err = s.Workspace(ctx, anna, "", []session.FileRef{{ID: strings.Repeat("a", 21), SessionID: w.Session, Name: "gone"}, {ID: "x"}})
		require.ErrorIs(t, err, session.ErrFileReference)
		many := make([]session.FileRef, 11)
		_, err = s.Workspace(ctx, anna, "", many)
		require.Equal(t, errs.Invalid, errs.CodeOf(err))
		_, large := store(t, s, anna, session.FileOwner{}, codeapitest.Upload("large", strings.Repeat("x", 1000)))
		for i := range many[:5] {
			many[i] = ref(large[0], "")
		}
		_, err = s.Workspace(ctx, anna, "", many[:5])
		require.Equal(t, errs.TooLarge, errs.CodeOf(err), "a file that is named twice counts twice")
	})
}

// What a program leaves is told apart: what it did not change, what it changed,
// what it made, what it removed, and what cannot be kept.
func TestWhatAProgramLeaves(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *codeapitest.Fixture) {
		ctx, s := t.Context(), f.Sessions
		fixed := codeapitest.Upload("fixed", "fixed")
		fixed.ReadOnly = true
		_, files := store(t, s, anna, session.FileOwner{Kind: "user"}, codeapitest.Upload("same", "same"), codeapitest.Upload("changed", "before"), codeapitest.Upload("removed", ""), fixed)
		refs := make([]session.FileRef, len(files))
		for i, file := range files {
			refs[i] = ref(file, "")
		}
		w, err := s.Workspace(ctx, anna, "", refs)
		require.NoError(t, err)
		same, err := w.Collect().Same("same", 4, strings.NewReader("same"))
		require.NoError(t, err)
		require.True(t, same)
		same, err = w.Collect().Same("changed", 6, strings.NewReader("after!"))
		require.NoError(t, err)
		require.False(t, same)
		left := sandbox.Result{Outputs: []sandbox.File{
			{Path: "same", Unchanged: true},
			{Path: "changed", Content: []byte("after!")},
			{Path: "made", Content: []byte("made")},
			{Path: "fixed", Content: []byte("other")},
			{Path: "large", Content: make([]byte, 1025)},
			{Path: strings.Repeat("d/", 10) + "deep"},
		}}
		p := w.Keep(ctx, left)
		require.NoError(t, p.Refused)
		require.Equal(t, []string{"removed"}, p.Deleted)
		require.Equal(t, 2, p.Dropped)
		got := map[string]session.ProducedFile{}
		for _, file := range p.Files {
			got[file.Name] = file
		}
		require.Len(t, got, 4)
		require.True(t, got["same"].Inherited)
		require.True(t, got["fixed"].Inherited)
		require.Equal(t, files[1].ID, got["changed"].From.ID)
		require.Equal(t, "user", got["changed"].Owner.Kind, "it belongs to whom its input belonged")
		require.Nil(t, got["made"].From)

		f.Quota.Rule = func() error { return errs.New(errs.StorageFull, "no room") }
		p = w.Keep(ctx, left)
		require.Equal(t, errs.StorageFull, errs.CodeOf(p.Refused))
		require.Equal(t, 2, p.Undelivered)
		require.Len(t, p.Files, 2)
	})
}

// Sessions that are over are gone with their content; one that is used is not
// over.
func TestSessionsThatAreOver(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *codeapitest.Fixture) {
		ctx, s := t.Context(), f.Sessions
		old, _ := store(t, s, anna, session.FileOwner{}, codeapitest.Upload("old", "x"))
		used, files := store(t, s, anna, session.FileOwner{}, codeapitest.Upload("used", "x"))
		require.NoError(t, s.Purge(ctx))
		f.Now = f.Now.Add(50 * time.Minute)
		_, err := s.Workspace(ctx, anna, "", []session.FileRef{ref(files[0], "")})
		require.NoError(t, err)
		f.Now = f.Now.Add(20 * time.Minute)
		require.NoError(t, s.Purge(ctx))
		for in, want := range map[string]int{old: 0, used: 1} {
			list, err := s.Files(ctx, anna, in)
			require.NoError(t, err)
			require.Len(t, list, want)
			keys, err := f.Objects.List(ctx, "code/u-anna/"+in+"/")
			require.NoError(t, err)
			require.Len(t, keys, want)
		}
		w, err := s.Workspace(ctx, anna, old, nil)
		require.NoError(t, err)
		require.NotEqual(t, old, w.Session, "one that is over is a new one")
	})
}

// hurried is a storage that does something after its first list, and may not delete.
type hurried struct {
	objectstore.Store

	meanwhile func()
	stuck     bool
}

func (h *hurried) List(ctx context.Context, prefix string) ([]string, error) {
	keys, err := h.Store.List(ctx, prefix)
	if meanwhile := h.meanwhile; meanwhile != nil {
		h.meanwhile = nil
		meanwhile()
	}
	return keys, err
}

func (h *hurried) Delete(ctx context.Context, key string) error {
	if h.stuck {
		return errors.New("the storage has gone")
	}
	return h.Store.Delete(ctx, key)
}

// A session that is renewed while two processes delete what is over keeps its files. Of
// one that is over no object is left, even where the process dies in between.
func TestARenewedSessionIsNotDeleted(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		folder, err := objectstore.NewFolder(t.TempDir())
		require.NoError(t, err)
		now, storage := db.Now(), &hurried{Store: folder}
		service := func(objects objectstore.Store) *session.Service {
			return session.New(session.Deps{
				DB: db, Objects: objects, Quota: &codeapitest.Quota{}, Now: func() time.Time { return now },
				Settings: session.Settings{Life: time.Hour, MaxFile: 1 << 10, MaxFiles: 10, MaxInput: 1 << 12},
			})
		}
		exec := func(sql string, args ...any) {
			t.Helper()
			require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error { return database.Unscoped(tx.Handle).Exec(sql, args...).Error }))
		}
		left := func(in string) int {
			keys, err := folder.List(t.Context(), "code/u-anna/"+in+"/")
			require.NoError(t, err)
			return len(keys)
		}
		exec("INSERT INTO users (uid, name) VALUES ('u-anna', 'anna')")
		one, other := service(storage), service(folder)
		renewed, files := store(t, one, anna, session.FileOwner{}, codeapitest.Upload("kept", "x"))
		now = now.Add(time.Second)
		over, _ := store(t, one, anna, session.FileOwner{}, codeapitest.Upload("gone", "x"))
		last, _ := store(t, one, anna, session.FileOwner{}, codeapitest.Upload("gone", "x"))

		now = now.Add(2 * time.Hour)
		storage.meanwhile = func() {
			exec("UPDATE code_sessions SET expires_at = ? WHERE session_id = ?", now.Add(time.Hour), renewed)
			exec("UPDATE code_sessions SET expires_at = ? WHERE session_id = ?", now, last)
			require.NoError(t, other.Purge(t.Context()))
		}
		require.NoError(t, one.Purge(t.Context()))
		_, content, err := one.Open(t.Context(), anna, renewed, files[0].ID)
		require.NoError(t, err)
		require.NoError(t, content.Close())
		require.Zero(t, left(over))
		require.Equal(t, 1, left(last), "whoever found it alive a moment ago may still renew it")

		now, storage.stuck = now.Add(10*time.Minute), true
		require.ErrorContains(t, one.Purge(t.Context()), "the storage has gone")
		list, err := one.Files(t.Context(), anna, last)
		require.NoError(t, err)
		require.Empty(t, list, "nothing names an object that may be gone")
		require.Equal(t, 1, left(last))
		now = now.Add(time.Hour / 2)
		require.NoError(t, other.Purge(t.Context()))
		require.Zero(t, left(last))
		require.Equal(t, 1, left(renewed))
	})
}

func TestOwnersOfFiles(t *testing.T) {
	t.Parallel()
	for owner, want := range map[session.FileOwner]string{
		{}: "", {Kind: "agent"}: "", {Kind: "skill", Version: "1"}: "",
		{Kind: "team"}: "kind must be user, agent or skill", {Kind: "skill", Version: "v1"}: "version must be a number",
		{ResourceID: "a\x00b"}: "id must be UTF-8 without NUL", {Version: "\xff"}: "version must be UTF-8 without NUL",
	} {
		require.Equal(t, want, owner.Check())
	}
}

func TestNamesOfFiles(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"a.txt": "a.txt", "a/b.txt": "a/b.txt", "../../etc/passwd": "etc/passwd", "/etc/passwd": "etc/passwd", "/mnt/data/x": "x",
		`C:\x\y`: "C:/x/y", "a//b/./c": "a/b/c", "": "", ".": "", "/": "", "..": "", "a\x00b": "", "a\nb": "", "\xff": "",
		"ä.txt": "ä.txt", strings.Repeat("x", 256): "", strings.Repeat("x/", 600): "",
		strings.Repeat("a/", 9) + "b": "a/a/a/a/a/a/a/a/a/b", strings.Repeat("a/", 10) + "b": "", strings.Repeat("ä", 127) + "/" + strings.Repeat("ö", 127): strings.Repeat("ä", 127) + "/" + strings.Repeat("ö", 127),
		strings.Repeat("x", 128) + "/" + strings.Repeat("y", 128): "",
	} {
		require.Equal(t, want, session.CleanName(name), "%q", name)
	}
}
