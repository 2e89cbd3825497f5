package lease_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/lease"
	"github.com/portico-run/portico/modules/run/record"
)

// What a dead process left ends in order, once its leases are over and not
// before: its calls, their program, the run.
func TestADeadProcesssWorkFails(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, works, watches *process) {
		r := works.create(anna, "skill")
		program := works.open(anna, r)
		child, _ := works.begin(program)

		watches.pass(leaseTime)
		watches.reap()
		require.Equal(t, record.Executing, works.call(child).Status, "its lease ends now, and is not over")

		watches.pass(time.Second)
		watches.reap()
		for _, c := range []record.Call{child, program} {
			got := works.call(c)
			require.Equal(t, record.Failed, got.Status)
			answer, err := got.Answer()
			require.NoError(t, err)
			require.Equal(t, record.CodeInterrupted, answer.ErrorCode)
			require.Equal(t, watches.clock(), got.UpdatedAt)
		}
		ended := works.run(r)
		require.Equal(t, run.Failed, ended.Status)
		require.Len(t, ended.Errors, 1)
		require.Contains(t, ended.Errors[0], "interrupted")
		events, calls := works.story(r)
		require.Equal(t, []run.EventType{run.Start, run.ToolCallStart, run.ToolCallStart, run.ToolCallError, run.ToolCallError, run.End}, events)
		require.Equal(t, []string{"", program.CallID, child.CallID, child.CallID, program.CallID, ""}, calls)

		watches.reap()
		again, _ := works.story(r)
		require.Equal(t, events, again, "a second round finds nothing")
		require.EqualValues(t, 3, watches.keeper.Reaped(), "two calls and their run")
		require.Zero(t, works.keeper.Reaped())
	})
}

// A process that was only slow is told that its call is over, and charges
// nothing for it.
func TestACallThatWasGivenUpIsNotCharged(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, works, watches *process) {
		program := works.open(anna, works.create(anna, "skill"))
		child, _ := works.begin(program)
		watches.pass(2 * leaseTime)
		watches.reap()

		// What is sent as a whole is rolled back as a whole.
		charge := func(_ context.Context, tx database.Tx) error {
			const charge = "UPDATE users SET name = 'charged' WHERE uid = 'u-anna'"
			if b := tx.Batch(); b != nil {
				b.Queue(charge)
				return nil
			}
			return database.Unscoped(tx.Handle).Exec(charge).Error
		}
		late := record.Answer{Status: record.Success, Data: json.RawMessage(`1`)}
		answer, err := works.records.Settle(t.Context(), child, late, charge)
		require.NoError(t, err)
		require.Equal(t, record.CodeInterrupted, answer.ErrorCode)
		require.Equal(t, record.Failed, works.call(child).Status)
		var name string
		require.NoError(t, database.Unscoped(works.db.Read(t.Context())).Raw("SELECT name FROM users WHERE uid = 'u-anna'").Scan(&name).Error)
		require.Equal(t, "a", name, "charged")
		require.EqualValues(t, 1, works.records.Lost())
		err = works.records.CloseProgram(t.Context(), program, late, func(database.Tx) error { return nil })
		require.ErrorIs(t, err, record.ErrMissing)
	})
}

// What a living process works on goes on, whoever's it is, while the same
// user's dead work beside it fails.
func TestALivingProcesssWorkGoesOn(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, works, dead *process) {
		lost := dead.create(anna, "skill")
		lostCall := dead.open(anna, lost)
		hers, his := works.create(anna, "skill"), works.create(ben, "skill")
		herProgram, hisProgram := works.open(anna, hers), works.open(ben, his)
		child, done := works.begin(herProgram)

		watches := start(t, works.db, "process-3", works.clock())
		for range 3 {
			works.pass(leaseTime * 2 / 3)
			watches.pass(leaseTime * 2 / 3)
			works.renew()
			watches.reap()
		}
		for _, c := range []record.Call{herProgram, hisProgram, child} {
			now := works.call(c)
			require.Equal(t, record.Executing, now.Status)
			require.Equal(t, now.CreatedAt, now.UpdatedAt, "a sign of life changes nothing that is shown")
		}
		require.Equal(t, run.Running, works.run(hers).Status)
		require.Equal(t, run.Running, works.run(his).Status)
		require.Equal(t, record.Failed, works.call(lostCall).Status)
		require.Equal(t, run.Failed, works.run(lost).Status)

		// Of what it works on no more, it gives up that only.
		done()
		works.pass(2 * leaseTime)
		watches.pass(2 * leaseTime)
		works.renew()
		watches.reap()
		require.Equal(t, record.Executing, works.call(child).Status, "others cannot know")
		works.reap()
		require.Equal(t, record.Failed, works.call(child).Status)
		require.Equal(t, record.Executing, works.call(herProgram).Status)
	})
}

