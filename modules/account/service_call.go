package account

import (
	"context"
	"errors"
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

// AppKey is an access token of an app that a user let in: good until a moment, for this
// server as an MCP server and nothing else, or for a part of that.
type AppKey struct {
	UID, GrantID string
	Scope        actor.Scope // MCP or MCPRead
	Until        time.Time
}

var errAppScope = errors.New("an access token of an app has a scope that apps do not have")

// AppKey makes the access token of an app.
func (s *Service) AppKey(tx database.Tx, k AppKey) (Plaintext, error) {
	if k.Scope != actor.MCP && k.Scope != actor.MCPRead {
		return "", errAppScope
	}
	_, plain, err := s.insertKey(tx, k.UID, appKeyName(k.GrantID), k.Scope, &k.Until)
	return plain, err
}

// EndAppKeys ends the access tokens of an app at once.
func (s *Service) EndAppKeys(tx database.Tx, uid, grantID string) error {
	return s.rows.revokeSandbox(tx, uid, appKeyName(grantID), s.now())
}

func appKeyName(grantID string) string { return "OAUTH_" + grantID }
