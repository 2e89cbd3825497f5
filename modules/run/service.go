package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/cached"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/drain"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/ids"
)

// Service holds the rules of runs, their events and their canvases.
type Service struct {
	db    *database.DB
	repo  repository
	now   func() time.Time
	owner string
	known *cached.Cache[Ref, struct{}] // to be their user's
}

// createTimeout bounds the transaction that makes a run.
const createTimeout = 15 * time.Second

// Create begins a run: it is running, lives with this process, and has its
// start event. It returns ErrMissing when the result id is another user's and
// ErrCanvasMissing when the canvas is not the caller's.
func (s *Service) Create(ctx context.Context, a actor.Actor, p CreateParams) (Run, error) {
	if err := drain.Admit(ctx); err != nil {
		return Run{}, err
	}
	if err := p.validate(); err != nil {
		return Run{}, err
	}
	known := false
	now := s.now()
	r := row{
		ResultID: p.ResultID, UID: a.UID, Title: p.Title, Type: p.Type, Status: string(Running),
		Input: database.Optional(string(p.Input)), Toolsets: list(p.Toolsets), History: list(p.History), LeaseOwner: &s.owner,
		CreatedAt: now, UpdatedAt: now, EventSeq: 1,
	}
	if r.Type == "" {
		r.Type = defaultType
	}
	r.ask(p.Asked)
	if p.CanvasID != "" {
		r.TargetType, r.TargetID = new(targetCanvas), &p.CanvasID
	}
	if err := ctx.Err(); err != nil {
		return Run{}, err
	}
	// A caller that goes away meanwhile does not end the transaction: whether it was
	// committed would not be known, and this process keeps its running runs alive.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
	defer cancel()
	err := s.db.InTx(ctx, func(tx database.Tx) error {
		var err error
		if known, err = s.place(tx, a, &r); err != nil {
			return err
		}
		if err := s.repo.insert(tx, &r); err != nil {
			return err
		}
		if err := s.record(tx, r.run().Ref(), r.EventSeq, NewEvent{Type: Start}); err != nil || p.Also == nil {
			return err
		}
		return p.Also(ctx, tx, r.run().Ref())
	})
	if database.IsDuplicate(err) {
		// Versions begin at 0 and have no gaps: who owns none and collides
		// has named another user's run.
		if !known {
			return Run{}, ErrMissing.With(err)
		}
		return Run{}, errRaced.With(err)
	}
	if err != nil {
		return Run{}, fmt.Errorf("create run: %w", err)
	}
	return r.run(), nil
}

// place decides the id and version of a new run and checks its canvas. known
// says that the user has had earlier versions.
func (s *Service) place(tx database.Tx, a actor.Actor, r *row) (known bool, err error) {
	if r.TargetID != nil {
		owned, err := s.repo.canvasOwned(tx.Handle, a.UID, *r.TargetID)
		if err != nil {
			return false, err
		}
		if !owned {
			return false, ErrCanvasMissing
		}
	}
	if r.ResultID == "" {
		r.ResultID = ids.New(ids.Run)
		return false, nil
	}
	newest, err := s.repo.get(tx.Handle, a.UID, r.ResultID, nil)
	if errors.Is(err, database.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	r.Version = newest.Version + 1
	return true, nil
}

// Get returns one version of a run, the newest one when version is nil. It
// returns ErrMissing when the run does not exist or is another user's.
func (s *Service) Get(ctx context.Context, a actor.Actor, resultID string, version *int) (Run, error) {
	r, err := s.repo.get(s.db.Read(ctx), a.UID, resultID, version)
	if errors.Is(err, database.ErrNotFound) {
		return Run{}, ErrMissing
	}
	if err != nil {
		return Run{}, fmt.Errorf("read run: %w", err)
	}
	return r.run(), nil
}

// List returns the caller's runs that a filter lets through, newest first.
func (s *Service) List(ctx context.Context, a actor.Actor, f Filter, p httpapi.PageQuery) (httpapi.Page[Run], error) {
	w, err := p.Window()
	if err != nil {
		return httpapi.Page[Run]{}, err
	}
	rows, total, err := s.repo.list(s.db.Read(ctx), a.UID, f, w)
	if err != nil {
		return httpapi.Page[Run]{}, fmt.Errorf("list runs: %w", err)
	}
	return httpapi.MapPage(httpapi.PageOf(w, rows, total, func(r row) int64 { return r.PK }), row.run), nil
}

// Owns reports whether the run exists and is the user's.
func (s *Service) Owns(ctx context.Context, r Ref) (bool, error) {
	_, err := s.known.Get(ctx, r, func(ctx context.Context) (none struct{}, err error) {
		_, err = s.repo.get(s.db.Read(ctx), r.UID, r.ResultID, &r.Version)
		return none, err
	})
	if errors.Is(err, database.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Finish writes how a run ended, and its end event, which is the last one. It
// returns ErrEnded when the run was over already, so that of two that want to
// end a run one does.
func (s *Service) Finish(_ context.Context, tx database.Tx, r Ref, f Finish) error {
	if !f.Status.Final() {
		return fmt.Errorf("finish run: %q is not a final status", f.Status)
	}
	seq, err := s.repo.advance(tx, r, map[string]any{
		"status": string(f.Status), "ptc_enabled": f.PTCEnabled, "errors": list(f.Errors), "model_name": textOf(f.Model),
		"error_type": f.errorType(), "warnings": list(f.Warnings), "handoff": handoff(f.Handoff), "lease_owner": nil, "lease_expires_at": nil, "updated_at": s.now(),
	})
	if err != nil {
		return fmt.Errorf("finish run: %w", err)
	}
	end := NewEvent{Type: End, Payload: struct {
		Status Status `json:"status"`
	}{f.Status}}
	return s.record(tx, r, seq, end)
}
