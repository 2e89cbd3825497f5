package tool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/connector/connectortest"
	"github.com/portico-run/portico/modules/connector/rest"
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/lease"
	"github.com/portico-run/portico/modules/run/node/nodetest"
	"github.com/portico-run/portico/modules/run/outside"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/tool/approval"
	"github.com/portico-run/portico/modules/tool/resource"
)

var anna, ben = actor.Actor{UID: "u-anna", Scope: actor.Full}, actor.Actor{UID: "u-ben", Scope: actor.Full}

const catalogue = `
key: weather
name: Weather
domain: https://weather.example.com
credential: {type: bearer, value: sk-upstream}
billing: {forecast: 2, free: 0}
methods:
  - name: forecast
    endpoint: /forecast
    request: {type: object, required: [city], additionalProperties: false,
      properties: {city: {type: string}, days: {type: integer, default: 3, maximum: 14}}}
  - {name: free, endpoint: /free, request: {type: object}}
---
{key: other, name: Other, billing: 1, methods: [{name: go, endpoint: "https://other.example.com/"}]}
---
{key: blocked, name: Blocked, billing: 1, methods: [{name: go, endpoint: "https://blocked.example.com/"}]}
`

// upstream is an executor whose behaviour a test sets.
type upstream struct {
	mu    sync.Mutex
	calls []tool.Invocation
	do    func(ctx context.Context, in tool.Invocation) (tool.Outcome, error)
}

func (u *upstream) Execute(ctx context.Context, in tool.Invocation) (tool.Outcome, error) {
	u.mu.Lock()
	u.calls = append(u.calls, in)
	do := u.do
	u.mu.Unlock()
	if do != nil {
		return do(ctx, in)
	}
	return tool.Outcome{Data: json.RawMessage(`{"sky":"clear"}`)}, nil
}

func (u *upstream) will(do func(ctx context.Context, in tool.Invocation) (tool.Outcome, error)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.do = do
}

func (u *upstream) seen() []tool.Invocation {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]tool.Invocation(nil), u.calls...)
}

// fixture is a wired module with one upstream and a clock.
type fixture struct {
	*tool.Module
	t        testing.TB
	db       *database.DB
	runs     *run.Service
	records  *record.Service
	outside  *outside.Service
	toolsets tool.Catalogue
	Keeper   *lease.Keeper
	credits  *billing.Service
	upstream *upstream
	log      *bytes.Buffer

	hub       *wake.Hub
	approvals *approval.Service

	owner   string
	objects objectstore.Store

	mu  sync.Mutex
	now time.Time
}

