package oauth

import (
	"context"
	"time"

	"github.com/portico-run/portico/internal/database"
)

// Connected lists the toolsets that a user has authorized this server for.
func (s *Service) Connected(ctx context.Context, uid string) ([]string, error) {
	return s.rows.connected(s.db.Read(ctx), uid)
}

// Held counts the users who have authorized this server for a toolset. It is for
// operators.
func (s *Service) Held(h database.Handle, key string) (int64, error) { return s.rows.held(h, key) }

// Forget deletes the tokens of all users for a toolset that is deleted. They stay good
// at the authorization server. It is for operators.
func (s *Service) Forget(tx database.Tx, key string, _ time.Time) error {
	return s.rows.forget(tx, key)
}
