package record

import (
	"context"
	"encoding/json"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/modules/run"
)

// Hold makes a call of this process, which executes, wait; then runs in the same
// transaction, and returns what the event says of the wait. It returns ErrMissing
// where the call was given up meanwhile.
func (s *Service) Hold(ctx context.Context, c Call, then func(tx database.Tx) (payload any, err error)) error {
	return s.db.InTx(ctx, func(tx database.Tx) error {
		if err := s.rows.move(tx, c, Executing, map[string]any{"status": Waiting, "updated_at": s.now()}); err != nil {
			return err
		}
		payload, err := then(tx)
		if err != nil {
			return err
		}
		return s.say(ctx, tx, c, run.NewEvent{Type: run.ToolCallWaiting, CallID: c.CallID, Payload: payload})
	})
}

// Decided ends the wait of a call with decide, in one transaction with the event.
// The call waits until the process that makes it takes it. Decided returns
// ErrMissing for a call that does not wait.
func (s *Service) Decided(ctx context.Context, uid, callID string, decide func(tx database.Tx) (payload any, err error)) error {
	return s.db.InTx(ctx, func(tx database.Tx) error {
		c, err := s.rows.lock(tx, uid, callID)
		if err == nil && c.Status != Waiting {
			err = ErrMissing
		}
		if err != nil {
			return err
		}
		payload, err := decide(tx)
		if err != nil {
			return err
		}
		return s.say(ctx, tx, c, run.NewEvent{Type: run.ToolCallDecided, CallID: c.CallID, Payload: payload})
	})
}

// Take makes a call of this process, which waits, execute again, with other
// arguments unless input is nil. Nothing may be sent before. It returns ErrMissing
// where the call was given up meanwhile.
func (s *Service) Take(ctx context.Context, c Call, input json.RawMessage) error {
	columns := map[string]any{"status": Executing, "updated_at": s.now()}
	if input != nil {
		columns["input"] = string(input)
	}
	return s.db.InTx(ctx, func(tx database.Tx) error { return s.rows.move(tx, c, Waiting, columns) })
}
