package run

import (
	"encoding/json"
	"time"

	"github.com/portico-run/portico/modules/internal/database"
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

// TableName is the table of the PTC reference.
func (messageRow) TableName() string { return "action_messages" }

func (r messageRow) message() Message {
	return Message{
		MessageID: r.MessageID, Type: r.Type, Content: r.Content, Reasoning: deref(r.ReasoningContent),
		Usage: json.RawMessage(deref(r.UsageMeta)), CallMeta: json.RawMessage(deref(r.ToolCallMeta)), CallID: deref(r.ToolCallID),
		CreatedAt: r.CreatedAt.UTC(),
	}
}

// insertMessage is unscoped because the table has no user; its caller has
// checked whose run it is.
func (repository) insertMessage(tx database.Tx, r *messageRow) error {
	last := database.Unscoped(tx.Handle).Table(r.TableName()).Select("COALESCE(MAX(seq), 0)").
		Where("result_id = ? AND version = ?", r.ResultID, r.Version)
	if err := last.Scan(&r.Seq).Error; err != nil {
		return err
	}
	r.Seq++
	return database.Unscoped(tx.Handle).Create(r).Error
}

// messages is unscoped because the table has no user; the subquery holds the
// wall between users instead.
func (repository) messages(h database.Handle, uid, resultID string, version int) ([]messageRow, error) {
	owned := database.Scoped(h, uid).Table(row{}.TableName()).Select("1").
		Where("result_id = ? AND version = ?", resultID, version)
	var rows []messageRow
	err := database.Unscoped(h).Where("result_id = ? AND version = ? AND EXISTS (?)", resultID, version, owned).
		Order("seq").Find(&rows).Error
	return rows, err
}
