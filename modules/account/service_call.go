package account

import (
	"context"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
)

// CallKey makes a key for the calls of a program that a service beside this
// server executes. Like TemporaryKey's, it may execute tools and nothing else; it
// is good until a moment, or until EndCallKey. The one that was made before for
// the same program ends.
func (s *Service) CallKey(ctx context.Context, a actor.Actor, callID string, until time.Time) (plain Plaintext, err error) {
	err = s.db.InTx(ctx, func(tx database.Tx) (err error) {
		if err := s.rows.revokeSandbox(tx, a.UID, callKeyName(callID), s.now()); err != nil {
			return err
		}
		_, plain, err = s.insertKey(tx, a.UID, callKeyName(callID), actor.ToolExecute, &until)
		return err
	})
	return plain, err
}

// EndCallKey ends the key of a program, if it has one.
func (s *Service) EndCallKey(ctx context.Context, a actor.Actor, callID string) error {
	return s.db.InTx(ctx, func(tx database.Tx) error { return s.rows.revokeSandbox(tx, a.UID, callKeyName(callID), s.now()) })
}

func callKeyName(callID string) string { return "PTC_CALL_" + callID }
