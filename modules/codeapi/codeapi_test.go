package codeapi_test

import (
	"context"
	"io"
	"log/slog"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/modules/codeapi"
	"github.com/portico-run/portico/modules/codeapi/execution"
	"github.com/portico-run/portico/modules/codeapi/session"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/stub"
)

var (
	anna = actor.Actor{UID: "u-anna", Scope: actor.Full}
	ben  = actor.Actor{UID: "u-ben", Scope: actor.Full}
)

// driver runs functions instead of programs: what they do with a job is the
// test's.
type driver struct {
	mu  sync.Mutex
	run func(ctx context.Context, job sandbox.Job) sandbox.Result
}

func (d *driver) Open(context.Context) error { return nil }

func (d *driver) Close() error { return nil }

func (*driver) Languages() []sandbox.Language { return sandbox.Languages() }

func (d *driver) Start(context.Context) (sandbox.Capsule, error) { return capsule{d}, nil }

type capsule struct{ d *driver }

func (c capsule) Close() error { return nil }

func (c capsule) Run(ctx context.Context, job sandbox.Job) (sandbox.Result, error) {
	job.Clock.Start()
	c.d.mu.Lock()
	run := c.d.run
	c.d.mu.Unlock()
	return run(ctx, job), nil
}

type silent struct{}

func (silent) Round(int) {}

func (silent) Ended(string) {}

// quota has room, unless a test gives it another rule.
type quota struct{ room func() error }

func (q *quota) Room(database.Tx, string, int64) error {
	if q.room == nil {
		return nil
	}
	return q.room()
}

type fixture struct {
	module     *codeapi.Module
	sessions   *session.Service
	executions *execution.Service
	driver     *driver
	objects    objectstore.Store
	quota      *quota
	now        time.Time
}

func setup(t *testing.T, db *database.DB) *fixture {
	t.Helper()
	return setupWith(t, db, nil)
}

func setupWith(t *testing.T, db *database.DB, plans execution.Plans) *fixture {
	t.Helper()
	objects, err := objectstore.NewFolder(t.TempDir())
	require.NoError(t, err)
	d := &driver{run: func(context.Context, sandbox.Job) sandbox.Result { return sandbox.Result{Status: sandbox.Completed} }}
	log := slog.New(slog.DiscardHandler)
	engine := sandbox.New(sandbox.Deps{Driver: d, MaxConcurrent: 4, MaxPaused: 10, QueueTimeout: time.Minute, Logger: log})
	require.NoError(t, engine.Start(t.Context()))
	f := &fixture{driver: d, objects: objects, quota: &quota{}, now: database.Now()}
	f.module, err = codeapi.New(codeapi.Deps{
		Storage: codeapi.Storage{DB: db, Objects: objects, Quota: f.quota},
		Sandbox: engine, Observer: silent{}, Plans: plans, Logger: log,
		Now: func() time.Time { return f.now },
		Settings: codeapi.Settings{
			Errors: codeapi.ErrorsAuto, SessionLife: time.Hour, MaxFile: 1 << 10, MaxFiles: 10, MaxInput: 1 << 12,
			Programs: execution.Settings{
				Owner: "proc-test", Secret: []byte("secret"), Timeout: time.Minute, MinTimeout: time.Second, MaxTimeout: time.Minute, Idle: time.Minute,
				MaxRounds: 3, MaxCalls: 10, MaxTools: 5, MaxResult: 1 << 10, MaxState: 1 << 11,
			},
		},
	})
	require.NoError(t, err)
	f.sessions, f.executions = f.module.Sessions, f.module.Executions
	t.Cleanup(func() {
		ctx := context.Background()
		require.NoError(t, f.module.Stop(ctx))
		require.NoError(t, engine.Stop(ctx))
	})
	for _, a := range []actor.Actor{anna, ben} {
		require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
			return database.Unscoped(tx.Handle).Exec("INSERT INTO users (uid, name) VALUES (?, ?)", a.UID, a.UID).Error
		}))
	}
	return f
}

