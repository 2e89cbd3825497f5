package record

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/run"
)

// Once tells the requests under one idempotency key apart. The zero value is that
// of a request that is never repeated.
type Once struct{ Key, Hash string }

// Begin is the first transaction of a call: the record exists, executing, before
// anything happens upstream. It returns the id of the record: that of another
// call when the request was made before, with the answer it was given.
//
// It returns ErrParentEnded for a call of a program that has ended, ErrInProgress
// and ErrKeyReused for an idempotency key that was used.
func (s *Service) Begin(ctx context.Context, c Call, once Once) (callID string, answer Answer, err error) {
	if once.Key != "" {
		if callID, answer, err := s.replay(ctx, c.UID, once); err != nil || callID != "" {
			return callID, answer, err
		}
	}
	if err := ctx.Err(); err != nil {
		return c.CallID, Answer{}, err
	}
	// A caller that goes away meanwhile does not end the transaction: whether it was
	// committed would not be known.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	err = s.db.AtOnce(ctx, c.UID, func(tx database.Tx) error {
		if c.ParentID != "" {
			if err := s.rows.join(tx, c, s.now()); err != nil {
				return err
			}
		}
		if err := s.rows.insert(tx, c, s.claim(once)); err != nil {
			return err
		}
		return s.tell(ctx, tx, c, run.ToolCallStart)
	})
	if once.Key != "" && database.IsDuplicate(err) {
		return s.replay(ctx, c.UID, once)
	}
	return c.CallID, Answer{}, err
}

func (s *Service) claim(once Once) claim {
	return claim{once: once, owner: s.settings.Owner}
}

// replay answers a request whose idempotency key was used before, with the id
// of the call that used it; empty for none.
func (s *Service) replay(ctx context.Context, uid string, once Once) (string, Answer, error) {
	// Read through a transaction: the writer sees its own latest commit.
	var (
		c      Call
		stored string
	)
	err := s.db.InTx(ctx, func(tx database.Tx) (err error) {
		c, stored, err = s.rows.byKey(tx.Handle, uid, once.Key)
		return err
	})
	switch {
	case errors.Is(err, ErrMissing):
		return "", Answer{}, nil
	case err != nil:
		return "", Answer{}, err
	case stored != once.Hash:
		return "", Answer{}, ErrKeyReused
	case !c.Ended():
		return "", Answer{}, ErrInProgress
	}
	answer, err := c.Answer()
	return c.CallID, answer, err
}

// settleTimeout bounds the final record; the caller is waiting or gone.
const settleTimeout = 15 * time.Second

// Settle is the second transaction of a call: the final record, what bill does
// for a call that completed, and the event are committed together, or nothing is
// and the lease runs out. It returns the answer as it is recorded: shortened
// where it is over the cap, and another one when the call was given up meanwhile.
func (s *Service) Settle(ctx context.Context, c Call, a Answer, bill func(ctx context.Context, tx database.Tx) error) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	answer, err := s.Fit(ctx, c, a)
	if err != nil {
		return Answer{}, fmt.Errorf("store the output of %s: %w", c.CallID, err)
	}
	if c, err = c.ended(answer); err != nil {
		return Answer{}, err
	}
	err = s.db.AtOnce(ctx, c.UID, func(tx database.Tx) error {
		c.UpdatedAt = s.now()
		if err := s.rows.finish(tx, c, c.UpdatedAt); err != nil {
			return err
		}
		if c.Status == Completed {
			if err := bill(ctx, tx); err != nil {
				return err
			}
		}
		return s.tellEnd(ctx, tx, c)
	})
	if errors.Is(err, ErrMissing) {
		// The lease ran out and the call was given up meanwhile.
		s.lost.Add(1)
		return lost(c, false), nil
	}
	if err != nil {
		return Answer{}, errs.New(errs.Unavailable, "The outcome of the call could not be recorded; it was not billed.").
			Do("Ask again with the same Idempotency-Key; the call may have had an effect.").With(err)
	}
	return answer, nil
}

// tellEnd is tell for a call that has ended.
func (s *Service) tellEnd(ctx context.Context, tx database.Tx, c Call) error {
	if c.Status == Completed {
		return s.tell(ctx, tx, c, run.ToolCallEnd)
	}
	return s.tell(ctx, tx, c, run.ToolCallError)
}

// tell appends the call's event to its run, if it has one, and with the start of a
// call that a model makes its message, to which the model's view of the answer is
// added. Any other call's message is its start event, shown as one. A run that has
// ended takes no more of both; the record says what happened.
func (s *Service) tell(ctx context.Context, tx database.Tx, c Call, t run.EventType) error {
	if !c.InRun() {
		return nil
	}
	e := run.NewEvent{Type: t, CallID: c.CallID}
	if t == run.ToolCallStart && c.Origin == ids.Agent {
		e.Message = &run.NewMessage{MessageID: ids.MessageOf(c.CallID), Event: c.ShownBy, Type: run.Tool, CallID: c.CallID}
	}
	return s.say(ctx, tx, c, e)
}

// say appends an event about a call to its run, if it has one that has not ended.
func (s *Service) say(ctx context.Context, tx database.Tx, c Call, e run.NewEvent) error {
	if !c.InRun() {
		return nil
	}
	_, err := s.runs.Append(ctx, tx, c.Run(), e)
	if errors.Is(err, run.ErrEnded) {
		return nil
	}
	return err
}

// Progress shows a sentence about a call that takes long, where it belongs to a
// run that has not ended.
func (s *Service) Progress(ctx context.Context, c Call, text string) error {
	if !c.InRun() {
		return nil
	}
	return s.db.InTx(ctx, func(tx database.Tx) error {
		return s.say(ctx, tx, c, run.NewEvent{
			Type: run.Log, CallID: c.CallID, Payload: map[string]any{"log": map[string]any{"level": "info", "content": text}},
		})
	})
}
