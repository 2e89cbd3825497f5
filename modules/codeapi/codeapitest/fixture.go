// Package codeapitest wires the code interpreter API for tests, on a sandbox
// that runs programs or on functions in their place.
package codeapitest

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/internal/signing"
	"github.com/portico-run/portico/modules/codeapi"
	"github.com/portico-run/portico/modules/codeapi/execution"
	"github.com/portico-run/portico/modules/codeapi/session"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/stub"
)

// Anna and Ben are users.
func Anna() actor.Actor { return actor.Actor{UID: "u-anna", Scope: actor.Full} }

// Ben is the other one.
func Ben() actor.Actor { return actor.Actor{UID: "u-ben", Scope: actor.Full} }

// Options are what differs between tests. All may be left out.
type Options struct {
	// Sandbox is functions of Fixture.Driver where it is left out.
	Sandbox  execution.Sandbox
	Programs execution.Programs
	Plans    execution.Plans
	// Change changes the limits.
	Change func(s *codeapi.Settings)
}

// Fixture is the wired API.
type Fixture struct {
	Module     *codeapi.Module
	Sessions   *session.Service
	Executions *execution.Service
	Driver     *Driver
	Objects    objectstore.Store
	Quota      *Quota
	Now        time.Time

	mu    sync.Mutex
	ended []string
}

// New wires the API on a database, with the users Anna and Ben.
func New(t *testing.T, db *database.DB, o Options) *Fixture {
	t.Helper()
	objects, err := objectstore.NewFolder(t.TempDir())
	require.NoError(t, err)
	log := slog.New(slog.DiscardHandler)
	f := &Fixture{Driver: &Driver{}, Objects: objects, Quota: &Quota{}, Now: database.Now()}
	if o.Sandbox == nil {
		engine := sandbox.New(sandbox.Deps{Driver: f.Driver, MaxConcurrent: 4, MaxPaused: 10, Queue: sandbox.Queue{Timeout: time.Minute}, Logger: log})
		require.NoError(t, engine.Start(t.Context()))
		t.Cleanup(func() { require.NoError(t, engine.Stop(context.Background())) })
		o.Sandbox = engine
	}
	settings := codeapi.Settings{
		Errors: codeapi.ErrorsAuto, SessionLife: time.Hour, MaxFile: 1 << 10, MaxFiles: 10, MaxInput: 1 << 12,
		Programs: execution.Settings{
			Owner: "proc-test", Keys: signing.Keys{[]byte("secret")}, Timeout: time.Minute, MinTimeout: time.Second, MaxTimeout: time.Minute, Idle: time.Minute,
			MaxRounds: 3, MaxCalls: 10, MaxTools: 5, MaxResult: 1 << 10, MaxState: 1 << 11,
		},
	}
	if o.Change != nil {
		o.Change(&settings)
	}
	f.Module, err = codeapi.New(codeapi.Deps{
		Storage: codeapi.Storage{DB: db, Objects: objects, Quota: f.Quota},
		Sandbox: o.Sandbox, Programs: o.Programs, Observer: f, Plans: o.Plans, Logger: log,
		Now: func() time.Time { return f.Now }, Settings: settings,
	})
	require.NoError(t, err)
	f.Sessions, f.Executions = f.Module.Sessions, f.Module.Executions
	t.Cleanup(func() { require.NoError(t, f.Module.Stop(context.Background())) })
	for _, a := range []actor.Actor{Anna(), Ben()} {
		require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
			return database.Unscoped(tx.Handle).Exec("INSERT INTO users (uid, name) VALUES (?, ?)", a.UID, a.UID).Error
		}))
	}
	return f
}

// Round implements execution.Observer.
func (*Fixture) Round(int) {}

// Ended implements execution.Observer.
func (f *Fixture) Ended(cause string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = append(f.ended, cause)
}

// Causes are those of the programs that ended, in order.
func (f *Fixture) Causes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.ended...)
}

// Quota has room, unless a test gives it another rule.
type Quota struct{ Rule func() error }

// Room implements session.Quota.
func (q *Quota) Room(database.Tx, string, int64) error {
	if q.Rule == nil {
		return nil
	}
	return q.Rule()
}

// Driver runs functions instead of programs: what they do with a job is the
// test's. It implements sandbox.Driver.
type Driver struct {
	mu  sync.Mutex
	run func(ctx context.Context, job sandbox.Job) sandbox.Result
}

// Does sets what jobs do from now on.
func (d *Driver) Does(run func(ctx context.Context, job sandbox.Job) sandbox.Result) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.run = run
}

// Open implements sandbox.Driver.
func (*Driver) Open(context.Context) error { return nil }

// Close implements sandbox.Driver.
func (*Driver) Close() error { return nil }

// Languages implements sandbox.Driver.
func (*Driver) Languages() []sandbox.Language { return sandbox.Languages() }

// Start implements sandbox.Driver.
func (d *Driver) Start(context.Context) (sandbox.Capsule, error) { return capsule{d}, nil }

type capsule struct{ d *Driver }

func (capsule) Close() error { return nil }

func (c capsule) Run(ctx context.Context, job sandbox.Job) (sandbox.Result, error) {
	job.Clock.Start()
	c.d.mu.Lock()
	run := c.d.run
	c.d.mu.Unlock()
	if run == nil {
		return sandbox.Result{Status: sandbox.Completed}, nil
	}
	return run(ctx, job), nil
}

// Pausing is a program that makes one call, waits for hold and ends.
func Pausing(ctx context.Context, job sandbox.Job, hold <-chan struct{}) sandbox.Result {
	status, _ := Call(ctx, job, `{"calls":[{"name":"ask","input":{"q":1}}]}`)
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

// Call makes calls as a program does, and returns the answer.
func Call(ctx context.Context, job sandbox.Job, calls string) (status int, answer string) {
	w := httptest.NewRecorder()
	job.Gateway.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "POST", sandbox.CallsPath, strings.NewReader(calls)))
	return w.Code, w.Body.String()
}

// Upload is a file as it comes in.
func Upload(name, content string) session.Upload {
	return session.Upload{Name: name, Body: strings.NewReader(content), Size: int64(len(content))}
}

// Tools are tools of the caller.
func Tools(names ...string) []stub.Tool {
	tools := make([]stub.Tool, len(names))
	for i, n := range names {
		tools[i] = stub.Tool{Name: n}
	}
	return tools
}

// Answer answers every call with 1, or with what a function makes of it.
func Answer(r execution.Reply, with ...func(c execution.AskedCall) string) []execution.ToolResult {
	results := make([]execution.ToolResult, len(r.Calls))
	for i, c := range r.Calls {
		results[i] = execution.ToolResult{CallID: c.ID, Result: json.RawMessage(`1`)}
		if len(with) > 0 {
			results[i].Result = json.RawMessage(with[0](c))
		}
	}
	return results
}
