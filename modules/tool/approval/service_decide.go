package approval

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/ids"
)

// Ruling is what somebody decides of a call.
type Ruling struct {
	CallID   string
	Decision Decision
	// Arguments replace those of the call; empty leaves them.
	Arguments json.RawMessage
	// Pattern says which arguments AllowAlways covers; empty for exactly those of
	// the call.
	Pattern json.RawMessage
	// Reason is for the caller whose call is refused.
	Reason string
}

const (
	maxReason      = 1000
	maxPermissions = 500
	noReason       = "No reason was given."
)

// Get returns one approval. It returns ErrMissing where there is none of the
// actor's.
func (s *Service) Get(ctx context.Context, a actor.Actor, callID string) (Approval, error) {
	row, err := s.rows.find(s.deps.DB.Read(ctx), a.UID, callID)
	return row.approval(), err
}

// List returns a page of the actor's approvals: those that wait, the oldest first,
// or all, the newest first.
func (s *Service) List(ctx context.Context, a actor.Actor, all bool, p httpapi.PageQuery) (httpapi.Page[Approval], error) {
	w, err := p.Window()
	if err != nil {
		return httpapi.Page[Approval]{}, err
	}
	rows, total, err := s.rows.list(s.deps.DB.Read(ctx), a.UID, all, w)
	if err != nil {
		return httpapi.Page[Approval]{}, err
	}
	return httpapi.MapPage(httpapi.PageOf(w, rows, total, func(r approvalRow) int64 { return r.PK }), approvalRow.approval), nil
}

// Decide settles an approval of the actor's, and returns it as it is then. The
// error is Settled where it was before, with what was decided.
func (s *Service) Decide(ctx context.Context, a actor.Actor, r Ruling) (Approval, error) {
	return s.decide(ctx, a, a, r)
}

func (s *Service) decide(ctx context.Context, a, by actor.Actor, r Ruling) (Approval, error) {
	if err := r.validate(); err != nil {
		return Approval{}, err
	}
	row, err := s.rows.find(s.deps.DB.Read(ctx), a.UID, r.CallID)
	if err != nil {
		return Approval{}, err
	}
	if row.State != Waiting {
		return row.approval(), settledBefore(row)
	}
	columns, permission, err := s.ruled(ctx, a, row, r)
	if err != nil {
		return Approval{}, err
	}
	columns["decided_by"] = by.UID
	say := approvalSaid{State: columns["state"].(State), Decision: r.Decision, Reason: r.Reason} //nolint:forcetypeassert // ruled sets it
	err = s.settle(ctx, row, ending{
		before: s.deps.Now(), columns: columns, say: say,
		then: func(tx database.Tx) error { return s.follow(tx, by, row, r, permission) },
	})
	if err != nil && !errors.Is(err, errLate) {
		return Approval{}, err
	}
	now, readErr := s.rows.find(s.deps.DB.Read(ctx), a.UID, r.CallID)
	switch {
	case readErr != nil:
		return Approval{}, readErr
	case err != nil:
		return now.approval(), settledBefore(now)
	}
	return now.approval(), nil
}

func (r Ruling) validate() error {
	switch {
	case !slices.Contains([]Decision{Allow, AllowRun, AllowAlways, Refuse}, r.Decision):
		return errs.Newf(errs.Invalid, "decision %q is none of allow, allow_run, allow_always and refuse.", r.Decision)
	case len([]rune(r.Reason)) > maxReason:
		return errs.Newf(errs.TooLarge, "The reason has more than %d characters.", maxReason)
	case r.Decision == Refuse && len(r.Arguments)+len(r.Pattern) > 0:
		return errs.New(errs.Invalid, "A call that is refused takes neither arguments nor a pattern.")
	case r.Decision != AllowAlways && len(r.Pattern) > 0:
		return errs.New(errs.Invalid, "pattern belongs to the decision allow_always.")
	}
	return nil
}

