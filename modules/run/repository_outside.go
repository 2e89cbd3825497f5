package run

import (
	"time"

	"github.com/portico-run/portico/internal/database"
)

// lockUser makes the registrations of one user a queue.
func (repository) lockUser(tx database.Tx, uid string) error {
	var found string
	return database.Lock(database.Scoped(tx.Handle, uid)).Table("users").Select("uid").Take(&found).Error
}

func (repository) lock(tx database.Tx, of Ref) (r row, err error) {
	err = database.Lock(database.Scoped(tx.Handle, of.UID)).Where("result_id = ? AND version = ?", of.ResultID, of.Version).Take(&r).Error
	return r, err
}

// foreign reports whether another user has a run of that id. It is unscoped
// because it asks about others; it tells no more than that the id is taken.
func (repository) foreign(h database.Handle, uid, resultID string) (bool, error) {
	var n int64
	err := database.Unscoped(h).Model(&row{}).Where("result_id = ? AND uid <> ?", resultID, uid).Count(&n).Error
	return n > 0, err
}

// outside counts the user's runs that are executed outside now.
func (repository) outside(h database.Handle, uid string) (int64, error) {
	var n int64
	err := database.Scoped(h, uid).Model(&row{}).Where("status = ? AND lease_owner = ?", string(Running), Outside).Count(&n).Error
	return n, err
}

func (repository) prolong(tx database.Tx, r Ref, until time.Time) error {
	return database.Scoped(tx.Handle, r.UID).Model(&row{}).
		Where("result_id = ? AND version = ? AND status = ? AND lease_owner = ? AND lease_expires_at < ?", r.ResultID, r.Version, string(Running), Outside, until.UTC()).
		Update("lease_expires_at", until.UTC()).Error
}
