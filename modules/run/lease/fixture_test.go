package lease_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/lease"
	"github.com/portico-run/portico/modules/run/node/nodetest"
	"github.com/portico-run/portico/modules/run/record"
)

func TestMain(m *testing.M) {
	// Connections of the database pools end on their own schedule.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("database/sql.(*DB).connectionOpener"),
		// gorm never ends the sweeper of its statement cache.
		goleak.IgnoreAnyFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"))
}

const leaseTime = time.Minute

var anna, ben = actor.Actor{UID: "u-anna"}, actor.Actor{UID: "u-ben"}

// process is a server's part in leases, with a clock of its own that stands
// still.
type process struct {
	t       *testing.T
	db      *database.DB
	owner   string
	runs    *run.Service
	records *record.Service
	keeper  *lease.Keeper
	log     logText

	mu  sync.Mutex
	now time.Time
}

// each runs a test with two processes on one database: one that works, and one
// that watches.
func each(t *testing.T, test func(t *testing.T, works, watches *process)) {
	t.Helper()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
			return database.Unscoped(tx.Handle).Exec("INSERT INTO users (uid, name) VALUES (?, 'a'), (?, 'b')", anna.UID, ben.UID).Error
		}))
		now := database.Now()
		test(t, start(t, db, "process-1", now), start(t, db, "process-2", now))
	})
}

func start(t *testing.T, db *database.DB, owner string, now time.Time) *process {
	t.Helper()
	p := &process{t: t, db: db, owner: owner, now: now}
	p.runs = run.New(run.Deps{DB: db, Owner: owner, Now: p.clock}).Service
	p.records = record.New(record.Deps{
		DB: db, Runs: p.runs, Wake: &wake.Hub{}, Now: p.clock,
		Settings: record.Settings{Owner: owner, Lease: leaseTime, Calls: ids.Calls{Separator: ids.Colon}, OutputCap: 1000},
	}).Service
	p.keeper = p.keep(leaseTime)
	p.renew()
	return p
}

// renew is a sign of life.
func (p *process) renew() {
	p.t.Helper()
	nodetest.Live(p.t, p.db, p.owner, p.clock().Add(leaseTime))
}

// keep makes a keeper of the process. Its rounds follow the wall clock.
func (p *process) keep(leaseTime time.Duration) *lease.Keeper {
	return lease.New(lease.Deps{
		DB: p.db, Runs: p.runs, Calls: p.records, Lease: leaseTime, Logger: slog.New(slog.NewTextHandler(&p.log, nil)), Now: p.clock,
	})
}

func (p *process) clock() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

func (p *process) pass(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = p.now.Add(d)
}

func (p *process) reap() {
	p.t.Helper()
	require.NoError(p.t, p.keeper.Reap(p.t.Context()))
}

func (p *process) create(a actor.Actor, kind string) run.Run {
	p.t.Helper()
	r, err := p.runs.Create(p.t.Context(), a, run.CreateParams{Type: kind})
	require.NoError(p.t, err)
	return r
}

// open begins a program that this process works on.
func (p *process) open(a actor.Actor, r run.Run) record.Call {
	p.t.Helper()
	c, err := p.records.OpenProgram(p.t.Context(), a, r, record.ProgramInput{Code: "pass", Language: "python"})
	require.NoError(p.t, err)
	return c
}

// begin begins a call of a program; this process works on it until done.
func (p *process) begin(program record.Call) (c record.Call, done func()) {
	p.t.Helper()
	c = record.Call{
		CallID: p.records.NewID(ids.PTC), ParentID: program.CallID, Origin: ids.PTC, UID: program.UID, ResultID: program.ResultID,
		Version: program.Version, Toolset: "weather", Tool: "forecast", Input: json.RawMessage(`{"input":{}}`), Status: record.Executing, CreatedAt: p.clock(),
	}
	_, _, err := p.records.Begin(p.t.Context(), c, record.Once{})
	require.NoError(p.t, err)
	return c, p.records.Work(c.CallID)
}

func (p *process) call(c record.Call) record.Call {
	p.t.Helper()
	got, err := p.records.Call(p.t.Context(), actor.Actor{UID: c.UID}, c.CallID)
	require.NoError(p.t, err)
	return got
}

func (p *process) run(r run.Run) run.Run {
	p.t.Helper()
	got, err := p.runs.Get(p.t.Context(), actor.Actor{UID: r.UID}, r.ResultID, &r.Version)
	require.NoError(p.t, err)
	return got
}

// story is what happened in a run: the events and the calls they are about.
func (p *process) story(r run.Run) (events []run.EventType, calls []string) {
	p.t.Helper()
	all, err := p.runs.Events(p.t.Context(), actor.Actor{UID: r.UID}, run.EventFilter{ResultID: r.ResultID, Version: r.Version, Limit: 100})
	require.NoError(p.t, err)
	for _, e := range all {
		events, calls = append(events, e.Type), append(calls, e.CallID)
	}
	return events, calls
}

func (p *process) change(sql string, values ...any) {
	p.t.Helper()
	require.NoError(p.t, p.db.InTx(p.t.Context(), func(tx database.Tx) error { return database.Unscoped(tx.Handle).Exec(sql, values...).Error }))
}

// logText is what a logger wrote; the keeper writes while a test reads.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
