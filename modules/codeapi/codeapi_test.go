package codeapi_test

import (
	"context"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/codeapi/codeapitest"
	"github.com/portico-run/portico/modules/codeapi/execution"
	"github.com/portico-run/portico/modules/codeapi/session"
	"github.com/portico-run/portico/modules/sandbox"
)

var anna, ben = codeapitest.Anna(), codeapitest.Ben()

func setup(t *testing.T, db *database.DB) *codeapitest.Fixture {
	t.Helper()
	return codeapitest.New(t, db, codeapitest.Options{})
}

// Every exported method of the service is tried by a user on another user's
// things, or is on the list of those that belong to no user.
func TestNoMethodReachesAnotherUser(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		ctx := t.Context()
		hers, files, _, err := f.Sessions.Upload(ctx, anna, session.FileOwner{}, []session.Upload{codeapitest.Upload("hers.txt", "hers")})
		require.NoError(t, err)
		id := files[0].ID
		var found []sandbox.File
		hold := make(chan struct{})
		f.Driver.Does(func(ctx context.Context, job sandbox.Job) sandbox.Result {
			found = job.Inputs
			if job.Code == "pause" {
				return codeapitest.Pausing(ctx, job, hold)
			}
			return sandbox.Result{Status: sandbox.Completed}
		})
		paused, err := f.Executions.Start(ctx, anna, execution.ProgramRequest{Code: "pause", Tools: codeapitest.Tools("ask"), RequestID: "r"})
		require.NoError(t, err)
		require.True(t, paused.Paused())
		refs := []session.FileRef{{ID: id, SessionID: hers, Name: "x"}}

		system := map[string]bool{"Purge": true, "Stop": true}
		tries := map[string]func(){
			"Upload": func() {
				theirs, _, _, err := f.Sessions.Upload(ctx, ben, session.FileOwner{}, []session.Upload{codeapitest.Upload("hers.txt", "")})
				require.NoError(t, err)
				require.NotEqual(t, hers, theirs)
			},
			"Files": func() {
				list, err := f.Sessions.Files(ctx, ben, hers)
				require.NoError(t, err)
				require.Empty(t, list)
			},
			"File": func() {
				_, err := f.Sessions.File(ctx, ben, hers, id)
				require.ErrorIs(t, err, session.ErrFileMissing)
			},
			"Open": func() {
				_, _, err := f.Sessions.Open(ctx, ben, hers, id)
				require.ErrorIs(t, err, session.ErrFileMissing)
			},
			"Delete": func() { require.ErrorIs(t, f.Sessions.Delete(ctx, ben, hers, id), session.ErrFileMissing) },
			"Recent": func() {
				list, err := f.Sessions.Recent(ctx, ben, nil, 100)
				require.NoError(t, err)
				for _, one := range list {
					require.NotEqual(t, hers, one.SessionID)
				}
				list, err = f.Sessions.Recent(ctx, anna, nil, 100)
				require.NoError(t, err)
				require.NotEmpty(t, list)
			},
			"Touch": func() {
				_, _, err := f.Sessions.Touch(ctx, ben, hers)
				require.ErrorIs(t, err, session.ErrMissing)
				_, _, err = f.Sessions.Touch(ctx, anna, hers)
				require.NoError(t, err)
			},
			"Workspace": func() {
				_, err := f.Sessions.Workspace(ctx, ben, "", refs)
				require.ErrorIs(t, err, session.ErrFileReference)
				w, err := f.Sessions.Workspace(ctx, ben, hers, nil)
				require.NoError(t, err)
				require.NotEqual(t, hers, w.Session)
				require.Empty(t, w.Inputs)
			},
			"Exec": func() {
				_, err := f.Executions.Exec(ctx, ben, execution.ExecRequest{Language: "py", Code: "x", Files: refs})
				require.ErrorIs(t, err, session.ErrFileReference)
				r, err := f.Executions.Exec(ctx, ben, execution.ExecRequest{Language: "py", Code: "x", Session: hers})
				require.NoError(t, err)
				require.NotEqual(t, hers, r.Session)
				require.Empty(t, found)
			},
			"Start": func() {
				_, err := f.Executions.Start(ctx, ben, execution.ProgramRequest{Code: "x", Files: refs})
				require.ErrorIs(t, err, session.ErrFileReference)
				r, err := f.Executions.Start(ctx, ben, execution.ProgramRequest{Code: "x", Session: hers})
				require.NoError(t, err)
				require.NotEqual(t, hers, r.Session)
				require.Empty(t, found)
			},
			"Continue": func() {
				_, err := f.Executions.Continue(ctx, ben, paused.Token, codeapitest.Answer(paused), "")
				require.ErrorIs(t, err, execution.ErrTokenForeign)
			},
			"Waits": func() {
				require.False(t, f.Executions.Waits(ben, paused.Token))
				require.True(t, f.Executions.Waits(anna, paused.Token))
			},
			"CancelHere": func() {
				cancelled, err := f.Executions.CancelHere(ctx, ben, "r")
				require.NoError(t, err)
				require.False(t, cancelled)
			},
			"Cancel": func() {
				cancelled, err := f.Executions.Cancel(ctx, ben, "r")
				require.NoError(t, err)
				require.False(t, cancelled)
			},
		}
		for _, service := range []reflect.Type{reflect.TypeFor[*session.Service](), reflect.TypeFor[*execution.Service]()} {
			for m := range service.Methods() {
				if !system[m.Name] {
					require.Contains(t, tries, m.Name, "is not tried as another user")
					tries[m.Name]()
				}
			}
		}
		_, content, err := f.Sessions.Open(ctx, anna, hers, id)
		require.NoError(t, err)
		text, err := io.ReadAll(content)
		require.NoError(t, err)
		require.Equal(t, "hers", string(text))
		close(hold)
		end, err := f.Executions.Continue(ctx, anna, paused.Token, codeapitest.Answer(paused), "")
		require.NoError(t, err)
		require.False(t, end.Paused())
		require.Empty(t, end.Cause)
	})
}

