// Package session keeps the files of the code interpreter API: in sessions, which
// programs start with and add to.
package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/discard"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/objectstore"
)

// Quota bounds what is stored for a user, over all modules.
type Quota interface {
	// Room refuses more bytes when there is no room for them, within the
	// transaction that adds them.
	Room(tx database.Tx, uid string, more int64) error
}

// Settings are the limits of sessions.
type Settings struct {
	// Life is how long sessions and their files are kept after their last use.
	Life time.Duration
	// MaxFile is the largest file, in bytes; MaxFiles how many come with one
	// request or out of one program.
	MaxFile  int64
	MaxFiles int
	// MaxInput is how many bytes the files that one program finds may have
	// together.
	MaxInput int64
}

// Deps is what the service needs.
type Deps struct {
	DB      *database.DB
	Objects objectstore.Store
	Quota   Quota
	// Largest is the largest file that a user's plan allows, in bytes; what is
	// zero bounds nothing. It may be nil.
	Largest  func(ctx context.Context, uid string) (int64, error)
	Settings Settings
	Now      func() time.Time
}

// Service keeps sessions with files.
type Service struct {
	db       *database.DB
	objects  objectstore.Store
	quota    Quota
	largest  func(ctx context.Context, uid string) (int64, error)
	settings Settings
	now      func() time.Time
	rows     repository
	gone     *discard.Service
}

// New returns a service that does nothing by itself.
func New(d Deps) *Service {
	return &Service{db: d.DB, objects: d.Objects, quota: d.Quota, largest: d.Largest, settings: d.Settings, now: d.Now, gone: discard.New(d.DB, d.Objects)}
}

// maxFile is the largest file of a user.
func (s *Service) maxFile(ctx context.Context, a actor.Actor) (int64, error) {
	if s.largest == nil {
		return s.settings.MaxFile, nil
	}
	largest, err := s.largest(ctx, a.UID)
	if err != nil || largest == 0 {
		return s.settings.MaxFile, err
	}
	return min(s.settings.MaxFile, largest), nil
}

// Upload stores files in a session of their own. It returns the problem of
// each file that could not be stored, by its position, beside the others.
func (s *Service) Upload(ctx context.Context, a actor.Actor, owner FileOwner, uploads []Upload) (session string, files []File, problems []error, err error) {
	session = NewID()
	files, problems = make([]File, len(uploads)), make([]error, len(uploads))
	largest, err := s.maxFile(ctx, a)
	if err != nil {
		return "", nil, nil, err
	}
	var room int64
	for _, u := range uploads {
		room += min(u.Size, largest)
	}
	if err = s.reserve(ctx, a, session, room); err != nil {
		return "", nil, nil, err
	}
	var stored []File
	for i, u := range uploads {
		switch u.Name = CleanName(u.Name); {
		case u.Name == "":
			problems[i] = errs.New(errs.Invalid, "The file has no name that a file can have, or one of more than "+NameLimits+".")
			continue
		case u.Size > largest:
			problems[i] = errs.Newf(errs.TooLarge, "The file is larger than %d bytes.", largest)
			continue
		}
		if files[i], err = s.put(ctx, a, session, u, owner); err != nil {
			return "", nil, nil, errors.Join(err, s.discard(ctx, a, append(stored, files[i])))
		}
		stored = append(stored, files[i])
	}
	return session, files, problems, s.record(ctx, a, session, stored)
}

// ErrMissing is a session that is over, or not the user's.
var ErrMissing = errs.New(errs.NotFound, "There is no such session, or it has expired.")

// Touch makes a session live from now, and says until when; a new one where none is
// named. The error is ErrMissing for one that is over.
func (s *Service) Touch(ctx context.Context, a actor.Actor, session string) (id string, until time.Time, err error) {
	now := s.now()
	until = now.Add(s.settings.Life)
	if session == "" {
		session = NewID()
	} else if alive, err := s.alive(ctx, a, session); err != nil || !alive {
		return "", time.Time{}, errors.Join(err, ErrMissing)
	}
	return session, until, s.db.InTx(ctx, func(tx database.Tx) error { return s.rows.keep(tx, a.UID, session, now, until) })
}

func (s *Service) alive(ctx context.Context, a actor.Actor, session string) (bool, error) {
	if !validID(session) {
		return false, nil
	}
	return s.rows.alive(s.db.Read(ctx), a.UID, session, s.now())
}

// put stores a file's content. It counts once record was called.
func (s *Service) put(ctx context.Context, a actor.Actor, session string, u Upload, owner FileOwner) (File, error) {
	f := File{ID: NewID(), SessionID: session, Name: u.Name, Size: u.Size, ReadOnly: u.ReadOnly, Owner: owner, CreatedAt: s.now()}
	var err error
	if f.ContentType, f.Digest, err = describe(u); err != nil {
		return f, err
	}
	return f, s.objects.Put(ctx, f.key(a.UID), u.Body, f.ContentType)
}

// reserve makes a session live from now, and refuses content that there is no
// room for before any of it is stored. The session is there first, so that its
// end takes along what a server that dies leaves.
func (s *Service) reserve(ctx context.Context, a actor.Actor, session string, room int64) error {
	now := s.now()
	return s.db.InTx(ctx, func(tx database.Tx) error {
		if err := s.quota.Room(tx, a.UID, room); err != nil {
			return err
		}
		return s.rows.keep(tx, a.UID, session, now, now.Add(s.settings.Life))
	})
}

