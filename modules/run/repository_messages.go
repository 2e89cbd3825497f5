package run

import (
	"encoding/json"
	"time"

	"gorm.io/gorm"

	"github.com/portico-run/portico/internal/database"
)

type messageRow struct {
	PK               int64 `gorm:"primaryKey"`
	MessageID        string
	ResultID         string
	Version          int
	Seq              int64
	Type             MessageType
	Content          string
	ReasoningContent *string
	UsageMeta        *string
	ToolCallMeta     *string
	ToolCallID       *string
	CreatedAt        time.Time `gorm:"autoCreateTime:false"`
	UpdatedAt        time.Time `gorm:"autoUpdateTime:false"`
}

// TableName implements gorm's Tabler.
func (messageRow) TableName() string { return "action_messages" }

func (r messageRow) message() Message {
	return Message{
		Seq: r.Seq, MessageID: r.MessageID, Type: r.Type, Content: r.Content, Reasoning: database.Text(r.ReasoningContent),
		Usage: json.RawMessage(database.Text(r.UsageMeta)), CallMeta: json.RawMessage(database.Text(r.ToolCallMeta)), CallID: database.Text(r.ToolCallID),
		CreatedAt: r.CreatedAt.UTC(),
	}
}

// insertMessage is unscoped because the table has no user; its caller has
// checked whose run it is.
func (repository) insertMessage(tx database.Tx, r *messageRow) error {
	return database.Unscoped(tx.Handle).Create(r).Error
}

// changeMessage is unscoped because the table has no user; the subquery holds
// the wall between users instead. A message that is not there is left so.
func (repository) changeMessage(tx database.Tx, r Ref, messageID string, columns map[string]any) error {
	return database.Unscoped(tx.Handle).Model(&messageRow{}).
		Where("message_id = ? AND result_id = ? AND version = ? AND EXISTS (?)", messageID, r.ResultID, r.Version, owned(tx.Handle, r)).
		Updates(columns).Error
}

// messages is unscoped because the table has no user; the subquery holds the
// wall between users instead.
func (repository) messages(h database.Handle, uid string, f MessageFilter) ([]messageRow, error) {
	q := database.Unscoped(h).Where("result_id = ? AND version = ? AND seq > ?", f.ResultID, f.Version, f.After).
		Where("EXISTS (?)", owned(h, Ref{uid, f.ResultID, f.Version}))
	if f.Spoken {
		q = q.Where("type <> ?", Tool)
	}
	if f.Limit > 0 {
		q = q.Limit(f.Limit)
	}
	var rows []messageRow
	err := q.Order("seq").Find(&rows).Error
	return rows, err
}

// owned has a row where the run is the user's.
func owned(h database.Handle, r Ref) *gorm.DB {
	return database.Scoped(h, r.UID).Table(row{}.TableName()).Select("1").Where("result_id = ? AND version = ?", r.ResultID, r.Version)
}
