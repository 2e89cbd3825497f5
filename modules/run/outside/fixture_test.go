package outside_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/outside"
	"github.com/portico-run/portico/modules/run/record"
)

const outputCap = 1000

var anna, ben = actor.Actor{UID: "u-anna"}, actor.Actor{UID: "u-ben"}

// fixture is the service with what it writes, and a clock that stands still.
type fixture struct {
	*outside.Service
	t       *testing.T
	db      *database.DB
	runs    *run.Service
	records *record.Service
	now     time.Time
}

// each runs a test in which the end of a program waits for its calls for so
// long.
func each(t *testing.T, patience time.Duration, test func(t *testing.T, f *fixture)) {
	t.Helper()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
			return database.Unscoped(tx.Handle).Exec("INSERT INTO users (uid, name) VALUES (?, 'a'), (?, 'b')", anna.UID, ben.UID).Error
		}))
		objects, err := objectstore.NewFolder(t.TempDir())
		require.NoError(t, err)
		f := &fixture{t: t, db: db, now: database.Now()}
		f.runs = run.New(run.Deps{DB: db, Owner: "process-1", Now: f.clock}).Service
		f.records = record.New(record.Deps{
			DB: db, Objects: objects, Runs: f.runs, Wake: &wake.Hub{}, Now: f.clock,
			Settings: record.Settings{Owner: "process-1", Lease: time.Minute, Calls: ids.Calls{Separator: ids.Colon}, OutputCap: outputCap, Patience: patience},
		}).Service
		f.Service = outside.New(outside.Deps{DB: db, Runs: f.runs, Records: f.records, Now: f.clock})
		test(t, f)
	})
}

func (f *fixture) clock() time.Time { return f.now }

func (f *fixture) pass(d time.Duration) { f.now = f.now.Add(d) }

// asks is a registration for an hour: of a run, and of a program where it is
// named.
func asks(resultID, callID string) outside.Registration {
	p := outside.Registration{Run: run.OutsideParams{ResultID: resultID}, Time: time.Hour, CallID: callID}
	if callID != "" {
		p.Program = &record.ProgramInput{}
	}
	return p
}

func (f *fixture) register(a actor.Actor, p outside.Registration) (run.Run, *record.Call) {
	f.t.Helper()
	r, c, err := f.Register(f.t.Context(), a, p)
	require.NoError(f.t, err)
	return r, c
}

func (f *fixture) refused(a actor.Actor, p outside.Registration) error {
	f.t.Helper()
	_, _, err := f.Register(f.t.Context(), a, p)
	require.Error(f.t, err)
	return err
}

func (f *fixture) finish(a actor.Actor, e outside.Ending) (ended []string, err error) {
	_, ended, err = f.Finish(f.t.Context(), a, e)
	return ended, err
}

// begin begins a call of a program, which executes until it is settled.
func (f *fixture) begin(a actor.Actor, r run.Run, programID string) (record.Call, error) {
	c := record.Call{
		CallID: f.records.NewID(ids.PTC), ParentID: programID, Origin: ids.PTC, UID: a.UID, ResultID: r.ResultID, Version: r.Version,
		Toolset: "weather", Tool: "forecast", Input: json.RawMessage(`{"input":{}}`), Status: record.Executing, CreatedAt: f.clock(),
	}
	_, _, err := f.records.Begin(f.t.Context(), c, record.Once{})
	return c, err
}

func (f *fixture) call(a actor.Actor, callID string) record.Call {
	f.t.Helper()
	c, err := f.records.Call(f.t.Context(), a, callID)
	require.NoError(f.t, err)
	return c
}

func (f *fixture) run(a actor.Actor, resultID string) run.Run {
	f.t.Helper()
	r, err := f.runs.Get(f.t.Context(), a, resultID, nil)
	require.NoError(f.t, err)
	return r
}

func (f *fixture) events(a actor.Actor, r run.Run) []run.EventType {
	f.t.Helper()
	events, err := f.runs.Events(f.t.Context(), a, run.EventFilter{ResultID: r.ResultID, Version: r.Version, Limit: 1000})
	require.NoError(f.t, err)
	types := make([]run.EventType, len(events))
	for i, e := range events {
		types[i] = e.Type
	}
	return types
}
