package audit

import (
	"time"

	"github.com/portico-run/portico/internal/database"
)

type eventRow struct {
	PK        int64 `gorm:"primaryKey"`
	UID       string
	KeyID     string
	Action    string
	Subject   string
	Detail    string
	CreatedAt time.Time
}

func (eventRow) TableName() string { return "audit_events" }

func insert(tx database.Tx, row eventRow) error {
	return database.Unscoped(tx.Handle).Create(&row).Error
}

func list(h database.Handle, uid string, w database.Window) ([]eventRow, *int64, error) {
	return database.Newest[eventRow](database.Scoped(h, uid), w)
}
