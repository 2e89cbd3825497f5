package run

import (
	"context"
	"fmt"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/ids"
)

// CreateCanvas makes a canvas. An empty title becomes "Untitled".
func (s *Service) CreateCanvas(ctx context.Context, a actor.Actor, title string) (Canvas, error) {
	if err := text("title", title, maxCanvasName); err != nil {
		return Canvas{}, err
	}
	if title == "" {
		title = untitled
	}
	now := s.now()
	r := canvasRow{CanvasID: ids.New(ids.Canvas), UID: a.UID, Title: title, CreatedAt: now, UpdatedAt: now}
	err := s.db.InTx(ctx, func(tx database.Tx) error { return s.repo.insertCanvas(tx, &r) })
	if err != nil {
		return Canvas{}, fmt.Errorf("create canvas: %w", err)
	}
	return r.canvas(), nil
}

// Canvases returns the caller's canvases, newest first.
func (s *Service) Canvases(ctx context.Context, a actor.Actor, p httpapi.PageQuery) (httpapi.Page[Canvas], error) {
	w, err := p.Window()
	if err != nil {
		return httpapi.Page[Canvas]{}, err
	}
	rows, total, err := s.repo.canvases(s.db.Read(ctx), a.UID, w)
	if err != nil {
		return httpapi.Page[Canvas]{}, fmt.Errorf("list canvases: %w", err)
	}
	page := httpapi.MapPage(httpapi.PageOf(w, rows, total, func(r canvasRow) int64 { return r.PK }), canvasRow.canvas)
	if err := s.repo.measure(s.db.Read(ctx), a.UID, page.Items); err != nil {
		return page, fmt.Errorf("measure canvases: %w", err)
	}
	return page, nil
}

// Canvas returns a canvas of the caller's, or ErrCanvasMissing.
func (s *Service) Canvas(ctx context.Context, a actor.Actor, canvasID string) (Canvas, error) {
	h := s.db.Read(ctx)
	r, err := s.repo.canvas(h, a.UID, canvasID)
	if err != nil {
		return Canvas{}, err
	}
	one := []Canvas{r.canvas()}
	err = s.repo.measure(h, a.UID, one)
	return one[0], err
}

// RenameCanvas gives a canvas of the caller's another title.
func (s *Service) RenameCanvas(ctx context.Context, a actor.Actor, canvasID, title string) (Canvas, error) {
	if title == "" {
		return Canvas{}, errs.New(errs.Invalid, "title is empty.").Do("Send 1 to 200 characters.")
	}
	if err := text("title", title, maxCanvasName); err != nil {
		return Canvas{}, err
	}
	err := s.db.InTx(ctx, func(tx database.Tx) error {
		return s.repo.changeCanvas(tx, a.UID, canvasID, map[string]any{"title": title, "updated_at": s.now()})
	})
	if err != nil {
		return Canvas{}, err
	}
	return s.Canvas(ctx, a, canvasID)
}

// DeleteCanvas takes a canvas of the caller's away. Its runs stay, and so do its
// files: package drive deletes them before. It returns ErrCanvasBusy while a run
// of the canvas has not ended.
func (s *Service) DeleteCanvas(ctx context.Context, a actor.Actor, canvasID string) error {
	return s.db.InTx(ctx, func(tx database.Tx) error {
		err := s.repo.changeCanvas(tx, a.UID, canvasID, map[string]any{"deleted_at": s.now()})
		if err != nil {
			return err
		}
		return s.idle(tx.Handle, a, canvasID)
	})
}

// CanvasIdle returns ErrCanvasBusy while a run of the canvas has not ended.
func (s *Service) CanvasIdle(ctx context.Context, a actor.Actor, canvasID string) error {
	return s.idle(s.db.Read(ctx), a, canvasID)
}

func (s *Service) idle(h database.Handle, a actor.Actor, canvasID string) error {
	busy, err := s.repo.canvasBusy(h, a.UID, canvasID)
	if err == nil && busy {
		return ErrCanvasBusy
	}
	return err
}

// CanvasOwned reports whether the canvas exists and is the user's.
func (s *Service) CanvasOwned(_ context.Context, h database.Handle, uid, canvasID string) (bool, error) {
	return s.repo.canvasOwned(h, uid, canvasID)
}
