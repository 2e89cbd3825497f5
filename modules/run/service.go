package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/portico-run/portico/modules/internal/actor"
	"github.com/portico-run/portico/modules/internal/database"
	"github.com/portico-run/portico/modules/internal/errs"
	"github.com/portico-run/portico/modules/internal/httpapi"
	"github.com/portico-run/portico/modules/internal/ids"
)

// Service keeps runs, their journals and canvases.
type Service struct {
	Deps
	rows repository
}

// Create begins a run: it is running, leased by this process, and its journal
// starts. A run id of the caller's is continued as its next version; any
// other existing one is refused like a missing one.
func (s *Service) Create(ctx context.Context, a actor.Actor, p CreateParams) (Run, error) {
	if err := p.validate(); err != nil {
		return Run{}, err
	}
	input, err := json.Marshal(p.Input)
	if err != nil {
		return Run{}, fmt.Errorf("encode the input of a run: %w", err)
	}
	var created Run
	err = s.DB.InTx(ctx, func(tx database.Tx) error {
		row, err := s.prepare(tx, a, p)
		if err != nil {
			return err
		}
		text := string(input)
		row.Input = &text
		if err := s.rows.insert(tx, row); err != nil {
			return err
		}
		if created, err = s.rows.newest(tx.Handle, a.UID, row.ResultID, &row.Version); err != nil {
			return err
		}
		_, err = s.Append(ctx, tx, a.UID, row.ResultID, row.Version, NewEvent{Type: Start})
		return err
	})
	if database.IsDuplicate(err) {
		return Run{}, errs.New(errs.Conflict, "Another version of the run was started at the same moment.").Do("Try again.").With(err)
	}
	return created, err
}

func (p CreateParams) validate() error {
	switch {
	case p.ResultID != "" && !idForm.MatchString(p.ResultID):
		return errs.New(errs.Invalid, "resultId is too long or has characters that are not allowed.")
	case len(p.Title) > MaxTitle || !utf8.ValidString(p.Title) || strings.ContainsRune(p.Title, 0):
		return errs.Newf(errs.Invalid, "title is longer than %d bytes or not plain text.", MaxTitle)
	}
	return nil
}

// prepare fills the row of a new run and checks what it refers to.
func (s *Service) prepare(tx database.Tx, a actor.Actor, p CreateParams) (resultRow, error) {
	now := s.Now()
	until := now.Add(s.Lease)
	row := resultRow{
		ResultID: p.ResultID, Type: p.Type, UID: a.UID, Title: p.Title, Status: Running,
		LeaseOwner: &s.Owner, LeaseExpiresAt: &until, CreatedAt: now, UpdatedAt: now,
	}
	if len(p.Toolsets) > 0 {
		b, err := json.Marshal(p.Toolsets)
		if err != nil {
			return row, err
		}
		text := string(b)
		row.Toolsets = &text
	}
	if p.CanvasID != "" {
		if err := s.rows.hasCanvas(tx.Handle, a.UID, p.CanvasID); err != nil {
			return row, err
		}
		target := canvasTarget
		row.TargetType, row.TargetID = &target, &p.CanvasID
	}
	if p.ResultID == "" {
		row.ResultID = ids.New(ids.Run)
		return row, nil
	}
	before, err := s.rows.newest(tx.Handle, a.UID, p.ResultID, nil)
	switch {
	case err == nil && !before.Status.Ended():
		return row, errs.New(errs.Conflict, "The run is still running.").Do("Wait for its end, or leave resultId out to start another run.")
	case err == nil:
		row.Version = before.Version + 1
	case errors.Is(err, ErrMissing):
		taken, err := s.rows.taken(tx.Handle, p.ResultID)
		if err != nil {
			return row, err
		}
		if taken {
			return row, ErrMissing
		}
	default:
		return row, err
	}
	return row, nil
}

// Get returns a run of the actor's; a nil version is the newest. Absent and
// another user's are the same ErrMissing.
func (s *Service) Get(ctx context.Context, a actor.Actor, resultID string, version *int) (Run, error) {
	return s.rows.newest(s.DB.Read(ctx), a.UID, resultID, version)
}

// List returns a page of the actor's runs, newest first.
func (s *Service) List(ctx context.Context, a actor.Actor, p httpapi.PageQuery) (httpapi.Page[Run], error) {
	before, err := httpapi.DecodeCursor(p.Cursor)
	if err != nil {
		return httpapi.Page[Run]{}, err
	}
	runs, err := s.rows.list(s.DB.Read(ctx), a.UID, before, p.Limit+1)
	if err != nil {
		return httpapi.Page[Run]{}, err
	}
	return httpapi.PageOf(runs, p.Limit, func(r Run) int64 { return r.PK }), nil
}

