package run

import (
	"context"
	"fmt"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
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
	return httpapi.MapPage(httpapi.PageOf(w, rows, total, func(r canvasRow) int64 { return r.PK }), canvasRow.canvas), nil
}

// CanvasOwned reports whether the canvas exists and is the user's.
func (s *Service) CanvasOwned(_ context.Context, h database.Handle, uid, canvasID string) (bool, error) {
	return s.repo.canvasOwned(h, uid, canvasID)
}