// record makes a session live from now and adds files whose content is stored.
// It takes that away again when there is no room for them after all.
func (s *Service) record(ctx context.Context, a actor.Actor, session string, files []File) error {
	now := s.now()
	err := s.db.InTx(ctx, func(tx database.Tx) error {
		var size int64
		for _, f := range files {
			size += f.Size
		}
		if err := s.quota.Room(tx, a.UID, size); err != nil {
			return err
		}
		if err := s.rows.keep(tx, a.UID, session, now, now.Add(s.settings.Life)); err != nil {
			return err
		}
		return s.rows.insert(tx, a.UID, files)
	})
	if err != nil {
		return errors.Join(err, s.discard(ctx, a, files))
	}
	return nil
}

// settleTimeout bounds what is stored or deleted for a caller who may be gone.
const settleTimeout = time.Minute

// discard deletes content that is not recorded, also when the caller is gone.
func (s *Service) discard(ctx context.Context, a actor.Actor, files []File) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	var failed []error
	for _, f := range files {
		failed = append(failed, s.objects.Delete(ctx, f.key(a.UID)))
	}
	return errors.Join(failed...)
}

// Files lists the files of a session; none for a session that the user does
// not have.
func (s *Service) Files(ctx context.Context, a actor.Actor, session string) ([]File, error) {
	if !validID(session) {
		return nil, ErrBadID.Do("An id has 21 letters, digits, _ and -.")
	}
	return s.rows.all(s.db.Read(ctx), a.UID, session, s.now())
}

// Recent lists files of all sessions of a user, the newest first: at most so many, and
// those after one of them.
func (s *Service) Recent(ctx context.Context, a actor.Actor, after *File, most int) ([]File, error) {
	return s.rows.recent(s.db.Read(ctx), a.UID, page{after, most}, s.now())
}

// File returns what is known about a file.
func (s *Service) File(ctx context.Context, a actor.Actor, session, id string) (File, error) {
	if !validID(session) || !validID(id) {
		return File{}, ErrBadID.Do("An id has 21 letters, digits, _ and -.")
	}
	return s.find(ctx, a, session, id)
}

// find returns a file of a session, its own or one it has of another.
func (s *Service) find(ctx context.Context, a actor.Actor, session, id string) (File, error) {
	f, err := s.rows.file(s.db.Read(ctx), a.UID, session, id, s.now())
	if errors.Is(err, ErrFileMissing) {
		return s.rows.input(s.db.Read(ctx), a.UID, session, id, s.now())
	}
	return f, err
}

// Open returns a file and its content, which the caller closes.
func (s *Service) Open(ctx context.Context, a actor.Actor, session, id string) (File, io.ReadSeekCloser, error) {
	f, err := s.File(ctx, a, session, id)
	if err != nil {
		return File{}, nil, err
	}
	content, err := s.content(ctx, a, f)
	return f, content, err
}

func (s *Service) content(ctx context.Context, a actor.Actor, f File) (io.ReadSeekCloser, error) {
	content, err := objectstore.Open(ctx, s.objects, f.key(a.UID), f.Size)
	switch {
	case errors.Is(err, objectstore.ErrNotFound):
		return nil, ErrFileMissing.Do(fmt.Sprintf("The content of %s is gone. Upload it again.", f.Name)).With(err)
	case err != nil && ctx.Err() == nil:
		return nil, errs.New(errs.Unavailable, "The storage of files cannot be reached.").Do("Try again later.").With(err)
	}
	return content, err
}

// Delete removes a file for good; one that the session has of another session
// stays there.
func (s *Service) Delete(ctx context.Context, a actor.Actor, session, id string) error {
	f, err := s.File(ctx, a, session, id)
	if err != nil {
		return err
	}
	if f.home() != session {
		return s.db.InTx(ctx, func(tx database.Tx) error { return s.rows.unlink(tx, a.UID, session, id) })
	}
	// The row first: a file without content would be found and not open.
	err = s.db.InTx(ctx, func(tx database.Tx) error {
		if err := s.rows.deleteFile(tx, a.UID, session, id); err != nil {
			return err
		}
		return discard.Later(tx, a.UID, s.now(), f.key(a.UID))
	})
	if err == nil {
		s.gone.Try(ctx, a.UID, f.key(a.UID))
	}
	return err
}

const (
	// purgeBatch is how many sessions are read at once.
	purgeBatch = 100
	// purgeAfter is how long a session is over before it goes: a request that found
	// it alive has renewed it by then.
	purgeAfter = 5 * time.Minute
)

// Purge deletes the sessions of all users that are over, with their files. One process
// does at a time; what the others leave to it is there the next time.
func (s *Service) Purge(ctx context.Context) error {
	before := s.now().Add(-purgeAfter)
	for {
		over, err := s.rows.expired(s.db.Read(ctx), before, purgeBatch)
		if err != nil {
			return err
		}
		alone := true
		for _, session := range over {
			if alone, err = s.purge(ctx, session, before); err != nil {
				return err
			}
			if !alone {
				break
			}
		}
		if len(over) < purgeBatch || !alone {
			_, err := s.gone.Run(ctx, s.now()) // what was written down just now is due
			return err
		}
	}
}

// purge deletes a session that is still over, and writes down what is stored in it:
// whatever fails after that, nothing stays. Files of a session are never stored under
// the same key again.
func (s *Service) purge(ctx context.Context, session sessionRow, before time.Time) (alone bool, err error) {
	keys, err := s.objects.List(ctx, "code/"+session.UID+"/"+session.SessionID+"/")
	if err != nil {
		return false, err
	}
	err = s.db.InTx(ctx, func(tx database.Tx) (err error) {
		if alone, err = tx.Alone("purge of sessions"); err != nil || !alone {
			return err
		}
		gone, err := s.rows.deleteSession(tx, session.UID, session.SessionID, before)
		if err != nil || !gone {
			return err
		}
		return discard.Later(tx, session.UID, s.now(), keys...)
	})
	return alone, err
}
