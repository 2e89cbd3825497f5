package drive

import (
	"context"
	"errors"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
)

// errNotEmpty is a canvas with files that is to be deleted without force.
var errNotEmpty = errs.New(errs.Conflict, "The canvas has files, which would be deleted with it.").Do("Send force=true to delete both.")

// deletedAtOnce is how many files of a canvas are read at once.
const deletedAtOnce = 100

// DeleteCanvas deletes a canvas of the actor's, with force also its files. When
// it fails half way the canvas is still there, without some of its files.
func (s *Service) DeleteCanvas(ctx context.Context, a actor.Actor, canvasID string, force bool) error {
	owned, err := s.canvases.CanvasOwned(ctx, s.db.Read(ctx), a.UID, canvasID)
	if err == nil && !owned {
		return ErrCanvasMissing
	}
	if err != nil {
		return err
	}
	if err := s.canvases.CanvasIdle(ctx, a, canvasID); err != nil {
		return err // before any file is gone
	}
	if err := s.empty(ctx, a, canvasID, force); err != nil {
		return err
	}
	if err := s.canvases.DeleteCanvas(ctx, a, canvasID); err != nil {
		return err
	}
	return s.empty(ctx, a, canvasID, true) // what was uploaded meanwhile
}

// empty deletes the files of a canvas; without force there may be none.
func (s *Service) empty(ctx context.Context, a actor.Actor, canvasID string, force bool) error {
	for {
		rows, err := s.rows.ofCanvas(s.db.Read(ctx), a.UID, canvasID, deletedAtOnce)
		if err != nil || len(rows) == 0 {
			return err
		}
		if !force {
			return errNotEmpty
		}
		for _, r := range rows {
			if err := s.Delete(ctx, a, r.FileID); err != nil && !errors.Is(err, ErrMissing) {
				return err
			}
		}
	}
}
