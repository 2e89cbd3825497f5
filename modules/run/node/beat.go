package node

import (
	"context"
	"errors"
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/wake"
)

// beats is how often a lease is renewed in its time.
const beats = 3

// keepGone is how long a process that is gone stays in the table.
const keepGone = time.Hour

// Start puts this process among the others, and keeps it there until Stop.
func (s *Service) Start(ctx context.Context) error {
	if err := s.join(ctx); err != nil {
		return err
	}
	s.done = make(chan struct{})
	beat, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(s.done)
		defer cancel()
		for {
			timer := time.NewTimer(s.next())
			select {
			case <-s.stop:
				timer.Stop()
				return
			case <-timer.C:
				s.beat(beat)
			case <-s.look:
				timer.Stop()
				s.beat(beat)
			}
		}
	}()
	return nil
}

// Look has this process look at once at how many there are. It returns at once.
func (s *Service) Look() {
	select {
	case s.look <- struct{}{}:
	default: // it is about to
	}
}

// Stop takes this process from the others: what it still works on is given up.
func (s *Service) Stop(ctx context.Context) error {
	if s.done == nil {
		return nil
	}
	s.once.Do(func() { close(s.stop) })
	<-s.done
	return s.deps.DB.InTx(ctx, func(tx database.Tx) error { return s.rows.remove(tx, s.deps.Self.ID) })
}

// next is how long until the next sign of life: no longer than the lease.
func (s *Service) next() time.Duration {
	every := s.deps.Lease / beats
	left := s.left()
	if left <= 0 {
		return every / beats // it has none, and wants one
	}
	return min(every, left)
}

// left is how long the lease lasts; 0 or less where there is none.
func (s *Service) left() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until.IsZero() {
		return 0
	}
	return s.until.Sub(s.deps.DB.Now())
}

func (s *Service) hold(until time.Time, living int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until, s.living = until, living
}

// beat renews the lease. Where that is too late, it ends what this process works on,
// and begins anew.
func (s *Service) beat(ctx context.Context) {
	renew, cancel := context.WithTimeout(ctx, s.left()) // which is over where there is no lease
	defer cancel()
	err := s.renew(renew)
	switch {
	case err == nil:
	case errors.Is(err, errOver), s.left() <= 0:
		s.lose(ctx)
	default:
		s.deps.Logger.WarnContext(ctx, "the lease of this process was not renewed", "error", err, "left", s.left())
	}
}

// renew moves the end of the lease on, and hears whether somebody wants this process
// to end.
func (s *Service) renew(ctx context.Context) error {
	// A process that was stopped for a while may be wrong about the time.
	if err := s.deps.DB.Synchronize(ctx); err != nil {
		return err
	}
	n := s.self()
	var asked bool
	var living int64
	err := s.deps.DB.InTx(ctx, func(tx database.Tx) (err error) {
		if asked, err = s.rows.renew(tx, n, s.deps.DB.Now()); err != nil {
			return err
		}
		if living, err = s.rows.count(tx, s.deps.DB.Now()); err != nil {
			return err
		}
		return s.rows.purge(tx, s.deps.DB.Now().Add(-keepGone))
	})
	if err != nil {
		return err
	}
	s.hold(n.ExpiresAt, living)
	if asked && s.deps.Drain != nil {
		s.asked.Do(s.deps.Drain)
	}
	return nil
}

// lose ends what this process works on, and puts it among the others again.
func (s *Service) lose(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.deps.Lease)
	defer cancel()
	if s.drop() {
		s.deps.Logger.ErrorContext(ctx, "this process could not renew its lease in time; others have given up its work, and it ends now", "node", s.deps.Self.ID)
	}
	err := s.end(ctx)
	if err == nil {
		err = s.join(ctx)
	}
	if err != nil {
		s.deps.Logger.WarnContext(ctx, "this process is not among those that serve", "error", err)
	}
}

// drop lets go of the lease, and reports whether there was one.
func (s *Service) drop() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	had := !s.until.IsZero()
	s.until, s.lost = time.Time{}, s.lost || had
	return had
}

// end ends what this process works on, once.
func (s *Service) end(ctx context.Context) error {
	s.mu.Lock()
	lost := s.lost
	s.mu.Unlock()
	if !lost || s.deps.Lost == nil {
		return nil
	}
	if err := s.deps.Lost(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = false
	return nil
}

func (s *Service) join(ctx context.Context) error {
	if err := s.deps.DB.Synchronize(ctx); err != nil {
		return err
	}
	n := s.self()
	var living int64
	err := s.deps.DB.InTx(ctx, func(tx database.Tx) (err error) {
		if err = s.rows.join(tx, n); err != nil {
			return err
		}
		if err = tx.Notify(wake.Topic(Topic, n.ID)); err != nil {
			return err
		}
		living, err = s.rows.count(tx, s.deps.DB.Now())
		return err
	})
	if err == nil {
		s.hold(n.ExpiresAt, living)
	}
	return err
}

// self is this process as it is now, with a new lease.
func (s *Service) self() Node {
	n, now := s.deps.Self, s.deps.DB.Now()
	n.StartedAt, n.ExpiresAt = now, now.Add(s.deps.Lease)
	if s.deps.Load != nil {
		n.Load = s.deps.Load()
	}
	if s.deps.Draining != nil {
		n.Draining = s.deps.Draining()
	}
	return n
}
