package install

import (
	"context"
	"errors"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/rows"
)

// Listing is what is known of a toolset of the inventory. It is for connectors.
func (s *Service) Listing(ctx context.Context, key string) (toolset.Listing, error) {
	return s.toolsets.Listing(ctx, key)
}

// Grant gives a user the toolset of an account that was connected, or again the
// one that the user had, unless it is everybody's. It is for connectors, which
// know the user.
func (s *Service) Grant(tx database.Tx, uid string, l toolset.Listing, authType string) error {
	global, err := s.rows.Global(tx.Handle, l.Key)
	switch {
	case err == nil && global.Enabled:
		return nil
	case err != nil && !errors.Is(err, database.ErrNotFound):
		return err
	}
	now := s.now()
	before, err := s.rows.Own(tx.Handle, uid, l.Key)
	if errors.Is(err, database.ErrNotFound) {
		return s.rows.InsertToolset(tx, rows.Toolset{
			ToolsetID: ids.New(ids.Toolset), UID: &uid, Name: l.Name, Key: l.Key, AuthType: &authType, Enabled: true, CreatedAt: now, UpdatedAt: now,
		})
	}
	if err != nil {
		return err
	}
	return s.rows.UpdateOwn(tx, uid, before.ToolsetID, map[string]any{
		"auth_type": authType, "auth_data": nil, "enabled": true, "uninstalled": false, "updated_at": now,
	})
}

// Revoke takes a user's own toolset away with its account. It is for
// connectors, which know the user.
func (s *Service) Revoke(tx database.Tx, uid, key, authType string) error {
	return s.rows.Uninstall(tx, uid, key, authType, s.now())
}
