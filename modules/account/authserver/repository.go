package authserver

import (
	"errors"
	"time"

	"github.com/portico-run/portico/internal/database"
)

// repository is the table app_grants.
type repository struct{}

type grantRow struct {
	PK        int64 `gorm:"primaryKey"`
	GrantID   string
	UID       string
	Name      string
	Place     string
	Client    string
	Code      string
	CodeUntil time.Time
	Redirect  string
	Challenge string
	Scope     string
	Refresh   *string
	Spent     *string
	CreatedAt time.Time
	UsedAt    *time.Time
	ExpiresAt time.Time
}

// TableName implements gorm's Tabler.
func (grantRow) TableName() string { return "app_grants" }

func (repository) insert(tx database.Tx, row grantRow) error {
	return database.Unscoped(tx.Handle).Create(&row).Error
}

// stale deletes what a user allowed that has ended, or that no app took up.
func (repository) stale(tx database.Tx, uid string, now time.Time) error {
	return database.Scoped(tx.Handle, uid).Where("expires_at < ? OR (refresh IS NULL AND code_until < ?)", now, now).Delete(&grantRow{}).Error
}

func (repository) count(tx database.Tx, uid string) (n int64, err error) {
	return n, database.Scoped(tx.Handle, uid).Model(&grantRow{}).Count(&n).Error
}

// by finds the row with a secret: whose it is follows from it.
func (repository) by(tx database.Tx, column, hash string) (grantRow, error) {
	var row grantRow
	err := database.Lock(database.Unscoped(tx.Handle)).Where(column+" = ?", hash).Take(&row).Error
	if errors.Is(err, database.ErrNotFound) {
		err = errGrant
	}
	return row, err
}

// renew gives an app another refresh token in place of the one it had; nil is for none.
func (repository) renew(tx database.Tx, row grantRow, refresh string, used, until time.Time) error {
	q := database.Scoped(tx.Handle, row.UID).Model(&grantRow{}).Where("grant_id = ?", row.GrantID)
	if row.Refresh == nil {
		q = q.Where("refresh IS NULL")
	} else {
		q = q.Where("refresh = ?", *row.Refresh)
	}
	return database.MustAffect(q.Updates(map[string]any{"refresh": refresh, "spent": row.Refresh, "used_at": used, "expires_at": until}), errGrant)
}

func (repository) delete(tx database.Tx, uid, grantID string) error {
	return database.MustAffect(database.Scoped(tx.Handle, uid).Where("grant_id = ?", grantID).Delete(&grantRow{}), ErrNoApp)
}

// list returns what apps took up, the newest first.
func (repository) list(h database.Handle, uid string, now time.Time) (rows []grantRow, err error) {
	return rows, database.Scoped(h, uid).Where("refresh IS NOT NULL AND expires_at >= ?", now).Order("pk DESC").Find(&rows).Error
}
