package drive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/discard"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/mediatype"
	"github.com/portico-run/portico/internal/table"
	"github.com/portico-run/portico/internal/tenant"
)

// Content is a file that comes in. Name may be any text; CleanName is applied.
type Content struct {
	CanvasID string
	Name     string
	Body     io.ReadSeeker
	Source   Source
	Summary  string
	// ResultID and Version are the run that makes the file.
	ResultID string
	Version  int
	// Replace gives a file of that name the new content. Otherwise the new one
	// gets another name.
	Replace bool
}

// Uploaded is what became of an upload.
type Uploaded struct {
	File
	// Table says how a CSV file was read; nil for other files.
	Table *table.Report
}

// Upload stores a file that a person sends. A CSV file becomes Parquet; rows
// that do not fit are left out and reported. It returns table.ErrInvalid for
// CSV that cannot be read, and what Save returns.
func (s *Service) Upload(ctx context.Context, a actor.Actor, c Content) (Uploaded, error) {
	c.Source, c.Name = Manual, CleanName(c.Name)
	ext := strings.ToLower(path.Ext(c.Name))
	if ext != ".csv" && ext != ".tsv" {
		f, err := s.Save(ctx, a, c)
		return Uploaded{File: f}, err
	}
	if _, err := s.allowed(ctx, a, c); err != nil {
		return Uploaded{}, err // before the work
	}
	converted, err := Spool()
	if err != nil {
		return Uploaded{}, err
	}
	defer func() { _ = converted.Close() }() // it has no name any more
	report, err := table.ConvertCSV(ctx, c.Body, converted)
	if err != nil {
		return Uploaded{}, err
	}
	c.Name, c.Body, c.Summary = strings.TrimSuffix(c.Name, path.Ext(c.Name))+".parquet", converted, report.Summary()
	f, err := s.Save(ctx, a, c)
	return Uploaded{File: f, Table: &report}, err
}

// Save stores a file in a canvas of the caller's. It returns ErrCanvasMissing,
// ErrTooLarge for a file over the limit, and ErrFull when the user has no room
// for it.
func (s *Service) Save(ctx context.Context, a actor.Actor, c Content) (File, error) {
	size, err := s.allowed(ctx, a, c)
	if err == nil {
		_, err = c.Body.Seek(0, io.SeekStart)
	}
	if err != nil {
		return File{}, err
	}
	head := make([]byte, mediatype.Sniff)
	n, err := io.ReadFull(c.Body, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return File{}, err
	}
	if _, err := c.Body.Seek(0, io.SeekStart); err != nil {
		return File{}, err
	}
	now := s.now()
	r := row{
		FileID: ids.New(ids.File), UID: a.UID, CanvasID: c.CanvasID, Name: CleanName(c.Name), Size: size, Source: string(c.Source),
		Summary: database.Optional(c.Summary), Scope: "present", CreatedAt: now, UpdatedAt: now,
	}
	r.Type = mediatype.Of(r.Name, head[:n])
	r.Category = r.file().Category()
	if c.ResultID != "" {
		r.ResultID, r.ResultVersion = &c.ResultID, &c.Version
	}
	held, err := s.reserve(ctx, a, &r, c.Replace)
	if err != nil {
		return File{}, err
	}
	if err := s.objects.Put(ctx, held.place(), c.Body, r.Type); err != nil {
		return File{}, errors.Join(fmt.Errorf("store %s: %w", r.FileID, err), s.giveUp(ctx, held))
	}
	if err := s.settle(ctx, r, held); err != nil {
		return File{}, errors.Join(err, s.giveUp(ctx, held))
	}
	return r.file(), nil
}

// settle makes content that is stored that of its file, also when the caller is gone:
// the file has all of it, or is as it was.
func (s *Service) settle(ctx context.Context, r, held row) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	var before []string
	err := s.db.InTx(ctx, func(tx database.Tx) error {
		if err := tenant.LockEnabled(tx, r.UID); err != nil {
			return err
		}
		old, err := s.rows.live(tx.Handle, r.UID, r.FileID)
		if err != nil {
			return err
		}
		if held.FileID != r.FileID {
			if err := s.rows.discard(tx, r.UID, held.FileID); err != nil {
				return err
			}
			if err := s.room(tx, r.UID, r.Size-old.Size); err != nil {
				return err // the file is smaller than it was
			}
		}
		if old.StorageKey != nil {
			before = []string{*old.StorageKey}
		}
		if err := discard.Later(tx, r.UID, s.now(), before...); err != nil {
			return err
		}
		return s.rows.update(tx, r.UID, r.FileID, map[string]any{
			"storage_key": held.place(), "type": r.Type, "category": r.Category, "size": r.Size, "summary": r.Summary,
			"result_id": r.ResultID, "result_version": r.ResultVersion, "updated_at": s.now(),
		})
	})
	if err == nil {
		s.gone.Try(ctx, r.UID, before...)
	}
	return err
}

