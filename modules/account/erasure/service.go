// Package erasure takes everything of a user's out of the database and the object
// storage, but for the amounts that the books need.
package erasure

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/objectstore"
)

// Accounts refuses the credentials of users.
type Accounts interface {
	// DisableBy refuses every credential of a user, unless that is the last administrator.
	DisableBy(ctx context.Context, by actor.Actor, uid string, disabled bool) error
}

// Work is what users have going on.
type Work interface {
	// Abort ends a run, wherever it runs.
	Abort(ctx context.Context, uid, resultID string, version int) error
	// Refuse ends a call that waits for a person.
	Refuse(ctx context.Context, uid, callID string) error
}

// Deps is what the service needs.
type Deps struct {
	DB       *database.DB
	Objects  objectstore.Store
	Accounts Accounts
	Work     Work
	Logger   *slog.Logger
	// Settle is how long other processes may not know yet that a user is refused.
	Settle time.Duration
	// Patience is how long what goes on may take to end.
	Patience time.Duration
}

// Service erases users. It is for operators and administrators.
type Service struct {
	deps Deps
	rows repository
}

// New returns a service and starts nothing.
func New(d Deps) *Service { return &Service{deps: d} }

// Report is what was erased.
type Report struct {
	// Rows were deleted, or lost what was personal in them.
	Rows int64
	// Objects were deleted from the object storage.
	Objects int64
}

// erased is the action of the audit log.
const erased = "user.erase"

// ErrBusy says that something of the user's still goes on.
var ErrBusy = errs.New(errs.Conflict, "Work of the user has not ended yet.").
	Do("The user is refused from now on and nothing was erased. Repeat it; a paused program with toolsets ends after CODEAPI_IDLE_MS at the latest.")

// Erase takes everything of a user's away. First no credential of theirs counts, then
// what goes on is ended, so that nothing is added meanwhile. Whoever is interrupted
// repeats it; once it is done, repeating it finds nothing.
func (s *Service) Erase(ctx context.Context, by actor.Actor, uid string) (Report, error) {
	u, err := s.rows.user(s.deps.DB.Read(ctx), uid)
	if err != nil {
		return Report{}, err
	}
	if u.DisabledAt == nil {
		if err := s.deps.Accounts.DisableBy(ctx, by, uid, true); err != nil {
			return Report{}, err
		}
		if err := wait(ctx, s.deps.Settle); err != nil {
			return Report{}, err
		}
	}
	if err := s.quiet(ctx, uid); err != nil {
		return Report{}, err
	}
	var r Report
	if r.Objects, err = s.objects(ctx, uid); err != nil {
		return r, fmt.Errorf("objects: %w", err)
	}
	if err := s.each(ctx, &r, "audit_events", func(tx database.Tx) (int64, error) { return s.rows.clearAbout(tx, u) }); err != nil {
		return r, err
	}
	for _, p := range parts() {
		if err := s.each(ctx, &r, p.table, func(tx database.Tx) (int64, error) { return s.rows.next(tx, p, uid) }); err != nil {
			return r, err
		}
	}
	for table, clear := range map[string]func(tx database.Tx) (int64, error){
		"approvals": func(tx database.Tx) (int64, error) { return s.rows.clearDecisions(tx, uid) },
		// After the user's own rows, so that what erasing them wrote is included.
		"audit_events": func(tx database.Tx) (int64, error) { return s.rows.clearOwn(tx, uid) },
	} {
		if err := s.each(ctx, &r, table, clear); err != nil {
			return r, err
		}
	}
	if r == (Report{}) {
		return r, nil
	}
	s.deps.Logger.InfoContext(ctx, "a user was erased", "uid", uid, "rows", r.Rows, "objects", r.Objects)
	return r, s.deps.DB.InTx(ctx, func(tx database.Tx) error {
		if err := s.rows.forgetWords(tx); err != nil {
			return err
		}
		detail := map[string]string{"rows": strconv.FormatInt(r.Rows, 10), "objects": strconv.FormatInt(r.Objects, 10)}
		return audit.Write(tx, audit.Change{By: by, Action: erased, Subject: uid, Detail: detail}, s.deps.DB.Now())
	})
}

// each changes rows of a table, some in each transaction, until none is left.
func (s *Service) each(ctx context.Context, r *Report, table string, next func(tx database.Tx) (int64, error)) error {
	for {
		var n int64
		err := s.deps.DB.InTx(ctx, func(tx database.Tx) (err error) {
			n, err = next(tx)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", table, err)
		}
		if n == 0 {
			return nil
		}
		r.Rows += n
	}
}

// quiet ends what goes on, and returns when nothing does any more.
func (s *Service) quiet(ctx context.Context, uid string) error {
	const look = 200 * time.Millisecond
	for begun := time.Now(); ; {
		busy, err := s.end(ctx, uid)
		if err != nil || !busy {
			return err
		}
		if time.Since(begun) > s.deps.Patience {
			return ErrBusy
		}
		if err := wait(ctx, look); err != nil {
			return err
		}
	}
}

// end ends what goes on, and reports whether there was something.
func (s *Service) end(ctx context.Context, uid string) (busy bool, err error) {
	h := s.deps.DB.Read(ctx)
	calls, err := s.rows.waiting(h, uid)
	if err != nil {
		return false, err
	}
	for _, id := range calls {
		if err := s.deps.Work.Refuse(ctx, uid, id); err != nil {
			return false, err
		}
	}
	runs, err := s.rows.openRuns(h, uid)
	if err != nil {
		return false, err
	}
	for _, r := range runs {
		if err := s.deps.Work.Abort(ctx, uid, r.ResultID, r.Version); err != nil {
			return false, err
		}
	}
	n, err := s.rows.openCalls(h, uid)
	return len(calls) > 0 || len(runs) > 0 || n > 0, err
}

// objects deletes the objects of a user.
func (s *Service) objects(ctx context.Context, uid string) (n int64, err error) {
	for _, prefix := range append(prefixes(uid), temporary) {
		keys, err := s.deps.Objects.List(ctx, prefix)
		if err != nil {
			return n, err
		}
		for _, key := range keys {
			if prefix == temporary && !isOf(key, uid) {
				continue
			}
			if err := s.deps.Objects.Delete(ctx, key); err != nil {
				return n, err
			}
			n++
		}
	}
	return n, nil
}

// isOf reports whether a temporary object is a user's: temporary/END/UID/….
func isOf(key, uid string) bool {
	parts := strings.Split(key, "/")
	return len(parts) > 2 && parts[2] == uid
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