// A token counts until the program would be given up.
func TestTokensExpire(t *testing.T) {
	t.Parallel()
	f := setup(t, databasetest.Open(t, database.SQLite, nil))
	hold := make(chan struct{})
	close(hold)
	f.Driver.Does(func(ctx context.Context, job sandbox.Job) sandbox.Result { return codeapitest.Pausing(ctx, job, hold) })
	r, err := f.Executions.Start(t.Context(), anna, execution.ProgramRequest{Code: "pause", Tools: codeapitest.Tools("ask")})
	require.NoError(t, err)
	f.Now = f.Now.Add(time.Minute)
	_, err = f.Executions.Continue(t.Context(), anna, r.Token, codeapitest.Answer(r), "")
	require.ErrorIs(t, err, execution.ErrTokenExpired)
	f.Now = f.Now.Add(-time.Second)
	_, err = f.Executions.Continue(t.Context(), anna, r.Token, codeapitest.Answer(r), "")
	require.NoError(t, err)
}

// An error of the object storage is no half-written file.
func TestFilesWithoutContent(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		stored, files, problems, err := f.Sessions.Upload(t.Context(), anna, session.FileOwner{}, []session.Upload{
			codeapitest.Upload("a", "a"), codeapitest.Upload("big", strings.Repeat("x", 2000)), codeapitest.Upload("\x00", ""),
		})
		require.NoError(t, err)
		require.NoError(t, problems[0])
		require.Equal(t, errs.TooLarge, errs.CodeOf(problems[1]))
		require.Equal(t, errs.Invalid, errs.CodeOf(problems[2]))
		list, err := f.Sessions.Files(t.Context(), anna, stored)
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.NoError(t, f.Objects.Delete(t.Context(), "code/u-anna/"+stored+"/"+files[0].ID))
		_, _, err = f.Sessions.Open(t.Context(), anna, stored, files[0].ID)
		require.ErrorIs(t, err, session.ErrFileMissing)
		// A program that would miss it is not run.
		f.Driver.Does(func(ctx context.Context, job sandbox.Job) sandbox.Result {
			_, _, err = job.Inputs[0].Reader(ctx)
			return sandbox.Result{Status: sandbox.Completed}
		})
		_, failed := f.Executions.Exec(t.Context(), anna, execution.ExecRequest{Language: "py", Code: "x", Session: stored})
		require.NoError(t, failed)
		require.ErrorIs(t, err, session.ErrFileMissing)
		_, err = f.Sessions.Files(t.Context(), anna, "short")
		require.ErrorIs(t, err, session.ErrBadID)
		_, err = f.Executions.Exec(t.Context(), anna, execution.ExecRequest{Language: "py", Code: "x", Files: make([]session.FileRef, 11)})
		require.Equal(t, errs.Invalid, errs.CodeOf(err))
	})
}

// Files that lose the last room to others while they are stored leave nothing.
func TestUploadsThatDoNotFitLeaveNothing(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		asked := 0
		f.Quota.Rule = func() error { // there is room when it is asked first, and none when the files are recorded
			if asked++; asked == 1 {
				return nil
			}
			return errs.New(errs.StorageFull, "no room")
		}
		_, _, _, err := f.Sessions.Upload(t.Context(), anna, session.FileOwner{}, []session.Upload{codeapitest.Upload("a", "a"), codeapitest.Upload("b", "b")})
		require.Equal(t, errs.StorageFull, errs.CodeOf(err))
		keys, err := f.Objects.List(t.Context(), "code/")
		require.NoError(t, err)
		require.Empty(t, keys)
	})
}