// A process that was late to renew its leases, as on a machine that has too much
// to do, does not end what it still works on.
func TestALateProcessDoesNotEndItsOwnWork(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, works, watches *process) {
		r := works.create(anna, "skill")
		program := works.open(anna, r)
		child, _ := works.begin(program)
		left, done := works.begin(program)
		done()
		works.pass(2 * leaseTime)
		works.reap()
		require.Equal(t, record.Executing, works.call(program).Status)
		require.Equal(t, record.Executing, works.call(child).Status)
		require.Equal(t, record.Failed, works.call(left).Status, "nobody works on it")
		require.Equal(t, run.Running, works.run(r).Status)

		watches.pass(2 * leaseTime)
		watches.reap()
		require.Equal(t, record.Failed, works.call(program).Status, "another process cannot know")
	})
}

// What a process abandons is ended although the process lives: by another one, or by
// itself what it works on no more.
func TestAbandonedWorkFails(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, works, watches *process) {
		r, his := works.create(anna, "skill"), watches.create(ben, "skill")
		program, theirs := works.open(anna, r), watches.open(ben, his)
		child, _ := works.begin(program)
		left, done := works.begin(program)
		done()
		require.NoError(t, works.records.Abandon(t.Context()))
		require.NoError(t, works.runs.Abandon(t.Context()))
		works.pass(time.Second)
		watches.pass(time.Second)
		works.reap()
		require.Equal(t, record.Failed, works.call(left).Status)
		require.Equal(t, record.Executing, works.call(child).Status, "it works on that still")
		watches.reap()
		require.Equal(t, record.Failed, works.call(child).Status)
		require.Equal(t, record.Failed, works.call(program).Status)
		require.Equal(t, run.Failed, works.run(r).Status)
		require.Equal(t, record.Executing, works.call(theirs).Status)
		require.Equal(t, run.Running, works.run(his).Status)
	})
}

// Of keepers that find the same one ends it.
func TestKeepersAtOnceEndEverythingOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, works, watches *process) {
		var runs []run.Run
		for range 4 {
			r := works.create(anna, "skill")
			works.begin(works.open(anna, r))
			runs = append(runs, r)
		}
		var all sync.WaitGroup
		for _, p := range []*process{watches, start(t, works.db, "process-3", works.clock())} {
			p.pass(2 * leaseTime)
			all.Go(func() {
				if err := p.keeper.Reap(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for _, r := range runs {
			events, _ := works.story(r)
			require.Equal(t, []run.EventType{run.Start, run.ToolCallStart, run.ToolCallStart, run.ToolCallError, run.ToolCallError, run.End}, events)
		}
	})
}

// Leases end one by one: a program outlives its calls, and a run its program.
func TestNothingEndsBeforeWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, works, watches *process) {
		r := works.create(anna, "skill")
		program := works.open(anna, r)
		child, _ := works.begin(program)
		watches.pass(2 * leaseTime)
		works.change("UPDATE tool_call_results SET lease_expires_at = ? WHERE call_id = ?", watches.clock().Add(time.Second), child.CallID)
		watches.reap()
		require.Equal(t, record.Executing, works.call(program).Status)
		require.Equal(t, run.Running, works.run(r).Status)
		watches.pass(2 * time.Second)
		watches.reap()
		require.Equal(t, record.Failed, works.call(program).Status)
		require.Equal(t, run.Failed, works.run(r).Status)
	})
}

