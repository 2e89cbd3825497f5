package run

import (
	"context"
	"fmt"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
)

// Append adds an event, and its message if it has one, to a run that has not
// ended and returns the event's number.
// It holds the run's row until the transaction ends, so call it last. It
// returns ErrEnded after the end and ErrMissing when the run is not the
// user's. A transaction that is sent as a whole has no number yet; it is 0.
func (s *Service) Append(_ context.Context, tx database.Tx, r Ref, e NewEvent) (seq int64, err error) {
	if e.Type == End {
		return 0, fmt.Errorf("append event: %s is written by Finish", End)
	}
	if b := tx.Batch(); b != nil {
		return 0, s.queue(tx, b, r, e)
	}
	seq, err = s.repo.advance(tx, r, nil)
	if err != nil {
		return 0, fmt.Errorf("append %s event: %w", e.Type, err)
	}
	if err := s.record(tx, r, seq, e); err != nil || e.Message == nil {
		return seq, err
	}
	m := *e.Message
	if m.Event == 0 {
		m.Event = seq
	}
	return seq, s.addMessage(tx, r, m)
}

// record writes an event under a number that advance has given out.
func (s *Service) record(tx database.Tx, of Ref, seq int64, e NewEvent) error {
	r, err := s.eventOf(of, seq, e)
	if err != nil {
		return err
	}
	if err := s.repo.insertEvent(tx, &r); err != nil {
		return fmt.Errorf("write %s event: %w", e.Type, err)
	}
	return tx.Notify(Topic(of.ResultID))
}

func (s *Service) eventOf(of Ref, seq int64, e NewEvent) (eventRow, error) {
	payload, err := e.payload()
	r := eventRow{
		ResultID: of.ResultID, Version: of.Version, Seq: seq, Type: string(e.Type),
		Payload: payload, CreatedAt: s.now(),
	}
	if e.CallID != "" {
		r.CallID = &e.CallID
	}
	return r, err
}

// queue is Append in a transaction that is sent as a whole: the event, and its
// message, get the number that the run's row has then.
func (s *Service) queue(tx database.Tx, b *database.Batch, of Ref, e NewEvent) error {
	event, err := s.eventOf(of, 0, e)
	if err != nil {
		return err
	}
	if e.Message == nil {
		s.repo.queueEvent(b, of, event)
	} else {
		s.repo.queueMessage(b, of, event, s.messageOf(of, *e.Message))
	}
	return tx.Notify(Topic(of.ResultID))
}

// Events returns events of a run, in order; none when the run is not the
// caller's.
func (s *Service) Events(ctx context.Context, a actor.Actor, f EventFilter) ([]Event, error) {
	rows, err := s.repo.events(s.db.Read(ctx), a.UID, f)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	events := make([]Event, len(rows))
	for i, r := range rows {
		events[i] = r.event()
	}
	return events, nil
}
