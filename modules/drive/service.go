package drive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/discard"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/internal/signing"
)

// Service keeps files.
type Service struct {
	db        *database.DB
	objects   objectstore.Store
	gone      *discard.Service
	canvases  Canvases
	tables    Tables
	elsewhere func(h database.Handle, uid string) (int64, error)
	settings  Settings
	now       func() time.Time
	rows      repository
	linkKeys  signing.Keys
}

// List returns the files of a canvas, or all of the caller's when canvasID is
// empty, newest first.
func (s *Service) List(ctx context.Context, a actor.Actor, canvasID string, p httpapi.PageQuery) (httpapi.Page[File], error) {
	w, err := p.Window()
	if err != nil {
		return httpapi.Page[File]{}, err
	}
	rows, total, err := s.rows.list(s.db.Read(ctx), a.UID, canvasID, w)
	if err != nil {
		return httpapi.Page[File]{}, fmt.Errorf("list files: %w", err)
	}
	return httpapi.MapPage(httpapi.PageOf(w, rows, total, func(r row) int64 { return r.PK }), row.file), nil
}

// Get returns what is known about a file. It returns ErrMissing when there is
// none, or it is another user's.
func (s *Service) Get(ctx context.Context, a actor.Actor, fileID string) (File, error) {
	r, err := s.rows.get(s.db.Read(ctx), a.UID, fileID)
	return r.file(), err
}

// Find returns the file of a canvas that has a name, or an id.
func (s *Service) Find(ctx context.Context, a actor.Actor, canvasID, name string) (File, error) {
	r, found, err := s.rows.named(s.db.Read(ctx), a.UID, canvasID, name)
	if err != nil {
		return File{}, err
	}
	if found && r.StorageKey != nil {
		return r.file(), nil
	}
	f, err := s.Get(ctx, a, name)
	if err == nil && f.CanvasID != canvasID {
		return File{}, ErrMissing
	}
	return f, err
}

// Open returns a file and its content, which the caller closes.
func (s *Service) Open(ctx context.Context, a actor.Actor, fileID string) (File, io.ReadSeekCloser, error) {
	for last := ""; ; {
		r, err := s.rows.get(s.db.Read(ctx), a.UID, fileID)
		if err != nil {
			return File{}, nil, err
		}
		content, err := objectstore.Open(ctx, s.objects, *r.StorageKey, r.Size)
		if err == nil || !errors.Is(err, objectstore.ErrNotFound) {
			return r.file(), content, err
		}
		if *r.StorageKey == last {
			return r.file(), nil, ErrMissing.With(err)
		}
		last = *r.StorageKey // it may have been replaced since the row was read
	}
}

// Read returns a file and all of its content; ErrTooLarge when that is longer
// than limit bytes.
func (s *Service) Read(ctx context.Context, a actor.Actor, fileID string, limit int64) (File, []byte, error) {
	f, content, err := s.Open(ctx, a, fileID)
	if err != nil {
		return File{}, nil, err
	}
	defer func() { _ = content.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(content, limit+1))
	if err == nil && int64(len(b)) > limit {
		return f, nil, ErrTooLarge.Do(fmt.Sprintf("It has %d bytes; %d can be read here.", f.Size, limit))
	}
	return f, b, err
}

// Delete removes a file for good: nobody reads it from now on, and its content goes.
func (s *Service) Delete(ctx context.Context, a actor.Actor, fileID string) error {
	r, err := s.rows.get(s.db.Read(ctx), a.UID, fileID)
	if err != nil {
		return err
	}
	err = s.db.InTx(ctx, func(tx database.Tx) error {
		if err := s.rows.update(tx, a.UID, fileID, map[string]any{"deleted_at": s.now(), "size": 0}); err != nil {
			return err
		}
		return discard.Later(tx, a.UID, s.now(), *r.StorageKey)
	})
	if err == nil {
		s.gone.Try(ctx, a.UID, *r.StorageKey)
	}
	return err
}