// giveUp takes back what reserve took, with the content that may be stored, also when
// the caller is gone.
func (s *Service) giveUp(ctx context.Context, held row) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	return s.db.InTx(ctx, func(tx database.Tx) error {
		if err := tenant.Lock(tx, held.UID); err != nil {
			return err
		}
		if err := s.rows.discard(tx, held.UID, held.FileID); err != nil && !errors.Is(err, ErrMissing) {
			return err
		}
		stored, err := s.rows.names(tx, held.UID, held.place())
		if err != nil || stored {
			return err // the change was made, and only its answer was lost
		}
		return discard.Later(tx, held.UID, s.now(), held.place())
	})
}

// settleTimeout bounds what is done once content is stored, or could not be.
const settleTimeout = 10 * time.Second

// allowed checks what can be known before a file is read, and returns its size.
func (s *Service) allowed(ctx context.Context, a actor.Actor, c Content) (size int64, err error) {
	if size, err = c.Body.Seek(0, io.SeekEnd); err != nil {
		return 0, err
	}
	if size > s.settings.MaxFile {
		return size, ErrTooLarge.Do(fmt.Sprintf("It has %d bytes; files may have %d.", size, s.settings.MaxFile))
	}
	owned, err := s.canvases.CanvasOwned(ctx, s.db.Read(ctx), a.UID, c.CanvasID)
	if err == nil && !owned {
		return size, ErrCanvasMissing
	}
	return size, err
}

// reservationLife is how long a name waits for its content.
const reservationLife = time.Hour

// reserve takes a name and the room for a file, before its content is stored. The row
// that it returns says where that is to be, which is never where something was before.
func (s *Service) reserve(ctx context.Context, a actor.Actor, r *row, replace bool) (held row, err error) {
	err = s.db.InTx(ctx, func(tx database.Tx) error {
		if err := tenant.LockEnabled(tx, a.UID); err != nil {
			return err
		}
		if err := s.expire(tx, a.UID); err != nil {
			return err
		}
		old, found, err := s.rows.named(tx.Handle, a.UID, r.CanvasID, r.Name)
		if err != nil {
			return err
		}
		if replace && found {
			held = r.replacing(old)
			r.FileID, r.CreatedAt = old.FileID, old.CreatedAt // it is as it was until the new content is stored
			if err := s.room(tx, a.UID, held.Size); err != nil {
				return err
			}
			return s.rows.insert(tx, &held)
		}
		if err := s.room(tx, a.UID, r.Size); err != nil {
			return err
		}
		base := r.Name
		for n := 2; found; n++ {
			r.Name = numbered(base, n)
			if _, found, err = s.rows.named(tx.Handle, a.UID, r.CanvasID, r.Name); err != nil {
				return err
			}
		}
		held = *r
		if held.first, err = s.unused(tx, a.UID, key(a.UID, r.CanvasID, r.Name)); err != nil {
			return err
		}
		return s.rows.insert(tx, &held)
	})
	return held, err
}

// unused reports whether nothing was ever stored under a key, or all of it is gone.
func (s *Service) unused(tx database.Tx, uid, key string) (bool, error) {
	had, err := s.rows.had(tx, uid, key)
	if err != nil || had {
		return false, err
	}
	waits, err := discard.Waits(tx, uid, key)
	return !waits, err
}

// expire takes back what was reserved by servers that died, with the content that they
// may have stored.
func (s *Service) expire(tx database.Tx, uid string) error {
	rows, err := s.rows.expired(tx, uid, s.now().Add(-reservationLife))
	if err != nil {
		return err
	}
	for _, r := range rows {
		if err := s.rows.discard(tx, uid, r.FileID); err != nil {
			return err
		}
		if err := discard.Later(tx, uid, s.now(), r.place(), key(uid, r.CanvasID, r.Name)); err != nil {
			return err
		}
	}
	return nil
}

// Room refuses with ErrFull when the user's files, of canvases and of sessions,
// would take more than the quota with so many bytes more. It keeps other changes
// of them out until the transaction ends.
func (s *Service) Room(tx database.Tx, uid string, more int64) error {
	if err := tenant.LockEnabled(tx, uid); err != nil {
		return err
	}
	return s.room(tx, uid, more)
}

// room is Room for who has the lock.
func (s *Service) room(tx database.Tx, uid string, more int64) error {
	used, err := s.taken(tx.Handle, uid)
	if err != nil {
		return err
	}
	if more > 0 && used+more > s.settings.Quota {
		return ErrFull.Do(fmt.Sprintf("Your files take %d of %d bytes; %d more do not fit. Delete some.", used, s.settings.Quota, more))
	}
	return nil
}

// taken is how many bytes all that is stored for a user takes.
func (s *Service) taken(h database.Handle, uid string) (int64, error) {
	used, err := s.rows.used(h, uid)
	if err != nil || s.elsewhere == nil {
		return used, err
	}
	elsewhere, err := s.elsewhere(h, uid)
	return used + elsewhere, err
}

// Usage returns how many bytes all that is stored for the actor takes, and how
// many it may.
func (s *Service) Usage(ctx context.Context, a actor.Actor) (used, quota int64, err error) {
	used, err = s.taken(s.db.Read(ctx), a.UID)
	return used, s.settings.Quota, err
}
