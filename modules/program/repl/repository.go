package repl

import (
	"errors"
	"time"

	"github.com/portico-run/portico/internal/database"
)

// repository is the table interpreters: which process has the interpreter of a place.
type repository struct{}

type row struct {
	UID    string `gorm:"primaryKey"`
	Place  string `gorm:"primaryKey"`
	NodeID string
	UsedAt time.Time
}

// TableName implements gorm's Tabler.
func (row) TableName() string { return "interpreters" }

// lives is the condition that the process of a row is believed alive at a moment.
const lives = "EXISTS (SELECT 1 FROM nodes WHERE nodes.node_id = interpreters.node_id AND nodes.expires_at >= ?)"

// claim returns the process that has the interpreter of a place. It is the one that
// asks, unless another one has it and lives.
func (repository) claim(tx database.Tx, p place, node string, now time.Time) (owner string, err error) {
	err = database.Unscoped(tx.Handle).Raw( // the row carries its uid
		"INSERT INTO interpreters (uid, place, node_id, used_at) VALUES (?, ?, ?, ?) ON CONFLICT (uid, place) DO UPDATE SET used_at = excluded.used_at, "+
			"node_id = CASE WHEN "+lives+" THEN interpreters.node_id ELSE excluded.node_id END RETURNING node_id",
		p.uid, p.name, node, now, now).Scan(&owner).Error
	return owner, err
}

// holder is the process that has the interpreter of a place, and lives; empty for none.
func (repository) holder(h database.Handle, p place, now time.Time) (string, error) {
	var r row
	err := database.Scoped(h, p.uid).Where("place = ?", p.name).Where(lives, now).Take(&r).Error
	if errors.Is(err, database.ErrNotFound) {
		return "", nil
	}
	return r.NodeID, err
}

// purge is a system job: places that nobody has used for long.
func (repository) purge(tx database.Tx, before time.Time) error {
	return database.Unscoped(tx.Handle).Where("used_at < ?", before).Delete(&row{}).Error
}