// ruled is what a ruling changes of a row, and the permission that it gives.
func (s *Service) ruled(ctx context.Context, a actor.Actor, row approvalRow, r Ruling) (columns map[string]any, p *permissionRow, err error) {
	if row.Question != nil {
		columns, err = s.answered(row, r)
		return columns, nil, err
	}
	if r.Decision == Refuse {
		return map[string]any{"state": Refused, "decision": r.Decision, "note": cmp.Or(r.Reason, noReason)}, nil, nil
	}
	columns = map[string]any{"state": Allowed, "decision": r.Decision, "note": r.Reason}
	arguments := json.RawMessage(row.Arguments)
	if len(r.Arguments) > 0 && string(r.Arguments) != "null" {
		arguments = r.Arguments
		if err := s.deps.Check(ctx, a, row.Toolset, row.Tool, arguments); err != nil {
			return nil, nil, err
		}
		columns["changed_arguments"] = string(arguments)
	}
	p = &permissionRow{PermissionID: ids.New("perm"), UID: row.UID, Toolset: row.Toolset, Tool: row.Tool, CreatedAt: s.deps.Now()}
	switch r.Decision {
	case AllowRun:
		p.ResultID = row.ResultID
		if !row.inRun() {
			return nil, nil, errs.New(errs.Conflict, "The call belongs to no run.").Do("Decide allow, or allow_always with a pattern.")
		}
		return columns, p, nil
	case AllowAlways:
		pattern, err := patternOf(r.Pattern, arguments)
		p.Pattern = string(pattern)
		return columns, p, err
	}
	return columns, nil, nil
}

// follow writes what else a decision means.
func (s *Service) follow(tx database.Tx, by actor.Actor, row approvalRow, r Ruling, p *permissionRow) error {
	if p != nil && p.Pattern != "" {
		n, err := s.rows.countPermissions(tx.Handle, row.UID)
		if err != nil {
			return err
		}
		if n >= maxPermissions {
			return errs.Newf(errs.Conflict, "You have %d standing permissions, as many as there may be.", n).Do("Take some back: GET /v1/tool/approvals/permissions lists them.")
		}
	}
	if p != nil {
		if err := s.rows.insertPermission(tx, *p); err != nil {
			return err
		}
	}
	detail := map[string]string{"tool": row.Toolset + "." + row.Tool, "decision": string(r.Decision), "user": row.UID}
	if len(r.Arguments) > 0 {
		detail["arguments"] = "changed"
	}
	return audit.Write(tx, audit.Change{By: by, Action: "approval.decide", Subject: row.CallID, Detail: detail}, s.deps.Now())
}

// settledBefore tells somebody who comes late what was decided.
func settledBefore(row approvalRow) error {
	what := string(row.State)
	if row.State == Waiting { // its time is up, or its process gone, and nobody has noted it yet
		what = string(Expired)
	}
	return errs.Newf(errs.Settled, "The approval is already settled: %s.", what).Do("Read it by GET /v1/tool/approvals/" + row.CallID + ".")
}

// Permissions returns a page of what the actor has allowed for later calls, the
// newest first.
func (s *Service) Permissions(ctx context.Context, a actor.Actor, p httpapi.PageQuery) (httpapi.Page[Permission], error) {
	w, err := p.Window()
	if err != nil {
		return httpapi.Page[Permission]{}, err
	}
	rows, total, err := s.rows.listPermissions(s.deps.DB.Read(ctx), a.UID, w)
	if err != nil {
		return httpapi.Page[Permission]{}, err
	}
	return httpapi.MapPage(httpapi.PageOf(w, rows, total, func(r permissionRow) int64 { return r.PK }), permissionRow.permission), nil
}

// Withdraw takes a permission of the actor's back: calls wait again.
func (s *Service) Withdraw(ctx context.Context, a actor.Actor, id string) error {
	return s.deps.DB.InTx(ctx, func(tx database.Tx) error {
		if err := s.rows.deletePermission(tx, a.UID, id); err != nil {
			return err
		}
		return audit.Write(tx, audit.Change{By: a, Action: "approval.withdraw", Subject: id}, s.deps.Now())
	})
}