// Owns reports whether the user has this version of the run.
func (s *Service) Owns(_ context.Context, h database.Handle, uid, resultID string, version int) (bool, error) {
	_, err := s.rows.newest(h, uid, resultID, &version)
	return owned(err, ErrMissing)
}

// CanvasOwned reports whether the user has the canvas.
func (s *Service) CanvasOwned(_ context.Context, h database.Handle, uid, canvasID string) (bool, error) {
	return owned(s.rows.hasCanvas(h, uid, canvasID), ErrCanvasMissing)
}

func owned(err, missing error) (bool, error) {
	if errors.Is(err, missing) {
		return false, nil
	}
	return err == nil, err
}

// Append adds an event to the journal of a run that has not ended, in the
// caller's transaction, and wakes the run's readers once it commits. It locks
// the run's row until then: take every other lock first.
func (s *Service) Append(_ context.Context, tx database.Tx, uid, resultID string, version int, e NewEvent) (int64, error) {
	payload := []byte("{}")
	if e.Payload != nil {
		var err error
		if payload, err = json.Marshal(e.Payload); err != nil {
			return 0, fmt.Errorf("encode a %s event: %w", e.Type, err)
		}
	}
	seq, err := s.rows.nextSeq(tx, uid, resultID, version)
	if err != nil {
		return 0, err
	}
	row := eventRow{ResultID: resultID, Version: version, Seq: seq, Type: e.Type, Payload: string(payload), CreatedAt: s.Now()}
	if e.CallID != "" {
		row.CallID = &e.CallID
	}
	if err := s.rows.insertEvent(tx, row); err != nil {
		return 0, err
	}
	return seq, tx.Notify(Topic(resultID))
}

// Finish ends a run with its last event, in the caller's transaction. It
// returns ErrEnded for a run that has ended already.
func (s *Service) Finish(ctx context.Context, tx database.Tx, uid, resultID string, version int, f Finish) error {
	if _, err := s.Append(ctx, tx, uid, resultID, version, NewEvent{Type: End, Payload: map[string]any{"status": f.Status}}); err != nil {
		return err
	}
	set := map[string]any{
		"status": f.Status, "ptc_enabled": f.PTCEnabled, "lease_owner": nil, "lease_expires_at": nil, "updated_at": s.Now(),
	}
	if len(f.Errors) > 0 {
		b, err := json.Marshal(f.Errors)
		if err != nil {
			return fmt.Errorf("encode the errors of a run: %w", err)
		}
		set["errors"], set["error_type"] = string(b), "systemError"
	}
	return s.rows.finish(tx, uid, resultID, version, set)
}

// Events returns the journal of a run of the actor's after a seq, oldest
// first.
func (s *Service) Events(ctx context.Context, a actor.Actor, resultID string, version int, after int64, limit int) ([]Event, error) {
	h := s.DB.Read(ctx)
	if _, err := s.rows.newest(h, a.UID, resultID, &version); err != nil {
		return nil, err
	}
	return s.rows.events(h, resultID, version, after, limit)
}

// Renew prolongs the leases of a process's running runs.
func (s *Service) Renew(ctx context.Context, owner string, until time.Time) error {
	return s.DB.InTx(ctx, func(tx database.Tx) error { return s.rows.renew(tx, owner, until) })
}

// Expired lists running runs whose process has shown no sign of life.
func (s *Service) Expired(ctx context.Context, now time.Time, limit int) ([]Run, error) {
	return s.rows.expired(s.DB.Read(ctx), now, limit)
}

// CreateCanvas makes a canvas for the actor.
func (s *Service) CreateCanvas(ctx context.Context, a actor.Actor, title string) (Canvas, error) {
	if title == "" {
		title = "Untitled"
	}
	if err := (CreateParams{Title: title}).validate(); err != nil {
		return Canvas{}, err
	}
	now := s.Now()
	row := canvasRow{CanvasID: ids.New(ids.Canvas), UID: a.UID, Title: title, Status: "ready", Visibility: true, CreatedAt: now, UpdatedAt: now}
	err := s.DB.InTx(ctx, func(tx database.Tx) error { return s.rows.insertCanvas(tx, row) })
	return row.canvas(), err
}

// Canvases returns a page of the actor's canvases, newest first.
func (s *Service) Canvases(ctx context.Context, a actor.Actor, p httpapi.PageQuery) (httpapi.Page[Canvas], error) {
	before, err := httpapi.DecodeCursor(p.Cursor)
	if err != nil {
		return httpapi.Page[Canvas]{}, err
	}
	all, err := s.rows.canvases(s.DB.Read(ctx), a.UID, before, p.Limit+1)
	if err != nil {
		return httpapi.Page[Canvas]{}, err
	}
	return httpapi.PageOf(all, p.Limit, func(c Canvas) int64 { return c.PK }), nil
}
