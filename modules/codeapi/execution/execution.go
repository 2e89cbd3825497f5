package execution

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/tenant"
	"github.com/portico-run/portico/modules/codeapi/session"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/sandbox"
)

// execution is one program that may pause. Its process stays alive while the
// caller executes calls for it.
type execution struct {
	id       string
	who      actor.Actor
	work     *session.Workspace
	phrases  bool            // how the caller is answered
	opened   *program.Opened // the record of a program with toolsets; nil without
	calls    *exchange
	ctx      context.Context //nolint:containedctx // ends the program
	cancel   context.CancelCauseFunc
	recorded atomic.Bool // as an execution that paused

	sandbox  sandbox.Execution
	dead     chan struct{} // closed when nothing of the program runs any more
	finished chan struct{} // closed when reply is set
	reply    Reply
	err      error
}

// next waits until the program pauses or ends. When the caller goes away, the
// program ends. One caller waits for a program at a time.
func (s *Service) next(ctx context.Context, e *execution) (Reply, error) {
	for {
		select {
		case <-e.finished:
			return e.reply, e.err
		case <-ctx.Done():
			e.cancel(errDisconnected)
			<-e.finished
			return Reply{}, ctx.Err()
		case <-e.calls.arrived:
		}
		e.calls.linger(e.finished)
		reply, paused, err := s.pause(ctx, e)
		if err != nil || paused {
			return reply, err
		}
	}
}

// pause takes the turn of the program away and hands the calls that wait to
// the caller. It reports false when there are none, or the program has ended
// or is being ended.
func (s *Service) pause(ctx context.Context, e *execution) (Reply, bool, error) {
	if !e.calls.due() {
		return Reply{}, false, nil
	}
	if err := e.sandbox.Pause(); err != nil {
		e.cancel(errCrowded)
		<-e.finished
		if e.reply.Cause == Crowded && e.reply.Made == 0 {
			return Reply{}, false, err // as if it had not begun
		}
		return Reply{}, false, nil
	}
	if err := s.record(ctx, e); err != nil {
		e.cancel(err)
		return Reply{}, false, err
	}
	number, calls, begun := e.calls.begin()
	if !begun {
		return Reply{}, false, nil // it ended while that was written
	}
	token, err := s.tokens.issue(ticket{
		Execution: e.id, Session: e.work.Session, UID: e.who.UID, Round: number, Expires: s.now().Add(s.settings.Idle).Unix(), Node: s.settings.Owner,
	})
	if err != nil {
		e.cancel(err)
		return Reply{}, false, err
	}
	s.observer.Round(len(calls))
	return Reply{Session: e.work.Session, Token: token, Calls: calls}, true, nil
}

// record writes down, at the first pause, that this process holds the program.
// Only whoever waits for the program calls it, so that it is written once.
func (s *Service) record(ctx context.Context, e *execution) error {
	if e.recorded.Load() {
		return nil
	}
	now := s.now()
	err := s.db.InTx(ctx, func(tx database.Tx) error {
		if err := tenant.LockEnabled(tx, e.who.UID); err != nil {
			return err
		}
		return s.rows.insertExecution(tx, executionRow{
			ExecutionID: e.id, SessionID: e.work.Session, UID: e.who.UID, Owner: s.settings.Owner, Status: statusOpen,
			CreatedAt: now, UpdatedAt: now,
		})
	})
	if err != nil {
		return fmt.Errorf("record the paused program %s: %w", e.id, err)
	}
	e.recorded.Store(true)
	if e.calls.closed() { // its end found nothing to write on
		s.recordEnd(ctx, e)
	}
	return nil
}

// statusOpen is an execution that a process holds, or held when it was killed.
const statusOpen = "open"

// recordEnd records how a program that paused has ended.
func (s *Service) recordEnd(ctx context.Context, e *execution) {
	if !e.recorded.Load() {
		return
	}
	status := map[Cause]string{
		"": "completed", Lost: "failed", Exited: "failed", MemoryLimit: "failed", WasKilled: "failed", RoundLimit: "failed",
		TimeLimit: "timed_out", IdleLimit: "expired",
	}[e.reply.Cause]
	if status == "" {
		status = "cancelled"
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	err := s.db.InTx(ctx, func(tx database.Tx) error { return s.rows.endExecution(tx, e.who.UID, e.id, status, s.now()) })
	if err != nil {
		s.logger.ErrorContext(ctx, "the end of a program was not recorded", "execution", e.id, "error", err)
	}
}