// A run that was made for a program ends with it, also while its process lives.
// The run of an agent goes on: the agent is told that its program failed.
func TestOnlyAProgramsOwnRunEndsWithIt(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, works, watches *process) {
		own, agents := works.create(anna, record.Program), works.create(anna, "skill")
		works.open(anna, own)
		program := works.open(anna, agents)
		child, _ := works.begin(works.open(anna, works.create(anna, record.Program)))
		works.pass(2 * leaseTime)
		works.renew()
		works.change("UPDATE tool_call_results SET lease_expires_at = ?", works.clock().Add(-time.Second))
		watches.pass(2 * leaseTime)
		watches.reap()
		require.Equal(t, run.Failed, works.run(own).Status)
		require.Equal(t, record.Failed, works.call(program).Status)
		require.Equal(t, run.Running, works.run(agents).Status)
		require.Equal(t, record.Failed, works.call(child).Status)
	})
}

// A program that is given up after its run was aborted leaves the run as it is.
func TestARunThatHasEndedStaysAsItEnded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, works, watches *process) {
		r := works.create(anna, record.Program)
		program := works.open(anna, r)
		require.NoError(t, works.db.InTx(t.Context(), func(tx database.Tx) error {
			return works.runs.Finish(t.Context(), tx, r.Ref(), run.Finish{Status: run.Aborted})
		}))
		watches.pass(2 * leaseTime)
		watches.reap()
		require.Equal(t, record.Failed, works.call(program).Status)
		require.Equal(t, run.Aborted, works.run(r).Status)
		events, _ := works.story(r)
		require.Equal(t, run.End, events[len(events)-1])
	})
}

// What a service beside the server executes is renewed by no process, and fails
// at its moment with a reason of its own.
func TestARunOutsideEndsAtItsMoment(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, works, watches *process) {
		var r run.Run
		program := record.Call{
			CallID: "b0a1", Origin: ids.Agent, UID: anna.UID, ResultID: "ar-outside", Toolset: record.Program, Tool: record.Program,
			Input: json.RawMessage(`{"input":{}}`), Status: record.Executing, CreatedAt: works.clock(), ExpiresAt: works.clock().Add(time.Hour),
		}
		require.NoError(t, works.db.InTx(t.Context(), func(tx database.Tx) (err error) {
			if r, err = works.runs.Register(t.Context(), tx, anna, run.OutsideParams{ResultID: program.ResultID, Until: program.ExpiresAt}); err != nil {
				return err
			}
			return works.records.Register(t.Context(), tx, program)
		}))
		works.pass(time.Hour)
		watches.pass(time.Hour)
		works.renew()
		watches.reap()
		require.Equal(t, run.Running, works.run(r).Status)
		watches.pass(time.Second)
		watches.reap()
		require.Equal(t, []string{record.NotFinished}, works.run(r).Errors)
		answer, err := works.call(program).Answer()
		require.NoError(t, err)
		require.Equal(t, record.CodeNotFinished, answer.ErrorCode)
	})
}

// One call that cannot be ended stops neither the others nor the keeper, and
// the failure is told.
func TestWhatCannotBeEndedStopsNothingElse(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, works, watches *process) {
		good, bad := works.create(anna, "skill"), works.create(ben, "skill")
		works.open(anna, good)
		works.open(ben, bad)
		for _, table := range []string{"action_messages", "run_events", "action_results"} {
			works.change("DELETE FROM "+table+" WHERE result_id = ?", bad.ResultID)
		}
		watches.pass(2 * leaseTime)
		require.ErrorIs(t, watches.keeper.Reap(t.Context()), run.ErrMissing)
		require.Equal(t, run.Failed, works.run(good).Status)

		works.change("ALTER TABLE tool_call_results RENAME TO away")
		require.Error(t, watches.keeper.Reap(t.Context()))
	})
}

func TestStartEndsWhatIsDeadAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, works, watches *process) {
		program := works.open(anna, works.create(anna, "skill"))
		require.NoError(t, watches.keeper.Stop(t.Context()), "stopped before it started")
		watches.pass(2 * leaseTime)
		require.NoError(t, watches.keeper.Start(t.Context()))
		require.Equal(t, record.Failed, works.call(program).Status)
		require.NoError(t, watches.keeper.Stop(t.Context()))
		require.NoError(t, watches.keeper.Stop(t.Context()), "stopped twice")

		works.change("ALTER TABLE tool_call_results RENAME TO away")
		require.Error(t, watches.keep(leaseTime).Start(t.Context()), "a server that cannot do this does not start")
	})
}

