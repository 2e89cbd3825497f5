package audit

import (
	"time"

	"gorm.io/gorm"

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
	return database.Newest[eventRow](changes(database.Scoped(h, uid)), w)
}

// changes leaves out what was only asked.
func changes(q *gorm.DB) *gorm.DB { return q.Where("action NOT LIKE ?", Ask+"%") }

func all(h database.Handle, f Filter, w database.Window) ([]eventRow, *int64, error) {
	q := database.Unscoped(h)
	for column, value := range map[string]string{"uid": f.UID, "action": f.Action, "subject": f.Subject} {
		if value != "" {
			q = q.Where(column+" = ?", value)
		}
	}
	if !f.Asked && f.Action == "" {
		q = changes(q)
	}
	if !f.From.IsZero() {
		q = q.Where("created_at >= ?", f.From.UTC())
	}
	if !f.Until.IsZero() {
		q = q.Where("created_at < ?", f.Until.UTC())
	}
	return database.Newest[eventRow](q, w)
}
