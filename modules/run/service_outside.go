package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/ids"
)

// Register returns the run that a service executes for the actor: the one that
// was registered before under this id and version, or a new one, which has its
// start event. The user's row and the run's stay locked until the transaction
// ends, so that of two equal requests the second finds what the first made.
//
// It returns ErrMissing for a result id and ErrCanvasMissing for a canvas of
// another user's, ErrEnded when the run is over, and ErrOurs when this server
// executes it itself.
func (s *Service) Register(_ context.Context, tx database.Tx, a actor.Actor, p OutsideParams) (Run, error) {
	if err := p.validate(); err != nil {
		return Run{}, err
	}
	if err := s.repo.lockUser(tx, a.UID); err != nil {
		return Run{}, fmt.Errorf("register run: %w", err)
	}
	if p.ResultID == "" {
		p.ResultID = ids.New(ids.Run)
	}
	r, err := s.repo.lock(tx, Ref{a.UID, p.ResultID, p.Version})
	switch {
	case errors.Is(err, database.ErrNotFound):
		return s.registerNew(tx, a, p)
	case err != nil:
		return Run{}, fmt.Errorf("register run: %w", err)
	case Status(r.Status).Final():
		return Run{}, ErrEnded
	}
	known := r.run()
	if known.ExpiresAt.IsZero() {
		return Run{}, ErrOurs
	}
	if p.CanvasID != "" && p.CanvasID != known.CanvasID {
		return Run{}, errOtherCanvas
	}
	return known, nil
}

func (s *Service) registerNew(tx database.Tx, a actor.Actor, p OutsideParams) (Run, error) {
	foreign, err := s.repo.foreign(tx.Handle, a.UID, p.ResultID)
	if err != nil {
		return Run{}, fmt.Errorf("register run: %w", err)
	}
	if foreign {
		return Run{}, ErrMissing
	}
	open, err := s.repo.outside(tx.Handle, a.UID)
	if err != nil {
		return Run{}, fmt.Errorf("register run: %w", err)
	}
	if open >= maxOutside {
		return Run{}, errManyOutside
	}
	now := s.now()
	r := row{
		ResultID: p.ResultID, Version: p.Version, UID: a.UID, Title: p.Title, Type: defaultType, Status: string(Running), Toolsets: list(p.Toolsets),
		LeaseOwner: new(Outside), LeaseExpiresAt: new(p.Until.UTC()), CreatedAt: now, UpdatedAt: now, EventSeq: 1,
	}
	if p.CanvasID != "" {
		if err := s.adopt(tx, a, p.CanvasID); err != nil {
			return Run{}, err
		}
		r.TargetType, r.TargetID = new(targetCanvas), &p.CanvasID
	}
	if err := s.repo.insert(tx, &r); err != nil {
		if database.IsDuplicate(err) { // another user was faster
			return Run{}, ErrMissing.With(err)
		}
		return Run{}, fmt.Errorf("register run: %w", err)
	}
	return r.run(), s.record(tx, r.run().Ref(), r.EventSeq, NewEvent{Type: Start})
}

// adopt makes a canvas that is kept elsewhere known here, as the actor's.
func (s *Service) adopt(tx database.Tx, a actor.Actor, canvasID string) error {
	owned, err := s.repo.canvasOwned(tx.Handle, a.UID, canvasID)
	if err != nil || owned {
		return err
	}
	now := s.now()
	err = s.repo.insertCanvas(tx, &canvasRow{CanvasID: canvasID, UID: a.UID, Title: untitled, CreatedAt: now, UpdatedAt: now})
	if database.IsDuplicate(err) { // another user's, or deleted
		return ErrCanvasMissing.With(err)
	}
	return err
}

// Prolong lets a registered run of the user's go on until a later moment; an
// earlier one changes nothing.
func (s *Service) Prolong(_ context.Context, tx database.Tx, r Ref, until time.Time) error {
	return s.repo.prolong(tx, r, until)
}
