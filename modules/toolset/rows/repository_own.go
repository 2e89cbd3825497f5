package rows

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/portico-run/portico/internal/database"
)

// Servers lists the MCP servers that a user may use: of a name, the user's own.
func (Repository) Servers(h database.Handle, uid string) ([]Server, error) {
	var rows []Server
	err := visible(h, uid).Where("enabled").Order("name, is_global").Find(&rows).Error
	return slices.CompactFunc(rows, func(a, b Server) bool { return a.Name == b.Name }), err
}

// VisibleByID finds a toolset that a user may use, whatever its state.
func (Repository) VisibleByID(h database.Handle, uid, toolsetID string) (Toolset, error) {
	var r Toolset
	err := visible(h, uid).Where("toolset_id = ? AND NOT uninstalled", toolsetID).Take(&r).Error
	if errors.Is(err, database.ErrNotFound) {
		return r, Missing(toolsetID)
	}
	return r, err
}

// Own finds a user's own toolset, uninstalled or not.
func (Repository) Own(h database.Handle, uid, key string) (Toolset, error) {
	var r Toolset
	return r, database.Scoped(h, uid).Where("key = ? AND NOT is_global AND deleted_at IS NULL", key).Take(&r).Error
}

// UpdateOwn changes a user's own toolset.
func (Repository) UpdateOwn(tx database.Tx, uid, toolsetID string, columns map[string]any) error {
	err := database.MustAffect(database.Scoped(tx.Handle, uid).Model(&Toolset{}).
		Where("toolset_id = ? AND NOT is_global AND deleted_at IS NULL", toolsetID).Updates(columns), Missing(toolsetID))
	return cmp.Or(err, changed(tx, uid))
}

// Uninstall switches a user's own toolset of a kind off; it may be installed
// again.
func (Repository) Uninstall(tx database.Tx, uid, key, authType string, now time.Time) error {
	err := database.Scoped(tx.Handle, uid).Model(&Toolset{}).Where("key = ? AND auth_type = ? AND NOT is_global AND deleted_at IS NULL", key, authType).
		Updates(map[string]any{"uninstalled": true, "enabled": false, "auth_data": nil, "updated_at": now}).Error
	return cmp.Or(err, changed(tx, uid))
}