func (f *fixture) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fixture) pass(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

const (
	leaseTime = 30 * time.Second
	outputCap = 1000
	resultCap = 100_000
)

func each(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	databasetest.Each(t, func(t *testing.T, db *database.DB) { test(t, newFixture(t, db)) })
}

func newFixture(t testing.TB, db *database.DB) *fixture {
	t.Helper()
	for _, a := range []actor.Actor{anna, ben} {
		tool.Exec(t, db, `INSERT INTO users (uid, name) VALUES (?, ?)`, a.UID, a.UID)
	}
	toolsets := connectortest.New(t, db, nil, nil)
	toolsets.Fill(t, catalogue)
	return wire(t, db, toolsets.Service, "process-1", &upstream{})
}

// wire makes one process over a database.
func wire(t testing.TB, db *database.DB, toolsets tool.Catalogue, owner string, u *upstream) *fixture {
	t.Helper()
	objects, err := objectstore.NewFolder(t.TempDir())
	require.NoError(t, err)
	policy, _, err := ptc.Parse(ptc.Raw{Mode: "on", ToolsetBlocklist: "blocked"})
	require.NoError(t, err)
	f := &fixture{t: t, db: db, upstream: u, toolsets: toolsets, log: &bytes.Buffer{}, owner: owner, now: database.Now()}
	nodetest.Live(t, db, owner, f.now.Add(leaseTime))
	f.runs = run.New(run.Deps{DB: db, Owner: owner, Now: f.clock}).Service
	f.credits = billing.New(billing.Deps{DB: db, Now: f.clock}).Service
	f.objects = objects
	f.records = f.keep(0)
	f.outside = outside.New(outside.Deps{DB: db, Runs: f.runs, Records: f.records, Now: f.clock})
	f.Keeper = lease.New(lease.Deps{DB: db, Runs: f.runs, Calls: f.records, Lease: leaseTime, Logger: slog.New(slog.NewTextHandler(f.log, nil)), Now: f.clock})
	f.hub = &wake.Hub{}
	f.approvals = approval.New(approval.Deps{
		DB: db, Records: f.records, Hub: f.hub, Logger: slog.New(slog.NewTextHandler(f.log, nil)),
		Check: func(ctx context.Context, a actor.Actor, key, name string, arguments json.RawMessage) error {
			return f.Service.CheckArguments(ctx, a, key, name, arguments)
		},
		Settings: approval.Settings{Default: approval.Never, Expiry: time.Minute, Poll: 10 * time.Millisecond},
	}).Service
	f.Module = tool.New(tool.Deps{
		Records: f.records, Catalogue: toolsets, Policy: ptc.New(policy).Service, Billing: f.credits, Approvals: f.approvals,
		Means: tool.Means{
			Executors: tool.Executors{rest.Kind: u},
			Resources: resource.New(resource.Deps{Objects: objects, Limit: 1 << 20, Endpoint: "http://portico", Now: f.clock}),
		},
		Settings: tool.Settings{ResultCap: resultCap, Timeout: 10 * time.Second, Now: f.clock},
		Logger:   slog.New(slog.NewTextHandler(f.log, nil)),
	})
	return f
}

// keep makes the records of calls, in which the end of a program waits for its
// calls for so long.
func (f *fixture) keep(patience time.Duration) *record.Service {
	return record.New(record.Deps{
		DB: f.db, Objects: f.objects, Runs: f.runs, Wake: &wake.Hub{}, Now: f.clock,
		Settings: record.Settings{
			Owner: f.owner, Lease: leaseTime, Calls: ids.Calls{Separator: ids.Colon}, OutputCap: outputCap, Patience: patience,
		},
	}).Service
}

// again is another process on the same database and upstream.
func (f *fixture) again(owner string) *fixture {
	g := wire(f.t, f.db, f.toolsets, owner, f.upstream)
	g.now = f.clock()
	return g
}

func (f *fixture) startRun(a actor.Actor) run.Run {
	f.t.Helper()
	r, err := f.runs.Create(f.t.Context(), a, run.CreateParams{Title: "test"})
	require.NoError(f.t, err)
	return r
}

func (f *fixture) open(a actor.Actor, r run.Run, toolsets ...string) record.Call {
	f.t.Helper()
	c, err := f.records.OpenProgram(f.t.Context(), a, r, record.ProgramInput{Code: "pass", Language: "python", Toolsets: toolsets})
	require.NoError(f.t, err)
	return c
}

func (f *fixture) close(c record.Call) {
	f.t.Helper()
	require.NoError(f.t, f.records.CloseProgram(f.t.Context(), c, record.Answer{Status: record.Success, Data: json.RawMessage("{}")},
		func(database.Tx) error { return nil }))
}

func (f *fixture) grant(a actor.Actor, credits int64) {
	f.t.Helper()
	err := f.credits.Grant(f.t.Context(), a.UID, billing.Recharge{
		ID: ids.New(ids.Recharge), Amount: money.Amount(credits) * money.Credit, Source: "test", ExpiresAt: f.clock().Add(time.Hour),
	})
	require.NoError(f.t, err)
}

func (f *fixture) balance(a actor.Actor) string {
	f.t.Helper()
	b, err := f.credits.Balance(f.t.Context(), a)
	require.NoError(f.t, err)
	return b.Net.String()
}

func (f *fixture) calls(a actor.Actor) []record.Call {
	f.t.Helper()
	page, err := f.records.List(f.t.Context(), a, record.Filter{}, httpapi.PageQuery{Limit: 200})
	require.NoError(f.t, err)
	return page.Items
}

// events lists what happened in a run, as "type callId" without the ids' own
// part.
func (f *fixture) events(a actor.Actor, r run.Run) []string {
	f.t.Helper()
	events, err := f.runs.Events(f.t.Context(), a, run.EventFilter{ResultID: r.ResultID, Version: r.Version, Limit: 10_000})
	require.NoError(f.t, err)
	out := make([]string, len(events))
	for i, e := range events {
		origin, _, _ := strings.Cut(e.CallID, ":")
		out[i] = strings.TrimSpace(string(e.Type) + " " + origin)
	}
	return out
}

// execute runs a call and returns its answer as it is recorded.
func (f *fixture) execute(ctx context.Context, a actor.Actor, req tool.Request) (record.Answer, error) {
	answer, whole, err := f.Service.Execute(ctx, a, req)
	if whole != nil {
		require.NoError(f.t, whole.Close())
	}
	return answer, err
}

func request(arguments string) tool.Request {
	return tool.Request{Toolset: "weather", Tool: "forecast", Arguments: json.RawMessage(arguments)}
}
