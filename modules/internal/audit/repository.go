package audit

import (
	"time"

	"github.com/portico-run/portico/modules/internal/database"
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

func list(h database.Handle, uid string, before int64, limit int) ([]eventRow, error) {
	q := database.Scoped(h, uid)
	if before > 0 {
		q = q.Where("pk < ?", before)
	}
	var rows []eventRow
	return rows, q.Order("pk DESC").Limit(limit).Find(&rows).Error
}