// Every exported method of the service is tried by a user on another user's
// things, or is on the list of those that belong to no user.
func TestNoMethodReachesAnotherUser(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		ctx := t.Context()
		hers, files, _, err := f.sessions.Upload(ctx, anna, session.FileOwner{}, []session.Upload{upload("hers.txt", "hers")})
		require.NoError(t, err)
		id := files[0].ID
		var found []sandbox.File
		hold := make(chan struct{})
		f.driver.run = func(ctx context.Context, job sandbox.Job) sandbox.Result {
			found = job.Inputs
			if job.Code == "pause" {
				return pausing(ctx, job, hold)
			}
			return sandbox.Result{Status: sandbox.Completed}
		}
		paused, err := f.executions.Start(ctx, anna, execution.ProgramRequest{Code: "pause", Tools: ask(), RequestID: "r"})
		require.NoError(t, err)
		require.True(t, paused.Paused())
		refs := []session.FileRef{{ID: id, SessionID: hers, Name: "x"}}

		system := map[string]bool{"Purge": true, "Stop": true}
		tries := map[string]func(){
			"Upload": func() {
				theirs, _, _, err := f.sessions.Upload(ctx, ben, session.FileOwner{}, []session.Upload{upload("hers.txt", "")})
				require.NoError(t, err)
				require.NotEqual(t, hers, theirs)
			},
			"Files": func() {
				list, err := f.sessions.Files(ctx, ben, hers)
				require.NoError(t, err)
				require.Empty(t, list)
			},
			"File": func() {
				_, err := f.sessions.File(ctx, ben, hers, id)
				require.ErrorIs(t, err, session.ErrFileMissing)
			},
			"Open": func() {
				_, _, err := f.sessions.Open(ctx, ben, hers, id)
				require.ErrorIs(t, err, session.ErrFileMissing)
			},
			"Delete": func() { require.ErrorIs(t, f.sessions.Delete(ctx, ben, hers, id), session.ErrFileMissing) },
			"Workspace": func() {
				_, err := f.sessions.Workspace(ctx, ben, "", refs)
				require.ErrorIs(t, err, session.ErrFileReference)
				w, err := f.sessions.Workspace(ctx, ben, hers, nil)
				require.NoError(t, err)
				require.NotEqual(t, hers, w.Session)
				require.Empty(t, w.Inputs)
			},
			"Exec": func() {
				_, err := f.executions.Exec(ctx, ben, execution.ExecRequest{Language: "py", Code: "x", Files: refs})
				require.ErrorIs(t, err, session.ErrFileReference)
				r, err := f.executions.Exec(ctx, ben, execution.ExecRequest{Language: "py", Code: "x", Session: hers})
				require.NoError(t, err)
				require.NotEqual(t, hers, r.Session)
				require.Empty(t, found)
			},
			"Start": func() {
				_, err := f.executions.Start(ctx, ben, execution.ProgramRequest{Code: "x", Files: refs})
				require.ErrorIs(t, err, session.ErrFileReference)
				r, err := f.executions.Start(ctx, ben, execution.ProgramRequest{Code: "x", Session: hers})
				require.NoError(t, err)
				require.NotEqual(t, hers, r.Session)
				require.Empty(t, found)
			},
			"Continue": func() {
				_, err := f.executions.Continue(ctx, ben, paused.Token, answer(paused), "")
				require.ErrorIs(t, err, execution.ErrTokenForeign)
			},
			"Cancel": func() {
				cancelled, err := f.executions.Cancel(ctx, ben, "r")
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
		_, content, err := f.sessions.Open(ctx, anna, hers, id)
		require.NoError(t, err)
		text, err := io.ReadAll(content)
		require.NoError(t, err)
		require.Equal(t, "hers", string(text))
		close(hold)
		end, err := f.executions.Continue(ctx, anna, paused.Token, answer(paused), "")
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
	f.driver.run = func(ctx context.Context, job sandbox.Job) sandbox.Result { return pausing(ctx, job, hold) }
	r, err := f.executions.Start(t.Context(), anna, execution.ProgramRequest{Code: "pause", Tools: ask()})
	require.NoError(t, err)
	f.now = f.now.Add(time.Minute)
	_, err = f.executions.Continue(t.Context(), anna, r.Token, answer(r), "")
	require.ErrorIs(t, err, execution.ErrTokenExpired)
	f.now = f.now.Add(-time.Second)
	_, err = f.executions.Continue(t.Context(), anna, r.Token, answer(r), "")
	require.NoError(t, err)
}

// An error of the object storage is no half-written file.
func TestFilesWithoutContent(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		stored, files, problems, err := f.sessions.Upload(t.Context(), anna, session.FileOwner{}, []session.Upload{
			upload("a", "a"), upload("big", strings.Repeat("x", 2000)), upload("\x00", ""),
		})
		require.NoError(t, err)
		require.NoError(t, problems[0])
		require.Equal(t, errs.TooLarge, errs.CodeOf(problems[1]))
		require.Equal(t, errs.Invalid, errs.CodeOf(problems[2]))
		list, err := f.sessions.Files(t.Context(), anna, stored)
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.NoError(t, f.objects.Delete(t.Context(), "code/u-anna/"+stored+"/"+files[0].ID))
		_, _, err = f.sessions.Open(t.Context(), anna, stored, files[0].ID)
		require.ErrorIs(t, err, session.ErrFileMissing)
		// A program that would miss it is not run.
		f.driver.run = func(ctx context.Context, job sandbox.Job) sandbox.Result {
			_, _, err = job.Inputs[0].Reader(ctx)
			return sandbox.Result{Status: sandbox.Completed}
		}
		_, failed := f.executions.Exec(t.Context(), anna, execution.ExecRequest{Language: "py", Code: "x", Session: stored})
		require.NoError(t, failed)
		require.ErrorIs(t, err, session.ErrFileMissing)
		_, err = f.sessions.Files(t.Context(), anna, "short")
		require.ErrorIs(t, err, session.ErrBadID)
		_, err = f.executions.Exec(t.Context(), anna, execution.ExecRequest{Language: "py", Code: "x", Files: make([]session.FileRef, 11)})
		require.Equal(t, errs.Invalid, errs.CodeOf(err))
	})
}