// A keeper that was started reaps until it is stopped, although what started it is
// long over, and logs a round that failed.
func TestKeeperKeepsWatch(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, works, dead *process) {
		own, lost := works.create(anna, "skill"), dead.create(anna, "skill")
		program, lostProgram := works.open(anna, own), dead.open(anna, lost)
		k := works.keep(time.Second) // three rounds in a second
		starting, started := context.WithCancel(t.Context())
		require.NoError(t, k.Start(starting))
		started()
		dead.change("DELETE FROM nodes WHERE node_id = ?", dead.owner)
		until(t, func() bool { return dead.call(lostProgram).Status == record.Failed })
		require.Equal(t, record.Executing, works.call(program).Status)

		works.change("ALTER TABLE tool_call_results RENAME TO away")
		until(t, func() bool { return len(works.log.String()) > 0 })
		require.NoError(t, k.Stop(t.Context()))
		require.Contains(t, works.log.String(), "what other processes left behind could not be ended")
	})
}

func until(t *testing.T, done func() bool) {
	t.Helper()
	require.Eventually(t, done, time.Minute, 20*time.Millisecond)
}

// agents go on with some calls.
type agents struct {
	records   *record.Service
	spared    map[string]bool
	forgotten []run.Ref
	goesOn    string
}

func (a *agents) GoesOn(_ context.Context, r run.Run) (bool, error) {
	return r.ResultID == a.goesOn, nil
}

func (a *agents) Forget(_ database.Tx, r run.Ref) error {
	a.forgotten = append(a.forgotten, r)
	return nil
}

func (a *agents) Spare(ctx context.Context, c record.Call, now, until time.Time) (bool, error) {
	if !a.spared[c.CallID] {
		return false, nil
	}
	return true, a.records.Postpone(ctx, c, now, until)
}

// A call with which another process will go on is not ended, nor is its run, and both
// are looked at again after a lease.
func TestACallThatGoesOnIsSpared(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, works, watches *process) {
		begin := func(r run.Run) record.Call {
			c := record.Call{
				CallID: works.records.NewID(ids.Agent), Origin: ids.Agent, UID: r.UID, ResultID: r.ResultID, Version: r.Version,
				Toolset: "weather", Tool: "forecast", Input: json.RawMessage(`{"input":{}}`), Status: record.Executing, CreatedAt: works.clock(),
			}
			_, _, err := works.records.Begin(t.Context(), c, record.Once{})
			require.NoError(t, err)
			require.NoError(t, works.records.Hold(t.Context(), c, func(database.Tx) (any, error) { return struct{}{}, nil }))
			return c
		}
		goesOn, ends := works.create(anna, "skill"), works.create(ben, "skill")
		spared, lost := begin(goesOn), begin(ends)
		a := &agents{records: watches.records, spared: map[string]bool{spared.CallID: true}}
		watches.keeper = lease.New(lease.Deps{
			DB: watches.db, Runs: watches.runs, Calls: watches.records, Agents: a, Lease: leaseTime, Logger: slog.New(slog.DiscardHandler), Now: watches.clock,
		})
		for range 3 {
			watches.pass(leaseTime + time.Second)
			watches.reap()
			require.Equal(t, record.Waiting, works.call(spared).Status)
			require.Equal(t, run.Running, works.run(goesOn).Status)
			require.Equal(t, record.Failed, works.call(lost).Status)
			require.Equal(t, run.Failed, works.run(ends).Status)
			require.Equal(t, []run.Ref{ends.Ref()}, a.forgotten, "once, and only what has ended")
		}
		expired, err := watches.records.Expired(t.Context(), watches.clock(), 10)
		require.NoError(t, err)
		require.Empty(t, expired, "it is not looked at before a lease has passed")

		// Its call has ended, and the run goes on all the same, or is ended at last.
		a.spared, a.goesOn = nil, goesOn.ResultID
		watches.pass(leaseTime + time.Second)
		watches.reap()
		require.Equal(t, record.Failed, works.call(spared).Status)
		require.Equal(t, run.Running, works.run(goesOn).Status)
		a.goesOn = ""
		watches.pass(leaseTime + time.Second)
		watches.reap()
		require.Equal(t, record.Failed, works.call(spared).Status)
		require.Equal(t, run.Failed, works.run(goesOn).Status)
	})
}
