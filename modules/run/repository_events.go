package run

import (
	"encoding/json"
	"time"

	"github.com/portico-run/portico/internal/database"
)

type eventRow struct {
	PK        int64 `gorm:"primaryKey"`
	ResultID  string
	Version   int
	Seq       int64
	Type      string
	CallID    *string
	Payload   string
	CreatedAt time.Time `gorm:"autoCreateTime:false"`
}

// TableName is the event log of all runs.
func (eventRow) TableName() string { return "run_events" }

func (r eventRow) event() Event {
	return Event{
		Seq: r.Seq, Type: EventType(r.Type), CallID: database.Text(r.CallID),
		Payload: json.RawMessage(r.Payload), CreatedAt: r.CreatedAt.UTC(),
	}
}

// insertEvent is unscoped because the table has no user; advance has checked
// whose run it is.
func (repository) insertEvent(tx database.Tx, r *eventRow) error {
	return database.Unscoped(tx.Handle).Create(r).Error
}

// events is unscoped because the table has no user; the subquery holds the
// wall between users instead.
func (repository) events(h database.Handle, uid string, f EventFilter) ([]eventRow, error) {
	var rows []eventRow
	err := database.Unscoped(h).
		Where("result_id = ? AND version = ? AND seq > ? AND EXISTS (?)", f.ResultID, f.Version, f.After, owned(h, Ref{uid, f.ResultID, f.Version})).
		Order("seq").Limit(f.Limit).Find(&rows).Error
	return rows, err
}