// pausing is a program that makes one call and ends.
func pausing(ctx context.Context, job sandbox.Job, hold <-chan struct{}) sandbox.Result {
	status := call(ctx, job)
	select {
	case <-hold:
	case <-ctx.Done():
		return sandbox.Result{Status: sandbox.Cancelled}
	}
	if status != 200 {
		return sandbox.Result{Status: sandbox.Failed, ExitCode: 1}
	}
	return sandbox.Result{Status: sandbox.Completed}
}

func call(ctx context.Context, job sandbox.Job) int {
	w := httptest.NewRecorder()
	body := strings.NewReader(`{"calls":[{"name":"ask","input":{"q":1}}]}`)
	job.Gateway.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "POST", sandbox.CallsPath, body))
	return w.Code
}

func upload(name, content string) session.Upload {
	return session.Upload{Name: name, Body: strings.NewReader(content), Size: int64(len(content))}
}

func ask() []stub.Tool { return []stub.Tool{{Name: "ask"}} }

func answer(r execution.Reply) []execution.ToolResult {
	results := make([]execution.ToolResult, len(r.Calls))
	for i, c := range r.Calls {
		results[i] = execution.ToolResult{CallID: c.ID, Result: []byte(`1`)}
	}
	return results
}

// Files that lose the last room to others while they are stored leave nothing.
func TestUploadsThatDoNotFitLeaveNothing(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		asked := 0
		f.quota.room = func() error { // there is room when it is asked first, and none when the files are recorded
			if asked++; asked == 1 {
				return nil
			}
			return errs.New(errs.StorageFull, "no room")
		}
		_, _, _, err := f.sessions.Upload(t.Context(), anna, session.FileOwner{}, []session.Upload{upload("a", "a"), upload("b", "b")})
		require.Equal(t, errs.StorageFull, errs.CodeOf(err))
		keys, err := f.objects.List(t.Context(), "code/")
		require.NoError(t, err)
		require.Empty(t, keys)
	})
}
